// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of GPU kernels to PTX.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_EMITPTX_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_EMITPTX_H

#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/machine/GpuTarget.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

// Registers the dialects that kernels are written in, and their translation to LLVM IR.
void registerGpuDialects(mlir::DialectRegistry &registry);

// `gpu`, `scf`, `arith`, `vector`, `nvvm` and `llvm` ops -> `llvm` and `nvvm` ops only. Calls nothing of libdevice.
mlir::LogicalResult lowerToNVVM(mlir::gpu::GPUModuleOp module);

// The lowered module as PTX (Assembly) or LLVM IR text for `target`, optimised. Deterministic.
mlir::FailureOr<std::string> emitPtx(mlir::gpu::GPUModuleOp module, const GpuTarget &target, MachineCode kind);

} // namespace heddle

#endif
