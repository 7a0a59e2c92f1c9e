// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/PackageFile.h"

#include "runtime/model/WeightsHash.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace heddle {

static bool contains(uint64_t size, uint64_t offset, uint64_t length) {
  return offset <= size && length <= size - offset;
}

Status PackageFile::open(const std::string &path, uint16_t wantedMachine, FileMemory newMemory) {
  memory = newMemory;
  HEDDLE_RETURN_IF_ERROR(file.open(path, memory));
  filePath = path;
  HEDDLE_RETURN_IF_ERROR(findSections(wantedMachine));
  return readHeader();
}

Status PackageFile::findSections(uint16_t wantedMachine) {
  HEDDLE_RETURN_IF_ERROR(sections.read(file.data(), file.size(), filePath));
  if (wantedMachine != EM_NONE && elfHeader().e_machine != wantedMachine)
    return Status::failure(format("%s: code for another machine (e_machine %u, this one has %u)", filePath.c_str(),
                                  elfHeader().e_machine, wantedMachine));
  HEDDLE_RETURN_IF_ERROR(sections.find(HEDDLE_PACKAGE_SECTION, packageBytes, packageSize));
  HEDDLE_RETURN_IF_ERROR(sections.find(HEDDLE_WEIGHTS_SECTION, weightBytes, weightSectionSize));
  uint64_t hashSize;
  HEDDLE_RETURN_IF_ERROR(sections.find(HEDDLE_CODE_SECTION, codeHash, hashSize));
  if (codeHash && hashSize != sizeof(Sha256Digest))
    return damagedFile(format("%s: " HEDDLE_CODE_SECTION " has %llu bytes, a SHA-256 %zu", filePath.c_str(),
                              (unsigned long long)hashSize, sizeof(Sha256Digest)));
  return packageBytes ? Status() : damagedFile(filePath + ": no section " HEDDLE_PACKAGE_SECTION);
}

static Status checkFormatVersion(const std::string &path, const char *what, unsigned major, unsigned minor) {
  if (major == HEDDLE_PACKAGE_MAJOR)
    return Status();
  bool isNewer = major > HEDDLE_PACKAGE_MAJOR;
  return Status::failure(format("%s: %s version %u.%u is %s than %u, which is read here: %s", path.c_str(), what, major,
                                minor, isNewer ? "newer" : "older", HEDDLE_PACKAGE_MAJOR,
                                isNewer ? "a newer Heddle is needed" : "compile the model again"));
}

Status PackageFile::readHeader() {
  if (packageSize < sizeof header)
    return damagedFile(format("%s: " HEDDLE_PACKAGE_SECTION " has %llu bytes, a header %zu", filePath.c_str(),
                              (unsigned long long)packageSize, sizeof header));
  memcpy(&header, packageBytes, sizeof header);
  if (memcmp(header.magic, HEDDLE_PACKAGE_MAGIC, sizeof header.magic) != 0)
    return damagedFile(filePath + ": package header: bad magic, expected " HEDDLE_PACKAGE_MAGIC);
  HEDDLE_RETURN_IF_ERROR(checkFormatVersion(filePath, "package", header.major, header.minor));
  if (!contains(packageSize - sizeof header, 0, header.metadata_size) ||
      header.metadata_size > FLATBUFFERS_MAX_BUFFER_SIZE)
    return damagedFile(format("%s: package header: metadata_size %llu, the section holds %llu", filePath.c_str(),
                              (unsigned long long)header.metadata_size,
                              (unsigned long long)(packageSize - sizeof header)));
  return Status();
}

Status PackageFile::next(bool &outFound) {
  auto padded = [](uint64_t size) { return (size + 63) / 64 * 64; };
  uint64_t step = padded(sizeof header + header.metadata_size);
  outFound = step < packageSize && header.weights_size <= weightSectionSize;
  if (!outFound)
    return Status();
  uint64_t weightStep = std::min(padded(header.weights_size), weightSectionSize);
  packageBytes += step;
  packageSize -= step;
  weightBytes += weightStep;
  weightSectionSize -= weightStep;
  return readHeader();
}

Status PackageFile::readMetadata() {
  const uint8_t *metadata = packageBytes + sizeof header;
  Sha256Digest digest = sha256(metadata, header.metadata_size);
  if (memcmp(digest.data(), header.sha256, digest.size()) != 0)
    return damagedFile(filePath + ": the package's metadata is damaged (SHA-256 " + hexadecimal(digest.data(), 8) +
                       "…, the header says " + hexadecimal(header.sha256, 8) + "…)");
  // Section alignment is the file's business; FlatBuffers needs 8 bytes.
  if (reinterpret_cast<uintptr_t>(metadata) % 8 != 0)
    return damagedFile(filePath + ": " HEDDLE_PACKAGE_SECTION " is not aligned to 8 bytes");
  flatbuffers::Verifier verifier(metadata, header.metadata_size, 16, 64u << 20);
  if (!package::VerifyPackageBuffer(verifier))
    return damagedFile(filePath + ": the package's metadata is not valid FlatBuffers");
  root = package::GetPackage(metadata);
  selected = 0;
  isSelected = false;
  return checkMetadata(*root, filePath);
}

