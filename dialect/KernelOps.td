// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops: destination-style, on tensors before and on memrefs after bufferization. Activations are row-major,
// (rows, width); rows are the tokens of all sequences of a step.
#ifndef HEDDLE_KERNEL_OPS
#define HEDDLE_KERNEL_OPS

include "dialect/HeddleAttrs.td"
include "dialect/HeddleInterfaces.td"
include "dialect/HeddleTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Heddle_Buffer : AnyTypeOf<[AnyRankedTensor, AnyMemRef]>;

class Heddle_KernelOp<string mnemonic, list<Trait> traits = []> : Heddle_Op<mnemonic,
    [DestinationStyleOpInterface, DeclareOpInterfaceMethods<Heddle_KernelOpInterface>,
     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>] # traits> {
  code dpsMethods = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getInitsMutable(); }
  }];
  let extraClassDeclaration = dpsMethods;
}

def Heddle_PackOp : Heddle_Op<"pack", [Pure]> {
  let summary = "Weights of the model in the layout that a kernel reads";
  let description = [{
    What a kernel asks for: `lower-to-kernels` writes it, and `pack-weights` puts a `weight` with the `#heddle.packing` of the same
    layout, format, group, transposed and many_rows in its place. Nothing packs at run time. As a matrix the result is the
    sources (of each the transpose, if `transposed`), one below the other, whatever the layout.

    Constraints:
      * C1: sources of a vector are vectors, those of matrices matrices of one k (columns; rows if `transposed`), all of static
        shape. What is stored as the file has it needs no packing: the layout is not `stored`.
      * C2: the result is bytes, of vectors f32 as long as they are together.
      * C3: format, group and transposed are as in `#heddle.packing` (C1, C4, C6).

    ```mlir
    func.func @query_and_key(%q: tensor<64x64xbf16>, %k: tensor<32x64xbf16>) -> tensor<12288xi8> {
      %w = heddle.pack <stacked> "bf16" (%q, %k : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
      return %w : tensor<12288xi8>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$sources, Heddle_PackingLayoutAttr:$layout, StrAttr:$format,
                       DefaultValuedAttr<I64Attr, "0">:$group, UnitAttr:$transposed, UnitAttr:$many_rows);
  let results = (outs 1DTensorOf<[I8, F32]>:$result);
  let assemblyFormat = "$layout $format `(` $sources `:` type($sources) `)` attr-dict `->` type($result)";
  let extraClassDeclaration = [{
    bool isVector() { return getLayout() == PackingLayout::Vector; }
    // Of the matrix that is packed of `source`, or the length of a vector.
    int64_t rowsOf(::mlir::Value source);
    // Columns of the packed matrices.
    int64_t getK();
  }];
  let hasVerifier = 1;
}

def Heddle_PackedMatmulOp : Heddle_KernelOp<"packed_matmul", [AttrSizedOperandSegments]> {
  let summary = "x W^T + b with W packed in panels of 16 output rows";
  let description = [{
    The weights are those of one or several `linear` weights stacked along out_features and packed as `format` says
    (compiler/weights/PackedLayout.h). The input is f32, or bf16, which rounds the weights to bf16 as well, or, with
    `input_scales` and `input_sums`, what `quantize` made of it. With `int16` the kernel may round a f32 input itself: few rows to 16-bit integers
    with a scale per 32 values, and `input_rounded`, if given, is the input of many rows. `accumulate` adds to the destination: a residual connection.
    With an activation the destination is activation(x W^T + b); `gated`, W holds the n rows of a gate and the n of an up projection, panels
    interleaved, and the destination is activation(x Wgate^T) * (x Wup^T).

    With a second destination, room for (rows, k) numbers, the kernel prepares the rows of x itself: with `norm` they are normalised as `rms_norm`
    does it, by `eps` and `weight_offset`, and they are rounded to the type of the room. Few rows are prepared as they are read; what is left in the
    room is of no use.

    A bf16 destination is rounded once. With `rounded_above` the second destination is (rows, n) and takes the result in bf16 where there are more
    rows than that, which are not to have the bits of few; the first takes it of fewer. What is left in the other is of no use.

    Constraints:
      * C1: input is (rows, k), the first destination (rows, n).
      * C2: scales are (rows, k / 32), sums (rows, k / 16); both are there if the input is i8, and only then.
      * C3: bias is (n).
      * C4: `int16` is of a f32 input, quantised weights and a k that 32 divides; the rounded input is bf16, shaped as the input, and only
        there with `int16`.
      * C5: an activation excludes `accumulate`.
      * C6: `gated` needs an activation and an n that 16 divides, and excludes a bias.
      * C7: a second destination is f32 or bf16 (rows, k), of a f32 input without `int16`.
      * C8: norm is f32 (k) and comes with `eps`, `weight_offset` and a second destination, which is bf16 where there is no norm.
      * C9: `rounded_above` is positive, comes with `int16` and two destinations, f32 and bf16 (rows, n); it and a bf16 first destination exclude `accumulate`.

    Canonical form: nothing is accumulated on zeros.

    ```mlir
    func.func @added_to_the_residual(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %residual: tensor<?x16xf32>) -> tensor<?x16xf32> {
      %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%residual : tensor<?x16xf32>)
        {n = 16, k = 64, format = "q4_1", accumulate} -> tensor<?x16xf32>
      return %y : tensor<?x16xf32>
    }
    func.func @of_a_norm(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %g: tensor<64xf32>, %out: tensor<?x16xf32>, %room: tensor<?x64xbf16>) -> tensor<?x16xf32> {
      %y, %prepared = heddle.packed_matmul ins(%x, %w norm %g : tensor<?x64xf32>, tensor<4096xi8> norm tensor<64xf32>)
        outs(%out, %room : tensor<?x16xf32>, tensor<?x64xbf16>)
        {n = 16, k = 64, format = "bf16", eps = 1.0e-5, weight_offset = 0.0} -> tensor<?x16xf32>, tensor<?x64xbf16>
      return %y : tensor<?x16xf32>
    }
    func.func @for_products_by_rows(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %out: tensor<?x16xf32>, %many: tensor<?x16xbf16>) -> (tensor<?x16xf32>, tensor<?x16xbf16>) {
      %y, %rounded = heddle.packed_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>)
        outs(%out, %many : tensor<?x16xf32>, tensor<?x16xbf16>)
        {n = 16, k = 64, format = "q4_1", int16, rounded_above = 12} -> tensor<?x16xf32>, tensor<?x16xbf16>
      return %y, %rounded : tensor<?x16xf32>, tensor<?x16xbf16>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$input, Optional<Heddle_Buffer>:$input_scales, Optional<Heddle_Buffer>:$input_sums,
                       Optional<Heddle_Buffer>:$input_rounded, Heddle_Buffer:$weights, Optional<Heddle_Buffer>:$bias, Optional<Heddle_Buffer>:$norm,
                       Variadic<Heddle_Buffer>:$inits, I64Attr:$n, I64Attr:$k, StrAttr:$format, OptionalAttr<Heddle_ActivationAttr>:$activation,
                       OptionalAttr<F64Attr>:$eps, OptionalAttr<F64Attr>:$weight_offset, UnitAttr:$gated, UnitAttr:$accumulate, UnitAttr:$int16,
                       OptionalAttr<I64Attr>:$rounded_above);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    (`activated` $activation^)? `ins` `(` $input (`scales` $input_scales^)? (`sums` $input_sums^)? (`rounded` $input_rounded^)? `,` $weights (`bias` $bias^)? (`norm` $norm^)? `:` type($input)
    (`scales` type($input_scales)^)? (`sums` type($input_sums)^)? (`rounded` type($input_rounded)^)? `,` type($weights) (`bias` type($bias)^)? (`norm` type($norm)^)? `)`
    `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    ::llvm::StringRef getArithmetic();
    // Where the kernel prepares rows, null: they come as they are multiplied.
    ::mlir::Value getRoom() { return getInits().size() > 1 && !getRoundedAbove() ? getInits()[1] : ::mlir::Value(); }
    // Where many rows of the result are rounded, or null.
    ::mlir::Value getRounded() { return getRoundedAbove() ? getInits()[1] : ::mlir::Value(); }
  }];
  let hasVerifier = 1;
}

def Heddle_IntegerMatmulOp : Heddle_KernelOp<"integer_matmul", [AttrSizedOperandSegments]> {
  let summary = "Sums of products of bytes, as exact 32-bit integers";
  let description = [{
    destination = (input - zero) W^T modulo 2^32, W packed as "bytes" in panels of 16 output rows (compiler/weights/PackedLayout.h). Bytes of the input and
    the zero are signed, or with `is_unsigned` not.

    Constraints:
      * C1: input is i8 (rows, k), the one destination i32 (rows, n).
      * C2: the zero is an i8 scalar.

    ```mlir
    func.func @asymmetric(%x: tensor<?x64xi8>, %z: tensor<i8>, %w: tensor<1152xi8>, %out: tensor<?x16xi32>) -> tensor<?x16xi32> {
      %y = heddle.integer_matmul unsigned ins(%x, %w : tensor<?x64xi8>, tensor<1152xi8>) zero(%z : tensor<i8>)
        outs(%out : tensor<?x16xi32>) {n = 16, k = 64} -> tensor<?x16xi32>
      return %y : tensor<?x16xi32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$input, Heddle_Buffer:$weights, Optional<Heddle_Buffer>:$zero, Variadic<Heddle_Buffer>:$inits, I64Attr:$n,
                       I64Attr:$k, UnitAttr:$is_unsigned);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    (`unsigned` $is_unsigned^)? `ins` `(` $input `,` $weights `:` type($input) `,` type($weights) `)` (`zero` `(` $zero^ `:` type($zero) `)`)?
    `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def Heddle_RouteExpertsOp : Heddle_KernelOp<"route_experts", [AttrSizedOperandSegments]> {
  let summary = "Chooses the experts of each token and lists the tokens of each expert"
                " (Jiang et al. 2024, arXiv:2401.04088)";
  let description = [{
    For a token, experts are its top_k largest logits, descending (ties: the lower index), and weights their softmax over all
    experts, with `normalize` divided by their sum; `correction`, `scales` and `routing` are as in `moe`. An entry is a token and one of its experts. The list of entries is
    sorted by expert, then by token: entries [offsets[e], offsets[e + 1]) are expert e's, entry i is of token row_index[i]
    with weight row_scale[i]. With a capacity, entries beyond it are not listed; their expert is num_experts. It is that of a sequence of the step or
    encode that computes the rows.

    Constraints:
      * C1: logits are (rows, num_experts).
      * C2: destinations are experts i32, weights f32 (rows, top_k), offsets i32 (rows, num_experts + 1), of which the first
        row is written, row_index i32 and row_scale f32 (rows, top_k), of which entry i is element i.
      * C3: 1 <= top_k <= num_experts.
      * C4: correction is (num_experts); num_experts is a multiple of num_groups, the top_groups hold at least top_k experts.
      * C5: scales are f32 (num_experts).

    ```mlir
    func.func @two_of_eight(%logits: tensor<?x8xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %f: tensor<?x9xi32>)
        -> (tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) {
      %experts, %weights, %offsets, %row_index, %row_scale = heddle.route_experts ins(%logits : tensor<?x8xf32>)
        outs(%e, %w, %f, %e, %w : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>)
        {num_experts = 8, top_k = 2, normalize = true}
        -> tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>
      return %offsets, %row_index, %row_scale : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$logits, Optional<Heddle_Buffer>:$correction, Optional<Heddle_Buffer>:$scales,
                       Variadic<Heddle_Buffer>:$inits, I64Attr:$num_experts, I64Attr:$top_k, BoolAttr:$normalize, OptionalAttr<Heddle_RoutingAttr>:$routing);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `ins` `(` $logits (`correction` $correction^)? `:` type($logits) (`,` type($correction)^)? `)`
    (`scales` `(` $scales^ `:` type($scales) `)`)? (`routing` $routing^)?
    `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def Heddle_ExpertMatmulOp : Heddle_KernelOp<"expert_matmul", [AttrSizedOperandSegments]> {
  let summary = "Products of each expert's weights with the rows that chose it";
  let description = [{
    offsets, row_index and row_scale are of `route_experts`; e is the expert of entry i, t = row_index[i] its token.
      * with an activation, W holds the gate's and the up projection's rows of each expert, panels interleaved, or, `alternating`, its
        rows in turn: destination entry i = activation(gate_e input[t]) * (up_e input[t]), which `gating` bounds as in `moe`; `ungated`, W holds
        the gate's rows alone, and nothing multiplies the activation
      * without: destination[t] = sum over t's entries i, experts ascending, of row_scale[i] * (W_e input entry i)
    With `scales_input` row_scale[i] multiplies what is read of input[t] with an activation, and nothing without one.
    A bias is added to each row of W_e: those of the gate, then those of the up projection, or in turn as the rows.
    Entries are rows of the list: (rows * top_k, width) as a buffer (rows, top_k * width). Weights of an expert are packed by
    themselves. `input_scales`, `input_sums`, `input_rounded`, `int16` and `accumulate` (without an activation) are as in `packed_matmul`.

    Constraints:
      * C1: with an activation input is (rows, k) and the destination (rows, top_k * n); without, input is
        (rows, top_k * k) and the destination (rows, n).
      * C2: scales are input's width / 32, sums width / 16 columns wide; both are there if the input is i8, and only then.
      * C3: offsets are (rows, num_experts + 1), row_index and row_scale (rows, top_k).
      * C4: an activation excludes `accumulate`.
      * C5: `int16` is of a f32 input, quantised weights and a k that 32 divides; the rounded input is bf16, shaped as the input, and only
        there with `int16`.
      * C6: bias is f32 (num_experts * rows of an expert).
      * C7: gating, `alternating` and `ungated` need an activation; `alternating` an n that 16 divides; `ungated` excludes the two others.

    Canonical form: nothing is accumulated on zeros.

    ```mlir
    func.func @gate_and_up(%x: tensor<?x64xf32>, %w: tensor<32768xi8>, %offsets: tensor<?x9xi32>, %row_index: tensor<?x2xi32>,
                           %row_scale: tensor<?x2xf32>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
      %y = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<32768xi8>)
        list(%offsets, %row_index, %row_scale : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%out : tensor<?x32xf32>)
        {num_experts = 8, top_k = 2, n = 16, k = 64, format = "q4_1"} -> tensor<?x32xf32>
      return %y : tensor<?x32xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$input, Optional<Heddle_Buffer>:$input_scales, Optional<Heddle_Buffer>:$input_sums,
                       Optional<Heddle_Buffer>:$input_rounded, Heddle_Buffer:$offsets, Heddle_Buffer:$row_index, Heddle_Buffer:$row_scale, Heddle_Buffer:$weights,
                       Optional<Heddle_Buffer>:$bias, Variadic<Heddle_Buffer>:$inits, I64Attr:$num_experts, I64Attr:$top_k, I64Attr:$n, I64Attr:$k,
                       StrAttr:$format, OptionalAttr<Heddle_ActivationAttr>:$activation, OptionalAttr<Heddle_GatingAttr>:$gating,
                       UnitAttr:$alternating, UnitAttr:$ungated, UnitAttr:$scales_input, UnitAttr:$accumulate, UnitAttr:$int16);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    (`activated` $activation^)? (`gating` $gating^)? `ins` `(` $input (`scales` $input_scales^)? (`sums` $input_sums^)? (`rounded` $input_rounded^)? `,` $weights (`bias` $bias^)? `:` type($input)
    (`scales` type($input_scales)^)? (`sums` type($input_sums)^)? (`rounded` type($input_rounded)^)? `,` type($weights) (`bias` type($bias)^)? `)`
    `list` `(` $offsets `,` $row_index `,` $row_scale `:` type($offsets) `,` type($row_index) `,` type($row_scale) `)`
    `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    // Rows of an expert's packed matrices.
    int64_t getExpertRows() { return (isGated() ? 2 : 1) * int64_t(getN()); }
    bool isGated() { return getActivation() && !getUngated(); }
    ::llvm::StringRef getArithmetic();
  }];
  let hasVerifier = 1;
}

def Heddle_DequantizeOp : Heddle_KernelOp<"dequantize", [AttrSizedOperandSegments]> {
  let summary = "Rows of a packed weight as f32: token embeddings";
  let description = [{
    destination[r, :] = scale * W[ids[r], :]

    Ids from `n` on name rows of `given`, which are not scaled.

    Constraints:
      * C1: ids is (rows), i32; the destination (rows, k).
      * C2: given is (any number, k), of f32.

    ```mlir
    func.func @rows_of_the_table(%ids: tensor<?xi32>, %table: tensor<4352xi8>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
      %x = heddle.dequantize ins(%ids, %table : tensor<?xi32>, tensor<4352xi8>) outs(%out : tensor<?x64xf32>)
        {n = 64, k = 64, format = "q8_0", scale = 1.0} -> tensor<?x64xf32>
      return %x : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$ids, Heddle_Buffer:$weights, Optional<Heddle_Buffer>:$given,
                       Variadic<Heddle_Buffer>:$inits, I64Attr:$n, I64Attr:$k, StrAttr:$format, F64Attr:$scale);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    `ins` `(` $ids `,` $weights `:` type($ids) `,` type($weights) `)` (`given` `(` $given^ `:` type($given) `)`)? `outs` `(` $inits `:` type($inits) `)` attr-dict
    (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def Heddle_KernelCallOp : Heddle_KernelOp<"kernel_call", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs an outlined kernel on rows";
  let description = [{
    The callee is a private function on tensors that says what the kernel computes; codegen emits it from there. Row r of each
    destination depends on row r of the inputs that have rows, and on the whole of the others.

    Constraints:
      * C1: the callee exists, takes the inputs' shapes and returns the destinations'.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
      %y = heddle.kernel_call @norm ins(%x, %w : tensor<?x64xf32>, tensor<64xf32>) outs(%out : tensor<?x64xf32>) -> tensor<?x64xf32>
      return %y : tensor<?x64xf32>
    }
    func.func private @norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
      %y = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Heddle_Buffer>:$inputs, Variadic<Heddle_Buffer>:$inits);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee `ins` `(` ($inputs^ `:` type($inputs))? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
}

def Heddle_RopeTableOp : Heddle_Op<"rope_table", [Pure]> {
  let summary = "Cosines and sines of every position, as the session computed them";
  let description = [{
    result is (context, rotary_dim): for each position rotary_dim / 2 cosines, then as many sines, of rotary embedding
    number `table`.

    ```mlir
    #rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
    func.func @from_the_session(%q: tensor<1x2x?x4xf32>, %positions: tensor<1x?xi32>) -> tensor<1x2x?x4xf32> {
      %table = heddle.rope_table 0 : tensor<?x4xf32>
      %rotated = heddle.rope %q, %positions table(%table : tensor<?x4xf32>) #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
      return %rotated : tensor<1x2x?x4xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$table);
  let results = (outs 2DTensorOf<[F32]>:$result);
  let assemblyFormat = "$table attr-dict `:` type($result)";
}

def Heddle_QuantizeOp : Heddle_Op<"quantize", [Pure]> {
  let summary = "Activations as 8-bit integers";
  let description = [{
    For each 32 values: scale = max |x| / 127, codes = round to nearest even of x / scale (0 where scale is 0); sums holds the
    sum of the codes of each 16 values.

    Constraints:
      * C1: input is (rows, width), width a multiple of 32; codes have its shape, scales (rows, width / 32), sums (rows, width / 16).

    ```mlir
    func.func @once_for_all_products(%x: tensor<?x64xf32>, %w: tensor<1280xi8>, %out: tensor<?x16xf32>) -> tensor<?x16xf32> {
      %codes, %scales, %sums = heddle.quantize %x : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
      %y = heddle.packed_matmul ins(%codes scales %scales sums %sums, %w
          : tensor<?x64xi8> scales tensor<?x2xf32> sums tensor<?x4xi32>, tensor<1280xi8>)
        outs(%out : tensor<?x16xf32>) {n = 16, k = 64, format = "q8_0"} -> tensor<?x16xf32>
      return %y : tensor<?x16xf32>
    }
    ```
  }];
  let arguments = (ins 2DTensorOf<[F32]>:$input);
  let results = (outs 2DTensorOf<[I8]>:$codes, 2DTensorOf<[F32]>:$scales, 2DTensorOf<[I32]>:$sums);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($codes) `,` type($scales) `,` type($sums)";
  let hasVerifier = 1;
}

#endif
