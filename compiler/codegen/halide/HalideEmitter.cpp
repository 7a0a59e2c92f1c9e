// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/HalideEmitter.h"

#include "compiler/codegen/halide/Schedules.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using namespace mlir;

// From the target's own description; the machine that compiles is never asked.
static Halide::Target halideTarget(const CpuTarget &target) {
  using H = Halide::Target;
  // Strict: no reassociation or contraction, so that a row has the same bits in a vector and in a tail.
  std::vector<H::Feature> features = {H::NoRuntime, H::NoAsserts, H::NoBoundsQuery, H::StrictFloat, H::LargeBuffers};
  if (target.isAArch64()) {
    if (target.has("dotprod"))
      features.push_back(H::ARMDotProd);
    if (target.has("fullfp16"))
      features.push_back(H::ARMFp16);
    return H(H::Linux, H::ARM, 64, features);
  }
  features.push_back(H::SSE41);
  features.push_back(H::AVX);
  for (auto [name, feature] : {std::pair("avx2", H::AVX2), std::pair("fma", H::FMA), std::pair("f16c", H::F16C)})
    if (target.has(name))
      features.push_back(feature);
  if (target.hasAvx512())
    features.insert(features.end(), {H::AVX512, H::AVX512_Skylake});
  return H(H::Linux, H::X86, 64, features);
}

// Halide compiles to files only.
static FailureOr<std::string> compileObject(func::FuncOp kernel, Halide::Module module) {
  llvm::SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("heddle-kernel", "o", path))
    return kernel.emitError("no temporary file for an object: ") << error.message();
  llvm::scope_exit remove([&] { llvm::sys::fs::remove(path); });
  module.compile({{Halide::OutputFileType::object, std::string(path)}});
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return kernel.emitError("cannot read ") << path << ": " << buffer.getError().message();
  return (*buffer)->getBuffer().str();
}

// The object defines the symbol and needs nothing but memcpy and memset: there is no Halide runtime, and libm would round
// otherwise on every machine.
static LogicalResult checkSymbols(func::FuncOp kernel, llvm::StringRef bytes, llvm::StringRef symbol) {
  auto object = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(bytes, symbol));
  if (!object)
    return kernel.emitError("internal: Halide's object is unreadable: ") << llvm::toString(object.takeError());
  bool defined = false;
  for (const llvm::object::SymbolRef &entry : (*object)->symbols()) {
    llvm::Expected<llvm::StringRef> name = entry.getName();
    llvm::Expected<uint32_t> flags = entry.getFlags();
    if (!name || !flags)
      return kernel.emitError("internal: Halide's object has an unreadable symbol");
    bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name->empty() && *name != "memcpy" && *name != "memset")
      return kernel.emitError("internal: kernel ") << symbol << " needs '" << *name << "'";
    defined |= !undefined && *name == symbol;
  }
  return defined ? success() : kernel.emitError("internal: Halide's object does not define ") << symbol;
}

FailureOr<std::string> heddle::emitHalideKernel(func::FuncOp kernel, const CpuTarget &target, llvm::StringRef symbol) {
  try {
    FailureOr<Algorithm> algorithm = buildAlgorithm(kernel, symbol);
    if (failed(algorithm))
      return failure();
    scheduleRows(*algorithm, target.vectorLanes());
    std::vector<Halide::Func> results;
    for (const Output &output : algorithm->outputs)
      results.push_back(output.func);
    Halide::Module module = Halide::Pipeline(results).compile_to_module(
        algorithm->arguments, symbol.str(), halideTarget(target), Halide::LinkageType::External);
    FailureOr<std::string> object = compileObject(kernel, module);
    if (failed(object) || failed(checkSymbols(kernel, *object, symbol)))
      return failure();
    return object;
  } catch (const Halide::Error &error) {
    return kernel.emitError("Halide: ") << error.what();
  }
}
