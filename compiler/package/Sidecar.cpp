// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/package/Sidecar.h"

#include "bytes/MappedFile.h"
#include "bytes/WholeFile.h"
#include "runtime/model/PackageHeader.h"
#include "runtime/model/WeightsHash.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using llvm::ArrayRef;

std::string heddle::sidecarOf(const std::string &output) {
  std::string file;
  return (resolveOutput(output, file).isOk() ? file : output) + HEDDLE_SIDECAR_SUFFIX;
}

uint64_t heddle::weightsSize(ArrayRef<PackedWeight> weights) {
  uint64_t size = 0;
  for (const PackedWeight &weight : weights)
    size = std::max(size, weight.offset + weight.size);
  return size;
}

static heddle_sidecar_header headerOf(ArrayRef<PackedWeight> weights, const Sha256Digest &recipe) {
  heddle_sidecar_header header = {};
  std::memcpy(header.magic, HEDDLE_SIDECAR_MAGIC, sizeof(header.magic));
  header.major = HEDDLE_PACKAGE_MAJOR;
  header.minor = HEDDLE_PACKAGE_MINOR;
  header.weights_offset = sizeof(header);
  header.weights_size = weightsSize(weights);
  WeightsHash hash;
  for (const PackedWeight &weight : weights)
    hash.add(weight.offset, weight.size, weight.sha256.data());
  Sha256Digest digest = hash.finish();
  std::memcpy(header.weights_sha256, digest.data(), digest.size());
  std::memcpy(header.recipe_sha256, recipe.data(), recipe.size());
  return header;
}

std::string heddle::sidecarHeader(ArrayRef<PackedWeight> weights, const Sha256Digest &recipe) {
  heddle_sidecar_header header = headerOf(weights, recipe);
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header));
}

std::optional<std::vector<PackedWeight>>
heddle::findInSidecar(const std::string &path, std::vector<PackedWeight> planned, const Sha256Digest &recipe) {
  MappedFile file;
  heddle_sidecar_header header;
  if (!file.open(path).isOk() || file.size() < sizeof(header))
    return std::nullopt;
  uint64_t size = file.size() - sizeof(header);
  // Another recipe is seen before all bytes are read; a version, a size or a weight that differs is seen in the header that they all make.
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.recipe_sha256, recipe.data(), recipe.size()) != 0)
    return std::nullopt;
  for (PackedWeight &weight : planned) {
    if (weight.offset > size || weight.size > size - weight.offset)
      return std::nullopt;
    weight.sha256 = sha256(file.data() + sizeof(header) + weight.offset, weight.size);
  }
  heddle_sidecar_header expected = headerOf(planned, recipe);
  if (size != weightsSize(planned) || std::memcmp(&header, &expected, sizeof(header)) != 0)
    return std::nullopt;
  return planned;
}
