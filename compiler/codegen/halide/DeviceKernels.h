// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of a device, as host functions that enqueue them, by MLIR where a GPU has tensor cores for them, else by Halide: each has the parameters of the CPU's kernel (cpu/*.h) and one more,
// `const heddle_step *step`, whose device it is enqueued on. Pointers are the device's addresses; one thread calls, for all of
// the work, so slices are whole.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEKERNELS_H

#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/halide/DevicePipelines.h"

#include "llvm/ADT/StringSet.h"

namespace heddle {

// The first op of a module of model ops that devices have no kernel for, and what of it; empty if they have all.
std::string missingDeviceKernel(mlir::ModuleOp module);

class DeviceKernels {
public:
  // Host functions go to `code`, what Halide emits for them to `objects`, and their names to `halideKernels`.
  DeviceKernels(mlir::ModuleOp code, const Target &target, std::vector<std::string> &objects,
                llvm::StringSet<> &halideKernels)
      : code(code), target(target), objects(objects), halideKernels(halideKernels) {
    if (target.gpu)
      gpu.emplace(code, *target.gpu);
  }

  mlir::FailureOr<mlir::func::FuncOp> matmul(mlir::Operation *op, llvm::StringRef name, const MatmulSpec &spec);
  mlir::FailureOr<mlir::func::FuncOp> embedding(mlir::Operation *op, llvm::StringRef name, const EmbeddingSpec &spec,
                                                int64_t n);
  mlir::FailureOr<mlir::func::FuncOp> attention(mlir::Operation *op, llvm::StringRef name, const AttentionSpec &spec);
  mlir::FailureOr<mlir::func::FuncOp> kvAppend(mlir::Operation *op, llvm::StringRef name, const KvAppendSpec &spec);

  // What MLIR emitted for a GPU; null for other devices.
  GpuKernels *gpuKernels() { return gpu ? &*gpu : nullptr; }

private:
  // Takes what Halide emitted for kernel `name`.
  mlir::LogicalResult add(llvm::StringRef name, mlir::FailureOr<std::string> object);
  mlir::FailureOr<mlir::func::FuncOp> refuse(mlir::Operation *op, const llvm::Twine &what);

  mlir::ModuleOp code;
  const Target &target;
  std::vector<std::string> &objects;
  llvm::StringSet<> &halideKernels;
  std::optional<GpuKernels> gpu;
};

} // namespace heddle

#endif
