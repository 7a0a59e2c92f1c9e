// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a module of kernels into the test process, the way a compiled model reaches one: object, link, dlopen.
#ifndef HEDDLE_TEST_EXECUTE_KERNELLIBRARY_H
#define HEDDLE_TEST_EXECUTE_KERNELLIBRARY_H

#include "compiler/codegen/EmitObject.h"

#include <memory>
#include <string>

namespace heddle::test {

class KernelLibrary {
public:
  // Lowers, emits, links and loads `module`. Null, with the reason on stderr, where a step fails.
  static std::unique_ptr<KernelLibrary> load(mlir::ModuleOp module, const CpuTarget &target);
  ~KernelLibrary();

  template <typename Function> Function *get(const char *name) const {
    return reinterpret_cast<Function *>(find(name));
  }

private:
  explicit KernelLibrary(void *handle) : handle(handle) {}
  void *find(const char *name) const;
  void *handle;
};

// A context that knows the dialects of kernels.
mlir::MLIRContext &kernelContext();

// The target `name`, which must exist.
CpuTarget targetNamed(const char *name);

} // namespace heddle::test

#endif
