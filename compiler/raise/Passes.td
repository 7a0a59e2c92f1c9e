// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the raise stage: from what an exporter wrote to model ops.
#ifndef HEDDLE_RAISE_PASSES
#define HEDDLE_RAISE_PASSES

include "mlir/Pass/PassBase.td"

def RaiseLinear : Pass<"heddle-raise-linear", "::mlir::func::FuncOp"> {
  let summary = "Recognise products with stored matrices and look-ups in stored tables";
  let description = [{
    A contraction of rows with a stored matrix becomes `linear`, whichever way the matrix lies (the other one is the same bytes with
    another #heddle.storage, never a transpose op), with the stored vector that is added to it; collapsing leading dimensions moves
    behind it. A gather of a stored table's rows becomes `embedding`, with the constant it is multiplied by. Products of two
    activations stay. Example: test/raise/raise-linear.mlir.

    ```mlir
    %y = linalg.contract indexing_maps = [(b, s, n, k) -> (b, s, k), (b, s, n, k) -> (k, n), …] ins(%x, %w) …
    // becomes
    %wt = heddle.weight "w" <…, transposed = true> : tensor<32x64xf32>
    %y = heddle.linear %x, weights(%wt : tensor<32x64xf32>) : tensor<1x?x64xf32> -> tensor<1x?x32xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseNorm : Pass<"heddle-raise-norm", "::mlir::func::FuncOp"> {
  let summary = "Recognise RMS and layer normalisation by their formulas";
  let description = [{
    Anchors on a sum over the last dimension and looks for the furthest value that is
    `weight * x * (mean(x^2) + eps)^(-1/2)`, or that of x - mean(x), plus a bias, for a stored weight. Roots, reciprocals, powers and
    the order of factors do not matter. Example: test/raise/raise-norm.mlir.

    ```mlir
    %squares = arith.mulf %x, %x …; %sum = linalg.reduce …; %r = math.rsqrt …; %n = arith.mulf %x, %r …; %y = arith.mulf %w, %n
    // becomes
    %y = heddle.rms_norm %x, %w {eps = 1.000000e-06 : f64} : tensor<1x?x64xf32>, tensor<64xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseGlu : Pass<"heddle-raise-glu", "::mlir::func::FuncOp"> {
  let summary = "Recognise activations and gates by the function that they compute";
  let description = [{
    An elementwise expression of one value, or of one times a function of another, is compared with the activations of `glu`. All
    but relu are analytic: they are the same function if they agree on an interval to the precision of their constants.
    cap * tanh(x / cap) becomes `softcap`. Example: test/raise/raise-glu.mlir.

    ```mlir
    %e = math.exp %minus_gate …; %d = arith.addf %one, %e …; %s = arith.divf %gate, %d …; %y = arith.mulf %s, %up
    // becomes
    %y = heddle.glu <silu> %gate, %up : tensor<1x?x96xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseMoe : Pass<"heddle-raise-moe", "::mlir::func::FuncOp"> {
  let summary = "Recognise mixtures of experts: weighted sums of gated products, weighted by a routing";
  let description = [{
    Anchors on a sum over experts, as a reduction, a product or additions one by one, of what stored matrices make of the same rows
    (down(activation(gate(x)) * up(x)), the matrices apart or parts of larger ones) times a weight per token and expert. The weights
    must be a function of one product's logits. That function is evaluated by the reference interpreter on random logits; if what it
    gives is what `moe` computes for some top_k, normalisation, scoring, correction, groups and scale, it is that routing, however
    choices, scatters and masks were written. Checks of the indices that it computed go with it.

    Must run after linear and glu, whose results it starts from. What looks like experts and is no `moe` gets a remark, `no moe: …`.
    Example: test/raise/raise-moe.mlir.

    ```mlir
    func.func @the_better_of_two(%x: tensor<5x4xf32>, %router: tensor<2x4xf32>, %gate: tensor<3x4xf32>, %up: tensor<3x4xf32>,
                                 %down: tensor<4x3xf32>) -> tensor<5x4xf32> {
      %lowest = arith.constant dense<0xFF800000> : tensor<5xf32>
      %none = arith.constant dense<0.0> : tensor<5x2xf32>
      %rooms = tensor.empty() : tensor<5x2xf32>
      %room = tensor.empty() : tensor<5x4xf32>
      %logits = heddle.linear %x, weights(%router : tensor<2x4xf32>) : tensor<5x4xf32> -> tensor<5x2xf32>
      %p = linalg.softmax dimension(1) ins(%logits : tensor<5x2xf32>) outs(%rooms : tensor<5x2xf32>) -> tensor<5x2xf32>
      %top = linalg.reduce { arith.maximumf } ins(%p : tensor<5x2xf32>) outs(%lowest : tensor<5xf32>) dimensions = [1]
      %tops = linalg.broadcast ins(%top : tensor<5xf32>) outs(%rooms : tensor<5x2xf32>) dimensions = [1]
      %isTop = arith.cmpf oge, %p, %tops : tensor<5x2xf32>
      %w = arith.select %isTop, %p, %none : tensor<5x2xi1>, tensor<5x2xf32>
      %g = heddle.linear %x, weights(%gate : tensor<3x4xf32>) : tensor<5x4xf32> -> tensor<5x3xf32>
      %u = heddle.linear %x, weights(%up : tensor<3x4xf32>) : tensor<5x4xf32> -> tensor<5x3xf32>
      %one = heddle.glu <silu> %g, %u : tensor<5x3xf32>
      %other = heddle.glu <silu> %u, %g : tensor<5x3xf32>
      %first = heddle.linear %one, weights(%down : tensor<4x3xf32>) : tensor<5x3xf32> -> tensor<5x4xf32>
      %second = heddle.linear %other, weights(%down : tensor<4x3xf32>) : tensor<5x3xf32> -> tensor<5x4xf32>
      %w0 = tensor.extract_slice %w[0, 0] [5, 1] [1, 1] : tensor<5x2xf32> to tensor<5xf32>
      %w1 = tensor.extract_slice %w[0, 1] [5, 1] [1, 1] : tensor<5x2xf32> to tensor<5xf32>
      %of_first = linalg.broadcast ins(%w0 : tensor<5xf32>) outs(%room : tensor<5x4xf32>) dimensions = [1]
      %of_second = linalg.broadcast ins(%w1 : tensor<5xf32>) outs(%room : tensor<5x4xf32>) dimensions = [1]
      %y0 = arith.mulf %first, %of_first : tensor<5x4xf32>
      %y1 = arith.mulf %second, %of_second : tensor<5x4xf32>
      %y = arith.addf %y0, %y1 : tensor<5x4xf32>
      return %y : tensor<5x4xf32>
    }
    // becomes
    %y = heddle.moe <silu> %x, %router gates(%gate, %up : …) ups(%up, %gate : …) downs(%down, %down : …) {normalize = false, top_k = 1 : i64} : …
    return %y : tensor<5x4xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect"];
}

def RaiseRope : Pass<"heddle-raise-rope", "::mlir::func::FuncOp"> {
  let summary = "Recognise rotary position embeddings from the elements of a head";
  let description = [{
    Asks for each place in the head which two elements of the source it combines and by which angle: the layout (halves, pairs),
    how much of the head is rotated, the frequencies and the attention factor follow, whatever slices, concatenations and
    reshapes moved the elements. Must run after linear and norm, whose results it starts from. Example: test/raise/raise-rope.mlir.

    ```mlir
    %a = arith.mulf %x, %cos …; %r = tensor.concat dim(3) %minus_second, %first …; %b = arith.mulf %r, %sin …; %y = arith.addf %a, %b
    // becomes
    %y = heddle.rope %x, %positions, <half, table = 0, …> : tensor<1x4x?x16xf32>, tensor<1x?xi32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseSoftmax : Pass<"heddle-raise-softmax", "::mlir::func::FuncOp"> {
  let summary = "Recognise a softmax that was written out";
  let description = [{
    exp(x - m) / sum exp(x - m) becomes linalg.softmax, whatever m is if it is one value for the row: it cancels. Casts to f32 on
    the way are kept inside. Example: test/raise/raise-softmax.mlir.

    ```mlir
    %m = linalg.reduce { arith.maximumf } …; %e = math.exp %shifted …; %sum = linalg.reduce { arith.addf } …; %p = arith.divf %e, %sums
    // becomes
    %p = linalg.softmax dimension(3) ins(%x : tensor<1x4x?x?xf32>) …
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

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

def FormForward : Pass<"heddle-form-forward", "::mlir::ModuleOp"> {
  let summary = "Turn a decoder's graph into @forward and its layers, as checkpoints give them";
  let description = [{
    A graph from token ids to logits whose attention is causal and without bias becomes @forward(ids, positions) with an open batch,
    one private function per layer with the layer's weights as arguments, and ops in the order in which results need them. Layers
    are found between values that all later results come through, one attention in each. Positions that a range gives become the
    argument; ids are taken to be in the vocabulary. Other graphs stay as they are; a decoder that cannot be written so gets a
    remark, `no generate: …`. Must run last. Example: test/raise/form-forward.mlir.

    ```mlir
    func.func @graph(%ids: tensor<1x?xi64>) -> tensor<1x?x256xf32>
    // becomes
    func.func private @layer_0(%x: tensor<?x?x64xf32>, %positions: tensor<?x?xi32>, %w: tensor<64xf32>, …) -> tensor<?x?x64xf32>
    func.func @forward(%ids: tensor<?x?xi32>, %positions: tensor<?x?xi32>) -> tensor<?x?x256xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

#endif
