// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Package.h"

#include "compiler/package/CodeHash.h"
#include "compiler/package/Elf.h"
#include "compiler/package/OutputFile.h"
#include "compiler/package/Parts.h"
#include "compiler/package/SharedWeights.h"
#include "compiler/package/Sidecar.h"
#include "runtime/model/PackageHeader.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace heddle;

// Packages and weights begin at multiples of a huge page, so that they can be mapped as such.
static constexpr uint64_t sectionAlignment = 2 << 20;

static uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// No linked file is larger: every input once, page padding and dynamic tables.
static uint64_t linkedBound(const PackageRequest &request) {
  uint64_t bytes = 1 << 19;
  for (const ScheduledModel &variant : request.variants)
    for (const std::string &object : variant.code.objects)
      bytes += object.size();
  uint64_t archive = 0;
  if (!llvm::sys::fs::file_size(sysrootFolder(request.variants.front().target) + "/libheddle.a", archive))
    bytes += archive;
  return alignUp(bytes, sectionAlignment);
}

// Header and metadata, as .heddle.package holds them.
static std::string packageBytes(const std::string &metadata, uint64_t weightsSize, std::array<uint8_t, 32> &sha256) {
  sha256 = llvm::SHA256::hash(ArrayRef(reinterpret_cast<const uint8_t *>(metadata.data()), metadata.size()));
  heddle_package_header header = {};
  std::memcpy(header.magic, HEDDLE_PACKAGE_MAGIC, sizeof(header.magic));
  header.major = HEDDLE_PACKAGE_MAJOR;
  header.minor = HEDDLE_PACKAGE_MINOR;
  header.metadata_size = metadata.size();
  header.weights_size = weightsSize;
  std::memcpy(header.sha256, sha256.data(), sizeof(header.sha256));
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + metadata;
}

namespace {

// One output being written: [ELF][weights][package][hash of the code][section headers].
class Writer {
public:
  Writer(const PackageRequest &request, std::string &error) : request(request), error(error) {
    for (const ScheduledModel &variant : request.variants)
      modules.push_back(variant.module);
  }
  LogicalResult run();
  bool reusesSidecar = false;

private:
  LogicalResult writeSidecar(OutputFile &file);
  LogicalResult writeWeights(OutputFile &file, uint64_t offset);
  FailureOr<std::vector<std::string>> objects(ArrayRef<uint8_t> sha256);
  LogicalResult fail(const std::string &message) {
    error = message;
    return failure();
  }

  const PackageRequest &request;
  std::string &error;
  SmallVector<ModuleOp> modules; // of the variants
  std::vector<PackedWeight> weights;
};

} // namespace

LogicalResult Writer::writeWeights(OutputFile &file, uint64_t offset) {
  std::string reason; // the first that is said of a weight
  ScopedDiagnosticHandler handler(modules.front().getContext(), [&](Diagnostic &diagnostic) {
    if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason = diagnostic.str();
    return success();
  });
  FailureOr<std::vector<PackedWeight>> table = streamWeights(
      modules, request.checkpoint, [&](uint64_t at, ArrayRef<uint8_t> bytes) { return file.write(offset + at, bytes); },
      [&](uint64_t done, uint64_t all) {
        if (request.progress)
          request.progress(done, all);
      });
  if (failed(table) || !file.flush())
    return fail(!file.error().empty() ? file.error() : "weights cannot be packed: " + reason);
  weights = std::move(*table);
  return success();
}

// Leaves `file` closed where the sidecar that is there stays.
LogicalResult Writer::writeSidecar(OutputFile &file) {
  std::string path = sidecarOf(request.output);
  std::string text = request.packedFrom + "\n" + describePackings(modules, request.checkpoint);
  Sha256Digest recipe = sha256(text.data(), text.size());
  if (auto found = findInSidecar(path, planWeights(modules), recipe)) {
    weights = std::move(*found);
    reusesSidecar = true;
    return success();
  }
  if (!OutputFile::create(path, file, error) || failed(writeWeights(file, sizeof(heddle_sidecar_header))))
    return failure();
  return file.write(0, sidecarHeader(weights, recipe)) ? success() : fail(file.error());
}

