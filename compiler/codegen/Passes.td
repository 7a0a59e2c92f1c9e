// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What codegen shows of itself to heddle-opt.
#ifndef HEDDLE_CODEGEN_PASSES
#define HEDDLE_CODEGEN_PASSES

include "compiler/contract/StagePass.td"
include "mlir/Pass/PassBase.td"

def EmitKernels : StagePass<"heddle-emit-kernels", "::mlir::ModuleOp", "Schedule"> {
  let summary = "Put the kernels that a target emits in the place of the module";
  let description = [{
    For people who read or change kernels: what each kernel op of a scheduled module becomes, each kernel once, before it is lowered
    to LLVM IR. Kernels that Halide emits are declarations; those of a GPU lie in a `gpu.module`, beside the host functions that launch
    them. Must hold before: kernel ops are on buffers. After: nothing of the module is left but its kernels. An op without a kernel is
    an error at the op. Examples: test/codegen/emit-kernels.mlir, emit-kernels-devices.mlir.

    ```mlir
    func.func @step(%ids: memref<?xi32>, %w: memref<4096xi8>, %out: memref<?x64xf32>) {
      heddle.dequantize ins(%ids, %w : memref<?xi32>, memref<4096xi8>) outs(%out : memref<?x64xf32>)
        {n = 32, k = 64, format = "bf16", scale = 1.0}
      return
    }
    // becomes, with target=x86-64-v3
    func.func @embedding_bf16_k64(%ids: !llvm.ptr, %w: !llvm.ptr, %out: !llvm.ptr, %begin: i64, %end: i64, %stride: i64) …
    scf.for …
    ```
  }];
  let options = [Option<"targetName", "target", "std::string", "\"native\"", "As of heddle compile --target">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

#endif
