// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of a device, as host functions that enqueue them: each has the parameters of the CPU's kernel (cpu/*.h) and one more,
// `const heddle_step *step`, whose device it is enqueued on. Pointers are the device's addresses; one thread calls, for all of
// the work, so slices are whole.
#ifndef HEDDLE_COMPILER_CODEGEN_DEVICEKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_DEVICEKERNELS_H

#include "compiler/codegen/halide/DevicePipelines.h"

namespace heddle {

// The first op of a module of model ops that devices have no kernel for, and what of it; empty if they have all.
std::string missingDeviceKernel(mlir::ModuleOp module);

class DeviceKernels {
public:
  // Host functions go to `code`, what Halide emits for them to `objects`.
  DeviceKernels(mlir::ModuleOp code, const Target &target, std::vector<std::string> &objects)
      : code(code), target(target), objects(objects) {}

  mlir::FailureOr<mlir::func::FuncOp> matmul(mlir::Operation *op, llvm::StringRef name, const MatmulSpec &spec);
  mlir::FailureOr<mlir::func::FuncOp> embedding(mlir::Operation *op, llvm::StringRef name, const EmbeddingSpec &spec, int64_t n);
  mlir::FailureOr<mlir::func::FuncOp> attention(mlir::Operation *op, llvm::StringRef name, const AttentionSpec &spec);
  mlir::FailureOr<mlir::func::FuncOp> kvAppend(mlir::Operation *op, llvm::StringRef name, const KvAppendSpec &spec);

private:
  mlir::FailureOr<mlir::func::FuncOp> refuse(mlir::Operation *op, const llvm::Twine &what);

  mlir::ModuleOp code;
  const Target &target;
  std::vector<std::string> &objects;
};

} // namespace heddle

#endif
