// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/KernelLibrary.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace heddle;
using namespace heddle::test;

static std::string findLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  return "";
}

// Links `object` into a shared library next to it and opens that.
static void *linkAndOpen(llvm::StringRef object, llvm::StringRef library) {
  std::string linker = findLinker(), message;
  llvm::StringRef arguments[] = {linker, "-shared", "--no-undefined", "-o", library, object};
  if (linker.empty() || llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt, {}, 0, 0, &message)) {
    llvm::errs() << "linking kernels failed: " << message << "\n";
    return nullptr;
  }
  void *handle = dlopen(library.str().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    llvm::errs() << dlerror() << "\n";
  return handle;
}

std::unique_ptr<KernelLibrary> KernelLibrary::load(mlir::ModuleOp module, const CpuTarget &target) {
  if (failed(lowerToLLVM(module, target)))
    return nullptr;
  auto code = emitMachineCode(module, target, MachineCode::Object);
  if (failed(code))
    return nullptr;
  llvm::SmallString<128> object, library;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("heddle-kernels", "o", descriptor, object) ||
      llvm::sys::fs::createTemporaryFile("heddle-kernels", "so", library))
    return nullptr;
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << *code;
  void *handle = linkAndOpen(object, library);
  llvm::sys::fs::remove(object);
  llvm::sys::fs::remove(library);
  return handle ? std::unique_ptr<KernelLibrary>(new KernelLibrary(handle)) : nullptr;
}

KernelLibrary::~KernelLibrary() { dlclose(handle); }

void *KernelLibrary::find(const char *name) const { return dlsym(handle, name); }

mlir::MLIRContext &heddle::test::kernelContext() {
  static mlir::MLIRContext *context = [] {
    mlir::DialectRegistry registry;
    registerCodegenDialects(registry);
    auto *created = new mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
    created->loadAllAvailableDialects();
    return created;
  }();
  return *context;
}

CpuTarget heddle::test::targetNamed(const char *name) {
  std::string error;
  auto target = parseCpuTarget(name, error);
  if (failed(target))
    llvm::report_fatal_error(llvm::StringRef(error));
  return *target;
}
