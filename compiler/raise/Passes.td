// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the raise stage: from what an exporter wrote to model ops.
#ifndef HEDDLE_RAISE_PASSES
#define HEDDLE_RAISE_PASSES

include "mlir/Pass/PassBase.td"

def FuseAttention : Pass<"heddle-fuse-attention", "::mlir::func::FuncOp"> {
  let summary = "Recognise attention by what it computes";
  let description = [{
    Anchors on a softmax and asks two things, both of elements and neither of ops: what is the score of query i and key j of
    head h, and what does the product with the values do with the probabilities. Layout, head counts, the scale, softcap, mask
    and bias follow from the answers. A mask becomes `causal` or a window only if every pair of positions is proven; what is
    left is the bias operand.

    Before: products of matrices are linalg contractions. After: no softmax over scores is left but those that a remark
    explains, `not fused: 'tensor.collapse_shape' at model.onnx:/layers.3/Reshape_2 mixes the head and sequence axes`.
    Example: test/raise/fuse-attention.mlir.

    ```mlir
    %s = linalg.contract … ins(%q, %k) …
    %scaled = arith.mulf %s, %quarter : tensor<1x4x?x?xf32>
    %masked = arith.addf %scaled, %triangle : tensor<1x4x?x?xf32>
    %p = linalg.softmax dimension(3) ins(%masked : …) …
    %o = linalg.contract … ins(%p, %v) …
    // becomes
    %o = heddle.attention %q, %k, %v <causal> {scale = 2.500000e-01 : f64} : …
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif
