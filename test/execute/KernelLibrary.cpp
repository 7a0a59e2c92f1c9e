// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/schedule/ScheduleTable.h"
#include "test/execute/EmulatedInstructions.h"

#include "runtime/model/CpuFeatures.h"

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::test;

static constexpr llvm::StringLiteral emulatedPrefix = "emulated-";

bool heddle::test::isNightly() {
  return std::getenv("HEDDLE_NIGHTLY") != nullptr;
}

static CpuTarget cpuTargetNamed(llvm::StringRef name) {
  std::string error;
  mlir::FailureOr<CpuTarget> target = parseCpuTarget(name, error);
  if (failed(target))
    llvm::errs() << error << '\n';
  return failed(target) ? CpuTarget() : *target;
}

KernelLibrary::KernelLibrary(const std::string &targetName) {
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  registry.insert<HeddleDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  moduleRef = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  llvm::StringRef name = targetName;
  isEmulated = name.consume_front(emulatedPrefix);
  cpuTarget = cpuTargetNamed(name);
}

ScheduleAttr KernelLibrary::matmulSchedule(bool isInStep, llvm::StringRef format, int64_t k) {
  ScheduleAttr schedule = heddle::matmulSchedule(targetAttr(&context, cpuTarget), isInStep, format, k);
  scratchBytes = std::max(scratchBytes, schedule.getScratchBytes());
  return schedule;
}

void *KernelLibrary::scratch() {
  using llvm::sys::Memory;
  if (!scratchBytes)
    return nullptr;
  // Parts of the scratch are megabytes: one that lies behind it may begin there.
  constexpr int64_t guard = 8 << 20;
  int64_t whole = llvm::alignTo(scratchBytes, llvm::sys::Process::getPageSizeEstimate());
  if (scratchBytes > scratchCapacity) {
    std::error_code error;
    scratchMemory = llvm::sys::OwningMemoryBlock(
        Memory::allocateMappedMemory(whole + guard, nullptr, Memory::MF_READ | Memory::MF_WRITE, error));
    if (error || mprotect(static_cast<char *>(scratchMemory.base()) + whole, guard, PROT_NONE) != 0)
      llvm::report_fatal_error("no scratch memory with a guard");
    std::memset(scratchMemory.base(), 0xff, whole); // NaN
    scratchCapacity = scratchBytes;
  }
  return static_cast<char *>(scratchMemory.base()) + whole - llvm::alignTo(scratchBytes, 64);
}

AttentionSpec KernelLibrary::withRegisters(const AttentionSpec &spec) {
  AttentionSpec scheduled = spec, result = spec;
  applySchedule(scheduled, attentionSchedule(targetAttr(&context, cpuTarget), spec.headDim));
  result.registerRows = scheduled.registerRows;
  result.registerColumns = scheduled.registerColumns;
  result.prefetchCache = scheduled.prefetchCache;
  return result;
}

// Whether this machine has all that `name` stands for.
static bool isRunnable(llvm::StringRef name) {
  CpuTarget level = cpuTargetNamed(name), host = cpuTargetNamed("native");
  return level.triple == host.triple &&
         llvm::all_of(level.features, [](const std::string &feature) { return hasCpuFeature(feature); });
}

std::vector<std::string> KernelLibrary::runnableTargets() {
  std::vector<std::string> targets = {"native"};
  for (const char *name : {"x86-64-v4", "alderlake", "x86-64-v3"})
    if (isRunnable(name))
      targets.push_back(name);
  return targets;
}

static std::vector<std::string> withEmulated(llvm::ArrayRef<const char *> names) {
  std::vector<std::string> targets;
  for (const char *name : names) {
    targets.push_back(emulatedPrefix.str() + name);
    if (isRunnable(name))
      targets.push_back(name);
  }
  return targets;
}

std::vector<std::string> KernelLibrary::bf16Targets() {
  return withEmulated({"znver5", "sapphirerapids", "neoverse-v1"});
}

std::vector<std::string> KernelLibrary::int8TileTargets() {
  return withEmulated({"sapphirerapids"});
}

// Kernels need the C library's memory functions and nothing else.
static bool isSelfContained(const std::string &object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernels.o"));
  if (!file)
    return llvm::errs() << llvm::toString(file.takeError()) << '\n', false;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::StringRef name = llvm::cantFail(symbol.getName());
    bool undefined = llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name.empty() && name != "memset" && name != "memcpy")
      return llvm::errs() << "undefined symbol " << name << '\n', false;
  }
  return true;
}

std::optional<std::string> KernelLibrary::compile() {
  if (isEmulated)
    emulateInstructions(*moduleRef);
  CpuTarget machine = isEmulated ? cpuTargetNamed("native") : cpuTarget;
  if (failed(moduleRef->verify()) || failed(lowerToLLVM(*moduleRef, machine)))
    return std::nullopt;
  mlir::FailureOr<std::string> object = emitMachineCode(*moduleRef, machine, MachineCode::Object);
  if (failed(object) || !isSelfContained(*object))
    return std::nullopt;
  return *object;
}

bool KernelLibrary::load() {
  std::optional<std::string> object = compile();
  std::string error;
  if (!object)
    return false;
  bool isLoaded = loaded.load(*object, HEDDLE_LLD, error);
  if (!isLoaded)
    llvm::errs() << error << '\n';
  return isLoaded;
}

uint32_t Random::bits() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return uint32_t(state >> 32);
}

static constexpr float guardValue = 12345.678f;

GuardedMatrix::GuardedMatrix(int64_t rows, int64_t columns)
    : rows(rows), columns(columns), stride(columns + 5), values(2 * guard + rows * stride, guardValue) {}

bool GuardedMatrix::guardsIntact() const {
  for (int64_t i = 0; i < int64_t(values.size()); ++i) {
    int64_t inside = i - guard;
    bool element = inside >= 0 && inside < rows * stride && inside % stride < columns;
    if (!element && values[i] != guardValue)
      return false;
  }
  return true;
}
