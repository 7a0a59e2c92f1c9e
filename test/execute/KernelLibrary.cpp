// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/EmitObject.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace heddle;
using namespace heddle::test;

KernelLibrary::KernelLibrary(const std::string &targetName) {
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  moduleRef = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  std::string error;
  mlir::FailureOr<CpuTarget> parsed = parseCpuTarget(targetName, error);
  if (failed(parsed))
    llvm::errs() << error << '\n';
  else
    cpuTarget = *parsed;
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    dlclose(handle);
}

std::vector<std::string> KernelLibrary::runnableTargets() {
  std::vector<std::string> targets = {"native"};
  std::string error;
  CpuTarget host = *parseCpuTarget("native", error);
  for (const char *name : {"x86-64-v4", "x86-64-v3"})
    if (CpuTarget level = *parseCpuTarget(name, error); level.triple == host.triple)
      if (llvm::all_of(level.features, [&](const std::string &feature) { return host.has(feature); }))
        targets.push_back(name);
  return targets;
}

bool KernelLibrary::load() {
  if (failed(moduleRef->verify()) || failed(lowerToLLVM(*moduleRef, cpuTarget)))
    return false;
  mlir::FailureOr<std::string> object = emitMachineCode(*moduleRef, cpuTarget, MachineCode::Object);
  if (failed(object))
    return false;
  llvm::SmallString<128> objectPath, libraryPath;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("kernels", "o", descriptor, objectPath) ||
      llvm::sys::fs::createTemporaryFile("kernels", "so", libraryPath))
    return false;
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << *object;
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      HEDDLE_LLD, {HEDDLE_LLD, "-shared", "-o", libraryPath, objectPath}, std::nullopt, {}, 0, 0, &message);
  if (status == 0)
    handle = dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    llvm::errs() << (status ? message : dlerror()) << '\n';
  llvm::sys::fs::remove(objectPath);
  llvm::sys::fs::remove(libraryPath);
  return handle != nullptr;
}

void *KernelLibrary::symbol(const std::string &name) { return dlsym(handle, name.c_str()); }

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
