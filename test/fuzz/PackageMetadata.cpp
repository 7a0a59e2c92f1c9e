// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Package.h"

#include "test/fuzz/Targets.h"

#include <cstring>
#include <memory>
#include <vector>

using namespace heddle;

std::string fuzz::packageMetadata(std::string_view bytes) {
  // FlatBuffers are read where they lie, at an aligned address.
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  memcpy(aligned.data(), bytes.data(), bytes.size());
  auto *data = reinterpret_cast<const uint8_t *>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!package::VerifyPackageBuffer(verifier))
    return {};
  const package::Package *root = package::GetPackage(data);
  Status status = checkMetadata(*root, "fuzz");
  if (!status.isOk())
    return wrongMessage(status.message());
  // What passes both checks can be read in full.
  std::unique_ptr<package::PackageT> unpacked(root->UnPack());
  return {};
}
