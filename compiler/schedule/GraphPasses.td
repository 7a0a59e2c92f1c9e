// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage that only graphs take, on upstream's ops alone.
#ifndef HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_TD
#define HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_TD

include "mlir/Pass/PassBase.td"

def FuseElementwise : Pass<"heddle-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Make loops of elementwise ops, one for each chain of them";
  let description = [{
    Elementwise `arith` and `math` ops on tensors become `linalg.generic`; one whose only reader is another `linalg.generic`
    becomes part of it. Not into products, which have kernels of their own, nor where a costly element would be computed more
    than once. A body has at most 48 ops. Example: test/schedule/fuse-elementwise.mlir.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

#endif
