// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the raise stage: from what an exporter wrote to model ops.
#ifndef HEDDLE_RAISE_PASSES
#define HEDDLE_RAISE_PASSES

include "compiler/contract/StagePass.td"
include "mlir/Pass/PassBase.td"

def RaiseLinear : StagePass<"heddle-raise-linear", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise products with stored matrices and look-ups in stored tables";
  let description = [{
    A contraction of rows with a stored matrix becomes `linear`, whichever way the matrix lies (the other one is the same bytes with
    another #heddle.storage, never a transpose op), with the stored vector that is added to it; collapsing leading dimensions moves
    behind it. Rows of 16-bit floats become f32 before. So does a convolution of one group with stored weights, over a loop that gathers its windows.
    A gather of a stored table's rows becomes `embedding`, with the constant it is multiplied by. Products of two activations stay. Examples: test/raise/raise-linear.mlir, raise-convolution.mlir.

    ```mlir
    #x = affine_map<(s, n, k) -> (s, k)>
    #w = affine_map<(s, n, k) -> (k, n)>
    #y = affine_map<(s, n, k) -> (s, n)>
    func.func @stored_by_columns(%x: tensor<5x64xf32>) -> tensor<5x32xf32> {
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<64x32xf32>
      %zero = arith.constant dense<0.0> : tensor<5x32xf32>
      %y = linalg.contract indexing_maps = [#x, #w, #y] ins(%x, %w : tensor<5x64xf32>, tensor<64x32xf32>)
        outs(%zero : tensor<5x32xf32>) -> tensor<5x32xf32>
      return %y : tensor<5x32xf32>
    }
    // becomes
    %w = heddle.weight "w" <type = "f32", file = 0, offset = 0, transposed = true> : tensor<32x64xf32>
    %y = heddle.linear %x, weights(%w : tensor<32x64xf32>) : tensor<5x64xf32> -> tensor<5x32xf32>
    return %y : tensor<5x32xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseNorm : StagePass<"heddle-raise-norm", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise RMS and layer normalisation by their formulas";
  let description = [{
    Anchors on a sum over the last dimension and looks for the furthest value that is
    `weight * x * (mean(x^2) + eps)^(-1/2)`, or that of x - mean(x), plus a bias, for a stored weight. Roots, reciprocals, powers and
    the order of factors do not matter. Several norms of one input may share the sum; heads may have numbers of their own, and be normed
    one by one. Examples: test/raise/raise-norm.mlir, test/raise/raise-norm-heads.mlir, test/raise/raise-norm-joined.mlir.

    ```mlir
    func.func @written_out(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
      %zero = arith.constant dense<0.0> : tensor<5xf32>
      %width = arith.constant dense<8.0> : tensor<5xf32>
      %eps = arith.constant dense<0.5> : tensor<5xf32>
      %squares = arith.mulf %x, %x : tensor<5x8xf32>
      %sum = linalg.reduce { arith.addf } ins(%squares : tensor<5x8xf32>) outs(%zero : tensor<5xf32>) dimensions = [1]
      %mean = arith.divf %sum, %width : tensor<5xf32>
      %moved = arith.addf %mean, %eps : tensor<5xf32>
      %r = math.rsqrt %moved : tensor<5xf32>
      %init = tensor.empty() : tensor<5x8xf32>
      %rs = linalg.broadcast ins(%r : tensor<5xf32>) outs(%init : tensor<5x8xf32>) dimensions = [1]
      %ws = linalg.broadcast ins(%w : tensor<8xf32>) outs(%init : tensor<5x8xf32>) dimensions = [0]
      %n = arith.mulf %x, %rs : tensor<5x8xf32>
      %y = arith.mulf %ws, %n : tensor<5x8xf32>
      return %y : tensor<5x8xf32>
    }
    // becomes
    %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
    %y = heddle.rms_norm %x, %w {eps = 5.000000e-01 : f64} : tensor<5x8xf32>, tensor<8xf32>
    return %y : tensor<5x8xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseGlu : StagePass<"heddle-raise-glu", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise activations and gates by the function that they compute";
  let description = [{
    An elementwise expression of one value, or of one times a function of another, is compared with the activations of `glu`. All
    but relu are analytic: they are the same function if they agree on an interval to the precision of their constants.
    cap * tanh(x / cap) becomes `softcap`. Example: test/raise/raise-glu.mlir.

    ```mlir
    func.func @swiglu(%gate: tensor<5x96xf32>, %up: tensor<5x96xf32>) -> tensor<5x96xf32> {
      %one = arith.constant dense<1.0> : tensor<5x96xf32>
      %minus = arith.negf %gate : tensor<5x96xf32>
      %e = math.exp %minus : tensor<5x96xf32>
      %d = arith.addf %one, %e : tensor<5x96xf32>
      %s = arith.divf %gate, %d : tensor<5x96xf32>
      %y = arith.mulf %s, %up : tensor<5x96xf32>
      return %y : tensor<5x96xf32>
    }
    // becomes
    %y = heddle.glu <silu> %gate, %up : tensor<5x96xf32>
    return %y : tensor<5x96xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseMoe : StagePass<"heddle-raise-moe", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise mixtures of experts: weighted sums of gated products, weighted by a routing";
  let description = [{
    Anchors on a sum over experts, as a reduction, a product or additions one by one, of what stored matrices make of the same rows
    (down(activation(gate(x)) * up(x)), the matrices apart or parts of larger ones) times a weight per token and expert; or on a sum over the choices
    of a token, whose matrices are gathered for each: what the choices of one expert weigh together is its weight. An expert may be computed for its tokens
    alone, whose rows are looked up and written back. One expert that all tokens pass, times a number of each, is one of one. The weights
    must be a function of one product's logits. That function is evaluated by the reference interpreter on random logits; if what it
    gives is what `moe` computes for some top_k, normalisation, scoring, correction, groups and scale, it is that routing, however
    choices, scatters and masks were written. Checks of the indices that it computed go with it.

    Must run after linear and glu, whose results it starts from. What looks like experts and is no `moe` gets a remark, `no moe: …`.
    Examples: test/raise/raise-moe.mlir, test/raise/raise-moe-gathered.mlir, test/raise/raise-moe-chosen.mlir, test/raise/raise-moe-listed.mlir.

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

def RaiseRope : StagePass<"heddle-raise-rope", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise rotary position embeddings from the elements of a head";
  let description = [{
    Asks for each place in the head which two elements of the source it combines and by which angle: the layout (halves, pairs),
    how much of the head is rotated, the frequencies and the attention factor follow, whatever slices, concatenations and
    reshapes moved the elements. Heads that are repeated are rotated before that, pairs that come out in halves are put apart after. Must run after
    linear and norm, whose results it starts from. Examples: test/raise/raise-rope.mlir, test/raise/raise-rope-groups.mlir,
    test/raise/raise-rope-table.mlir.

    ```mlir
    #d = affine_map<(b, s, d) -> (d)>
    #bsd = affine_map<(b, s, d) -> (b, s, d)>
    func.func @rotate_half(%x: tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32> {
      %frequencies = arith.constant dense<[1.0, 0.125, 1.0, 0.125]> : tensor<4xf32>
      %room = tensor.empty() : tensor<1x6x4xf32>
      %angles = linalg.generic {indexing_maps = [#d, #bsd], iterator_types = ["parallel", "parallel", "parallel"]}
          ins(%frequencies : tensor<4xf32>) outs(%room : tensor<1x6x4xf32>) {
      ^bb0(%frequency: f32, %out: f32):
        %s = linalg.index 1 : index
        %i = arith.index_cast %s : index to i64
        %position = arith.sitofp %i : i64 to f32
        %angle = arith.mulf %position, %frequency : f32
        linalg.yield %angle : f32
      } -> tensor<1x6x4xf32>
      %cos_row = math.cos %angles : tensor<1x6x4xf32>
      %sin_row = math.sin %angles : tensor<1x6x4xf32>
      %init = tensor.empty() : tensor<1x2x6x4xf32>
      %cos = linalg.broadcast ins(%cos_row : tensor<1x6x4xf32>) outs(%init : tensor<1x2x6x4xf32>) dimensions = [1]
      %sin = linalg.broadcast ins(%sin_row : tensor<1x6x4xf32>) outs(%init : tensor<1x2x6x4xf32>) dimensions = [1]
      %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, 6, 2] [1, 1, 1, 1] : tensor<1x2x6x4xf32> to tensor<1x2x6x2xf32>
      %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, 6, 2] [1, 1, 1, 1] : tensor<1x2x6x4xf32> to tensor<1x2x6x2xf32>
      %minus = arith.negf %second : tensor<1x2x6x2xf32>
      %rotated = tensor.concat dim(3) %minus, %first : (tensor<1x2x6x2xf32>, tensor<1x2x6x2xf32>) -> tensor<1x2x6x4xf32>
      %a = arith.mulf %x, %cos : tensor<1x2x6x4xf32>
      %b = arith.mulf %rotated, %sin : tensor<1x2x6x4xf32>
      %y = arith.addf %a, %b : tensor<1x2x6x4xf32>
      return %y : tensor<1x2x6x4xf32>
    }
    // becomes
    #rope = #heddle.rope<half, table = 0, attention_factor = 1.000000e+00, inverse_frequency = array<f32: 1.000000e+00, 1.250000e-01>>
    %positions = linalg.generic {…} outs(%room : tensor<1x6xi32>) {
    %y = heddle.rope %x, %positions, #rope : tensor<1x2x6x4xf32>, tensor<1x6xi32>
    return %y : tensor<1x2x6x4xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def RaiseSoftmax : StagePass<"heddle-raise-softmax", "::mlir::func::FuncOp", "Import"> {
  let summary = "Recognise a softmax that was written out";
  let description = [{
    exp(x - m) / sum exp(x - m) becomes linalg.softmax, whatever m is if it is one value for the row: it cancels. Casts to f32 on
    the way are kept inside. So does (exp(x - m) @ v) / sum exp(x - m), of which the matmul stays. A mask of ones and zeros that is
    multiplied into the exponentials becomes -inf in x, a number added to the sum one more column of x, which is sliced off behind.
    What is none is left with a remark. Examples: test/raise/raise-softmax.mlir, test/raise/fuse-attention-weights.mlir.

    ```mlir
    func.func @written_out(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
      %zero = arith.constant dense<0.0> : tensor<3xf32>
      %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
      %init = tensor.empty() : tensor<3x5xf32>
      %m = linalg.reduce { arith.maximumf } ins(%x : tensor<3x5xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
      %ms = linalg.broadcast ins(%m : tensor<3xf32>) outs(%init : tensor<3x5xf32>) dimensions = [1]
      %shifted = arith.subf %x, %ms : tensor<3x5xf32>
      %e = math.exp %shifted : tensor<3x5xf32>
      %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x5xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
      %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x5xf32>) dimensions = [1]
      %p = arith.divf %e, %sums : tensor<3x5xf32>
      return %p : tensor<3x5xf32>
    }
    // becomes
    %p = linalg.softmax dimension(1) ins(%x : tensor<3x5xf32>) outs(%room : tensor<3x5xf32>) -> tensor<3x5xf32>
    return %p : tensor<3x5xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def FuseAttention : StagePass<"heddle-fuse-attention", "::mlir::func::FuncOp", "Import"> {
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
    #q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
    #k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
    #s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
    #p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
    #v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
    #o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>
    func.func @masked_by_a_constant(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x3x8xf32>, %v: tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32> {
      %zero = arith.constant dense<0.0> : tensor<1x2x3x3xf32>
      %quarter = arith.constant dense<0.25> : tensor<1x2x3x3xf32>
      %triangle = arith.constant dense<[[0.0, -3.0e38, -3.0e38], [0.0, 0.0, -3.0e38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
      %init = tensor.empty() : tensor<1x2x3x3xf32>
      %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>)
        outs(%zero : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
      %scaled = arith.mulf %s, %quarter : tensor<1x2x3x3xf32>
      %mask = linalg.broadcast ins(%triangle : tensor<3x3xf32>) outs(%init : tensor<1x2x3x3xf32>) dimensions = [0, 1]
      %masked = arith.addf %scaled, %mask : tensor<1x2x3x3xf32>
      %p = linalg.softmax dimension(3) ins(%masked : tensor<1x2x3x3xf32>) outs(%init : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
      %start = arith.constant dense<0.0> : tensor<1x2x3x8xf32>
      %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<1x2x3x3xf32>, tensor<1x2x3x8xf32>)
        outs(%start : tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
      return %o : tensor<1x2x3x8xf32>
    }
    // becomes
    %o = heddle.attention %q, %k, %v <causal> {scale = 2.500000e-01 : f64} : tensor<1x2x3x8xf32>, …
    return %o : tensor<1x2x3x8xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def BindDecoderInputs : StagePass<"heddle-bind-decoder-inputs", "::mlir::ModuleOp", "Import"> {
  let summary = "Give a decoder's graph the attention_mask and position_ids of a sequence without padding";
  let description = [{
    Exporters give decoders a mask of padding and positions beside input_ids. A step of the program that comes of one knows no
    padding and counts itself: attention_mask becomes ones, position_ids 0, 1, 2 …, both of input_ids' dimensions. What masks
    with them folds away when attention is fused. Activations of 16 bits become f32, as a checkpoint's program computes them:
    weights stay as they are stored, the logits are f32. Must run first; graphs with other inputs stay as they are.
    Example: test/raise/bind-decoder-inputs.mlir.

    ```mlir
    func.func @graph(%ids: tensor<1x?xi64> {heddle.name = "input_ids"}, %mask: tensor<1x?xi64> {heddle.name = "attention_mask"})
        -> (tensor<1x?x4xf32> {heddle.name = "logits"}) {
      %all = arith.addi %ids, %mask : tensor<1x?xi64>
      %narrow = arith.trunci %all : tensor<1x?xi64> to tensor<1x?xi32>
      %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
      %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
      return %x : tensor<1x?x4xf32>
    }
    // becomes
    func.func @graph(%ids: tensor<1x?xi64> {heddle.name = "input_ids"}) -> (tensor<1x?x4xf32> {heddle.name = "logits"}) {
    %ones = linalg.generic {…
    %sum = arith.addi %ids, %ones : tensor<1x?xi64>
    ```
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect", "::mlir::arith::ArithDialect"];
}

def FormForward : StagePass<"heddle-form-forward", "::mlir::ModuleOp", "Import"> {
  let summary = "Turn a decoder's graph into @forward and its layers, as checkpoints give them";
  let description = [{
    A module's only graph, from token ids to logits, whose attention is causal and without bias, but ALiBi's, becomes @forward(ids, positions) with an open batch,
    one private function per layer with the layer's weights as arguments, and ops in the order in which results need them. Layers
    are found between values that all later results come through, one attention in each, and a norm behind the last. Positions that a range gives become the
    argument; ids are taken to be in the vocabulary. Other graphs stay as they are; a decoder that cannot be written so gets a
    remark, `no generate: …`. Must run last. Example: test/raise/form-forward.mlir.

    ```mlir
    func.func @graph(%ids: tensor<1x?xi64>) -> tensor<1x?x6xf32> {
      %c1 = arith.constant 1 : index
      %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
      %narrow = arith.trunci %ids : tensor<1x?xi64> to tensor<1x?xi32>
      %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
      %w = heddle.weight "norm" <type = "f32", file = 0, offset = 96> : tensor<4xf32>
      %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
      %a = heddle.rms_norm %x, %w {eps = 1.0e-6} : tensor<1x?x4xf32>, tensor<4xf32>
      %split = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<1x?x4xf32> into tensor<1x?x1x4xf32>
      %h_init = tensor.empty(%n) : tensor<1x1x?x4xf32>
      %h = linalg.transpose ins(%split : tensor<1x?x1x4xf32>) outs(%h_init : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
      %o = heddle.attention %h, %h, %h <causal> {scale = 0.5}
        : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
      %t_init = tensor.empty(%n) : tensor<1x?x1x4xf32>
      %t = linalg.transpose ins(%o : tensor<1x1x?x4xf32>) outs(%t_init : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
      %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<1x?x4xf32>
      %y = arith.addf %r, %x : tensor<1x?x4xf32>
      %z = heddle.rms_norm %y, %w {eps = 1.0e-6} : tensor<1x?x4xf32>, tensor<4xf32>
      %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x6xf32>
      return %logits : tensor<1x?x6xf32>
    }
    // becomes
    func.func private @layer_0(%x: tensor<?x?x4xf32>, %at: tensor<?x?xi32>, %norm: tensor<4xf32>) -> tensor<?x?x4xf32> {
    %o = heddle.attention %h, %h, %h <causal> {…} : tensor<?x1x?x4xf32>, …
    func.func @forward(%ids: tensor<?x?xi32>, %positions: tensor<?x?xi32>) -> tensor<?x?x6xf32> {
    %y = call @layer_0(%embedded, %positions, %w) : …
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

def QuantizeWeights : StagePass<"heddle-quantize-weights", "::mlir::ModuleOp", "Import"> {
  let summary = "Give matrices another type than their file's, which packing converts them to";
  let description = [{
    Matrices that only `linear`, the experts of `moe` and `embedding` read, directly or as arguments of private functions, take the type
    `type` (a block format, f16 or bf16); their storage keeps the type in the file, as `fileType`. Routers, norms and biases stay as they are.
    So does, with a remark, a matrix that is no larger in the file, whose in_features are no multiple of the block, or whose stored blocks
    lie across its rows. No byte is read. Must run once all model ops are there. Example: test/raise/quantize-weights.mlir.

    ```mlir
    func.func private @layer(%x: tensor<?x64xf32>, %w: tensor<32x64xbf16>) -> tensor<?x32xf32> {
      %y = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
      return %y : tensor<?x32xf32>
    }
    func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
      %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
      %y = call @layer(%x, %w) : (tensor<?x64xf32>, tensor<32x64xbf16>) -> tensor<?x32xf32>
      return %y : tensor<?x32xf32>
    }
    // becomes, with type=q8_0
    func.func private @layer(%x: tensor<?x64xf32>, %w: tensor<32x64xf32, #heddle.quant<q8_0>>) -> tensor<?x32xf32> {
    func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
    %w = heddle.weight "w" <type = "q8_0", file = 0, offset = 0, fileType = "bf16"> : tensor<32x64xf32, #heddle.quant<q8_0>>
    ```
  }];
  let options = [Option<"type", "type", "std::string", "\"q8_0\"", "Stored type that matrices take">];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

#endif
