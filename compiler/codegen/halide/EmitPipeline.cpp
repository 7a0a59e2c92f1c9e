// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/EmitPipeline.h"

#include "compiler/codegen/halide/StoredIf.h"
#include "compiler/codegen/machine/TemporaryFiles.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using namespace mlir;

// From the target's own description; the machine that compiles is never asked.
static Halide::Target halideTarget(const Target &whole) {
  using H = Halide::Target;
  const CpuTarget &target = whole.cpu;
  // Strict: no reassociation or contraction, so that a row has the same bits in a vector and in a tail.
  std::vector<H::Feature> features = {H::NoRuntime, H::NoAsserts, H::NoBoundsQuery, H::StrictFloat, H::LargeBuffers};
  if (whole.isDevice()) {
    features.push_back(H::UserContext);
    features.push_back(whole.device == DeviceKind::OpenCl ? H::OpenCL : H::CUDA);
    if (whole.device == DeviceKind::Cuda)
      features.push_back(H::CUDACapability80);
    return H(H::Linux, H::X86, 64, features);
  }
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

namespace {
// Halide prints warnings by default; one that promises a failure at run time is an error of ours, the others tell
// what we know.
class Reporter : public Halide::CompileTimeErrorReporter {
public:
  Reporter() { Halide::set_custom_compile_time_error_reporter(this); }
  ~Reporter() override { Halide::set_custom_compile_time_error_reporter(nullptr); }
  void warning(const char *message) override {
    if (llvm::StringRef(message).contains("guaranteed to fail"))
      error(message);
  }
  [[noreturn]] void error(const char *message) override { throw Halide::CompileError(message); }
};
} // namespace

namespace {
// Rows beyond 16 KiB, and those behind the guard that fused row loops put around what they share (it always holds), would
// come from the heap. In the last form of the program, the only memory without such a limit is called Register.
class AllocateOnStack : public Halide::Internal::IRMutator {
protected:
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::Allocate *op) override {
    return Halide::Internal::Allocate::make(op->name, op->type, Halide::MemoryType::Register, op->extents,
                                            Halide::Internal::const_true(), mutate(op->body));
  }
};
} // namespace

// Halide compiles to files only.
static FailureOr<std::string> compileObject(Location loc, const Halide::Module &module) {
  TemporaryFiles scratch;
  std::string path;
  if (std::error_code error = scratch.add("", path))
    return emitError(loc) << "no temporary file for an object: " << error.message();
  module.compile({{Halide::OutputFileType::object, path}});
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return emitError(loc) << "cannot read " << path << ": " << buffer.getError().message();
  return (*buffer)->getBuffer().str();
}

// What an object may need: memory functions, and for a device what runtime/device/HalideLaunch.c defines.
static bool isProvided(llvm::StringRef name, const Target &target) {
  if (name == "memcpy" || name == "memset")
    return true;
  if (!target.isDevice())
    return false;
  llvm::StringRef api = target.device == DeviceKind::OpenCl ? "halide_opencl_" : "halide_cuda_";
  return name == "halide_copy_to_device" ||
         (name.consume_front(api) &&
          llvm::is_contained({"initialize_kernels", "finalize_kernels", "run", "device_interface"}, name));
}

// The object defines the symbol and needs nothing else: there is no Halide runtime, and libm would round otherwise on every
// machine.
static LogicalResult checkSymbols(Location loc, llvm::StringRef bytes, llvm::StringRef symbol, const Target &target) {
  auto object = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(bytes, symbol));
  if (!object)
    return emitError(loc) << "internal: Halide's object is unreadable: " << llvm::toString(object.takeError());
  bool defined = false;
  for (const llvm::object::SymbolRef &entry : (*object)->symbols()) {
    llvm::Expected<llvm::StringRef> name = entry.getName();
    llvm::Expected<uint32_t> flags = entry.getFlags();
    if (!name || !flags)
      return emitError(loc) << "internal: Halide's object has an unreadable symbol";
    bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name->empty() && !isProvided(*name, target))
      return emitError(loc) << "internal: kernel " << symbol << " needs '" << *name << "'";
    defined |= !undefined && *name == symbol;
  }
  return defined ? success() : emitError(loc) << "internal: Halide's object does not define " << symbol;
}

FailureOr<std::string> heddle::emitPipeline(Location loc, const Target &target, llvm::StringRef symbol,
                                            llvm::function_ref<FailureOr<ScheduledPipeline>()> build) {
  try {
    Reporter reporter;
    FailureOr<ScheduledPipeline> scheduled = build();
    if (failed(scheduled))
      return failure();
    Halide::Pipeline pipeline(scheduled->results);
    if (!target.isDevice())
      pipeline.add_custom_lowering_pass(new AllocateOnStack); // owned by the pipeline
    if (!scheduled->registers.empty())
      pipeline.add_custom_lowering_pass(makeKeepOwnRegisters(scheduled->registers));
    if (target.isDevice() && scheduled->results[0].outputs() > 1)
      pipeline.add_custom_lowering_pass(makeStoreIf());
    Halide::Module module = pipeline.compile_to_module(scheduled->arguments, symbol.str(), halideTarget(target),
                                                       Halide::LinkageType::External);
    FailureOr<std::string> object = compileObject(loc, module);
    if (failed(object) || failed(checkSymbols(loc, *object, symbol, target)))
      return failure();
    return object;
  } catch (const Halide::Error &error) {
    return emitError(loc) << "Halide: " << llvm::StringRef(error.what()).trim();
  }
}
