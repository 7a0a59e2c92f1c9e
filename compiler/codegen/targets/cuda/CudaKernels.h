// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that MLIR emits for an NVIDIA GPU (gpu/*.h), as host functions that launch them; their parameters are those
// that DeviceKernels.h states. All kernels of a model are one PTX module, a constant of the host code.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELS_H

#include "compiler/codegen/EmitObject.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"

namespace heddle {

class GpuKernels {
public:
  // Host functions go to `code`.
  GpuKernels(mlir::ModuleOp code, const GpuTarget &target);

  mlir::func::FuncOp attention(mlir::Location loc, llvm::StringRef name, const AttentionSpec &spec);
  mlir::func::FuncOp matmul(mlir::Location loc, llvm::StringRef name, const GpuMatmulSpec &spec);

  // After the last kernel: gives the host functions their PTX. Returns the module as text of `kind`, PTX for objects.
  mlir::FailureOr<std::string> finish(MachineCode kind);

private:
  mlir::ModuleOp code;
  const GpuTarget &target;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::gpu::GPUModuleOp kernels;
};

} // namespace heddle

#endif