// Of all variants. Those behind the first are an object each, so that their kernels, which have the same names, do not meet.
FailureOr<std::vector<std::string>> Writer::objects(ArrayRef<uint8_t> sha256) {
  MLIRContext &context = *modules.front().getContext();
  const ScheduledModel &first = request.variants.front();
  std::vector<std::string> result = first.code.objects, symbols;
  for (const ScheduledModel &variant : request.variants.drop_front()) {
    symbols.push_back("heddle_variant_" + std::to_string(symbols.size() + 1));
    FailureOr<std::string> model =
        emitVariantObject(context, symbols.back(), request.name, sha256, variant.code.entries, variant.target);
    if (failed(model))
      return fail("the descriptor of a variant cannot be emitted");
    std::vector<std::string> parts = variant.code.objects;
    parts.push_back(std::move(*model));
    FailureOr<std::string> merged = mergeObjects(parts, symbols.back(), variant.target, error);
    if (failed(merged))
      return failure();
    result.push_back(std::move(*merged));
  }
  FailureOr<std::string> model =
      emitModelObject(context, request.name, sha256, first.code.entries, first.target, symbols);
  if (failed(model))
    return fail("the model's descriptor cannot be emitted");
  result.push_back(std::move(*model));
  return result;
}

LogicalResult Writer::run() {
  OutputFile file, sidecar;
  if (!OutputFile::create(request.output, file, error))
    return failure();
  uint64_t weightsOffset = linkedBound(request);
  if (failed(request.sidecar ? writeSidecar(sidecar) : writeWeights(file, weightsOffset)))
    return failure();
  std::vector<std::vector<PackedWeight>> tables;
  for (ModuleOp module : modules)
    tables.push_back(weightsOf(module, weights));
  if (request.packed && failed(request.packed(tables)))
    return failure();
  uint64_t size = weightsSize(weights);
  std::string metadata = request.metadata(tables);
  std::array<uint8_t, 32> sha256;
  std::string package = packageBytes(metadata, request.sidecar ? 0 : size, sha256);

  FailureOr<std::vector<std::string>> parts = objects(sha256);
  if (failed(parts))
    return failure();
  FailureOr<std::string> elf =
      link(request.kind, *parts, {request.name, llvm::sys::path::filename(request.output)},
           request.variants.front().target, error, partsOf(*package::GetPackage(metadata.data())));
  if (failed(elf))
    return failure();
  if (elf->size() > weightsOffset)
    return fail("internal error: the linked file is larger than its bound");

  uint64_t packageOffset = request.sidecar ? alignUp(elf->size(), addedSectionAlignment)
                                           : alignUp(weightsOffset + size, addedSectionAlignment);
  uint64_t codeHashOffset = alignUp(packageOffset + package.size(), addedSectionAlignment);
  std::string codeHash;
  // What somebody links from an object is other code.
  if (request.kind != LinkKind::Relocatable && !hashCode(*elf, codeHash, error))
    return failure();
  uint64_t tailOffset = alignUp(codeHashOffset + codeHash.size(), 8);
  std::vector<AddedSection> sections = {{HEDDLE_PACKAGE_SECTION, packageOffset, package.size()}};
  if (!codeHash.empty())
    sections.push_back({HEDDLE_CODE_SECTION, codeHashOffset, codeHash.size()});
  if (!request.sidecar)
    sections.push_back({HEDDLE_WEIGHTS_SECTION, weightsOffset, size});
  std::string tail = declareSections(*elf, sections, tailOffset, modelNoteSection);
  if (!file.write(0, *elf) || !file.write(packageOffset, package) || !file.write(codeHashOffset, codeHash) ||
      !file.write(tailOffset, tail))
    return fail(file.error());
  bool isProgram = request.kind == LinkKind::Executable;
  return (sidecar.isOpen() ? file.keepWith(sidecar, isProgram) : file.keep(isProgram)) ? success() : fail(file.error());
}

LogicalResult heddle::writePackage(const PackageRequest &request, bool &reusesSidecar, std::string &error) {
  Writer writer(request, error);
  LogicalResult written = writer.run();
  reusesSidecar = writer.reusesSidecar;
  return written;
}