std::vector<PackageFile::PlacedWeight> PackageFile::placedWeights() const {
  std::vector<PlacedWeight> placed;
  for (size_t i = 0; i < numVariants(); ++i)
    if (variant(i).weights())
      for (const package::Weight *weight : *variant(i).weights())
        placed.push_back({weight, i});
  if (numVariants() == 1)
    return placed;
  auto compare = [](const PlacedWeight &a, const PlacedWeight &b) {
    const package::Weight &x = *a.weight, &y = *b.weight;
    if (x.offset() != y.offset() || x.size() != y.size())
      return x.offset() != y.offset() ? (x.offset() < y.offset() ? -1 : 1) : x.size() < y.size() ? -1 : 1;
    return memcmp(x.sha256()->data(), y.sha256()->data(), sizeof(Sha256Digest));
  };
  std::stable_sort(placed.begin(), placed.end(),
                   [&](const PlacedWeight &a, const PlacedWeight &b) { return compare(a, b) < 0; });
  size_t count = 0;
  for (const PlacedWeight &next : placed)
    if (count && compare(placed[count - 1], next) == 0)
      placed[count - 1].isShared |= placed[count - 1].variant != next.variant;
    else
      placed[count++] = next;
  placed.resize(count, {nullptr, 0});
  return placed;
}

PackageFile::WeightShares PackageFile::weightShares() const {
  WeightShares shares;
  shares.own.resize(numVariants());
  for (const PlacedWeight &placed : placedWeights())
    (placed.isShared ? shares.shared : shares.own[placed.variant]) += placed.weight->size();
  return shares;
}

Status PackageFile::findWeights() {
  uint64_t expected = root->weights_size();
  if (header.weights_size != 0) {
    if (header.weights_size != expected || weightSectionSize < expected)
      return damagedFile(format("%s: " HEDDLE_WEIGHTS_SECTION
                                " has %llu bytes, the header says %llu and the metadata %llu",
                                filePath.c_str(), (unsigned long long)weightSectionSize,
                                (unsigned long long)header.weights_size, (unsigned long long)expected));
  } else if (expected != 0) {
    std::string path = filePath + HEDDLE_SIDECAR_SUFFIX;
    Status status = sidecar.open(path, memory);
    // Code that was loaded through a link has its weights beside the file that the link leads to.
    if (char *real = status.isOk() ? nullptr : realpath(filePath.c_str(), nullptr)) {
      std::string beside = std::string(real) + HEDDLE_SIDECAR_SUFFIX;
      free(real);
      if (sidecar.open(beside, memory).isOk())
        path = beside, status = Status();
    }
    if (!status.isOk())
      return Status::failure(status.message() + " (the weights of " + filePath + ")");
    heddle_sidecar_header side = {};
    if (sidecar.size() < sizeof side)
      return damagedFile(path + ": truncated: no header");
    memcpy(&side, sidecar.data(), sizeof side);
    if (memcmp(side.magic, HEDDLE_SIDECAR_MAGIC, sizeof side.magic) != 0)
      return Status::failure(path + ": weights header: bad magic, expected " HEDDLE_SIDECAR_MAGIC);
    HEDDLE_RETURN_IF_ERROR(checkFormatVersion(path, "weights", side.major, side.minor));
    WeightsHash hash;
    for (const PlacedWeight &placed : placedWeights())
      hash.add(placed.weight->offset(), placed.weight->size(), placed.weight->sha256()->data());
    if (Sha256Digest own = hash.finish(); memcmp(side.weights_sha256, own.data(), own.size()) != 0)
      return Status::failure(path + ": the weights belong to another package than " + filePath);
    if (side.weights_size != expected || side.weights_offset < sizeof side ||
        !contains(sidecar.size(), side.weights_offset, side.weights_size))
      return damagedFile(
          format("%s: weights of %llu bytes at byte %llu, the file has %llu bytes and the metadata wants %llu",
                 path.c_str(), (unsigned long long)side.weights_size, (unsigned long long)side.weights_offset,
                 (unsigned long long)sidecar.size(), (unsigned long long)expected));
    weightBytes = sidecar.data() + side.weights_offset;
  }
  if (reinterpret_cast<uintptr_t>(weightBytes) % 64 != 0)
    return damagedFile(filePath + ": the weights are not aligned to 64 bytes");
  return Status();
}

Status PackageFile::checkWeights() const {
  for (const PlacedWeight &placed : placedWeights()) {
    const package::Weight *weight = placed.weight;
    Sha256Digest digest = sha256(weightBytes + weight->offset(), weight->size());
    if (memcmp(digest.data(), weight->sha256()->data(), digest.size()) != 0)
      return damagedFile(format("%s: weight '%s' (%llu bytes at %llu) is damaged: SHA-256 differs", filePath.c_str(),
                                weight->name()->c_str(), (unsigned long long)weight->size(),
                                (unsigned long long)weight->offset()));
  }
  return Status();
}

Status PackageFile::checkCode() const {
  if (!codeHash)
    return Status();
  Sha256Digest digest;
  HEDDLE_RETURN_IF_ERROR(sections.hashCode(digest));
  if (memcmp(digest.data(), codeHash, digest.size()) == 0)
    return Status();
  return damagedFile(filePath + ": the code is damaged (SHA-256 " + hexadecimal(digest.data(), 8) +
                     "…, " HEDDLE_CODE_SECTION " says " + hexadecimal(codeHash, 8) + "…)");
}

} // namespace heddle
