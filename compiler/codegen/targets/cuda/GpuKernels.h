// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The PTX module of a model, which holds every kernel that MLIR emits for its GPU, and the host functions that launch them. The
// module is a constant of the host code.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUKERNELS_H

#include "compiler/codegen/kernel/HostKernel.h"
#include "compiler/codegen/machine/EmitObject.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

class GpuKernels {
public:
  // Host functions go to `code`.
  GpuKernels(mlir::ModuleOp code, const GpuTarget &target);

  // Where kernels are built.
  mlir::gpu::GPUModuleOp kernels;

  // After the last kernel: gives the host functions their PTX. Returns the module as text of `kind`, PTX for objects.
  mlir::FailureOr<std::string> finish(MachineCode kind);

  // Instead of finish(): moves the kernels to `module`, which declares what would hold their PTX.
  void show(mlir::ModuleOp module);

private:
  mlir::ModuleOp code;
  const GpuTarget &target;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// A host function that launches kernels of the PTX module.
class LaunchBuilder : public HostKernel {
public:
  using HostKernel::HostKernel;

  mlir::Value narrow(mlir::Value value);
  // The address of the kernel's name.
  mlir::Value entry(llvm::StringRef kernel);

  // What the next launch passes: an address, or a number.
  void add(mlir::Value value) { arguments.push_back(value); }
  // `blocks`: (x, y, z). `sharedBytes`: besides what the kernel declares; null: none.
  void launch(mlir::Value entry, llvm::ArrayRef<mlir::Value> blocks, mlir::Value threads, mlir::Value sharedBytes = {});

private:
  llvm::SmallVector<mlir::Value> arguments;
};

} // namespace heddle

#endif
