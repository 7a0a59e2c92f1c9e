// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage: from model ops to kernels, their buffers and their weights.
#ifndef HEDDLE_SCHEDULE_PASSES
#define HEDDLE_SCHEDULE_PASSES

include "compiler/contract/StagePass.td"
include "mlir/Pass/PassBase.td"

def FlashTile : StagePass<"heddle-flash-tile", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Turn attention into kernels that walk over its keys in tiles";
  let description = [{
    `attention` of `kv_view`s becomes `online_attention`, which walks the cache in blocks of `block-kv` keys with a running
    maximum and sum; scores are never stored for more than a tile. Attention over tensors, of graphs, becomes `flash_attention`,
    which reads its operands and leaves its result where transposes beside it would have taken them from or to. Must hold
    before: keys and values are both views of the cache or both tensors. After: no `attention`, `kv_view` and `position_bias` is
    left. Switched off by `tiles=false`, the scores of all keys of `context` tokens are stored, which takes that much more
    memory; latent attention has no such form. Attention over tensors then becomes loops, as it does where the kernel
    lacks its types or sizes, which a remark says. Examples: test/schedule/flash-tile.mlir, flash-tile-tensors.mlir.

    ```mlir
    func.func @step(%q: tensor<1x4x?x16xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index) -> tensor<1x4x?x16xf32> {
      %k, %v = heddle.kv_view %cache[%layer] : <2 x 2 x 16 x bf16> -> tensor<1x2x?x16xbf16>, tensor<1x2x?x16xbf16>
      %o = heddle.attention %q, %k, %v <causal> {scale = 0.25}
        : tensor<1x4x?x16xf32>, tensor<1x2x?x16xbf16>, tensor<1x2x?x16xbf16> -> tensor<1x4x?x16xf32>
      return %o : tensor<1x4x?x16xf32>
    }
    // becomes, with block-kv=32
    %o = heddle.online_attention <causal> ins(%rows, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%room : tensor<?x64xf32>) {block_kv = 32 : i64, num_heads = 4 : i64, …, share_kv = true, …} -> tensor<?x64xf32>
    ```
  }];
  let options = [
    Option<"tiles", "tiles", "bool", "true", "Walk the keys in blocks, without storing their scores">,
    Option<"context", "context", "int64_t", "8192", "The longest sequence in tokens, where scores are stored">,
    Option<"blockKv", "block-kv", "int64_t", "64", "Keys per block: a divisor of the page of 64">,
    Option<"shareKv", "share-kv", "bool", "true", "Query heads of a group share each load of a KV block">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def SplitKv : StagePass<"heddle-split-kv", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Let steps of few queries divide their keys among the threads";
  let description = [{
    `online_attention` becomes a branch on `prefer_splits`: on one side attention to splits of `split-kv` keys and
    `combine_splits`, on the other what was there. Split points are multiples of `split-kv` in the sequence, whatever the
    threads and the rows, so both sides leave the same bits. A device splits what it has kernels for (`hasSplits`). `online_latent_attention` whose queries may be folded becomes
    such a branch of two of itself, of which one has `split_kv` and merges what it splits. Must hold before: attention is tiled. After: a split attention
    writes to buffers for max_rows rows and the splits of `context` tokens, `slots` in all. One split, nothing changes.
    Example: test/schedule/split-kv.mlir.

    ```mlir
    func.func @step(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>)
        -> tensor<?x64xf32> {
      %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
        {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true} -> tensor<?x64xf32>
      return %o : tensor<?x64xf32>
    }
    // becomes, with context=2000
    %few = heddle.prefer_splits %cache, %rows {items = 2 : i64, max_rows = 64 : i64, split_kv = 512 : i64} : …
    %o = scf.if %few -> (tensor<?x64xf32>) {
    %s:3 = heddle.online_attention <causal> ins(%q, %cache[%layer] : …) outs(…) {…, split_kv = 512 : i64} -> …
    %c = heddle.combine_splits <causal> ins(%s#0, %s#1, %s#2, %cache : …) outs(%out : …
    scf.yield %c : tensor<?x64xf32>
    } else {
    %w = heddle.online_attention <causal> ins(%q, %cache[%layer] : …) outs(%out : …
    scf.yield %w : tensor<?x64xf32>
    ```
  }];
  let options = [
    Option<"context", "context", "int64_t", "8192", "The longest sequence in tokens">,
    Option<"splitKv", "split-kv", "int64_t", "512", "Keys of a split: a multiple of the page of 64">,
    Option<"slots", "slots", "int64_t", "256", "Rows times splits that a step may have: what the buffers hold">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LowerToKernels : StagePass<"heddle-lower-to-kernels", "::mlir::func::FuncOp", "Optimize"> {
  let summary = "Make kernels of model ops, which ask for their weights packed";
  let description = [{
    `linear` becomes `packed_matmul` (adding to its destination where the product is only added to a value that is not used
    later, or applying the activation that alone reads it; with `gates`, those of a gate and an up projection multiply their results), `embedding` of a weight becomes `dequantize`, `moe` the product of its router, `route_experts` and two
    `expert_matmul`. What they and `online_latent_attention` read of the model becomes a `pack` of the stored weights, of a product
    stacked; so do vectors of norms and of attention, which are read as f32. Must hold before: activations are rows, (rows, width);
    attention is tiled. After: no `linear`, no `moe`, no `embedding` of a weight; weights are still as the file has them.
    Examples: test/schedule/lower-to-kernels.mlir, lower-to-kernels-moe.mlir.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %residual: tensor<?x32xf32>) -> tensor<?x32xf32> {
      %w = heddle.weight "w" <type = "bf16", file = 0, offset = 128> : tensor<32x64xbf16>
      %y = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
      %sum = arith.addf %residual, %y : tensor<?x32xf32>
      return %sum : tensor<?x32xf32>
    }
    // becomes
    %packed = heddle.pack <stacked> "bf16"(%w : tensor<32x64xbf16>) -> tensor<4096xi8>
    %y = heddle.packed_matmul ins(%x, %packed : …) outs(%residual : tensor<?x32xf32>) {accumulate, format = "bf16", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
    return %y : tensor<?x32xf32>
    ```
  }];
  let options = [Option<"gates", "gates", "bool", "false", "A gate and an up projection are one product that joins them, as kernels of devices do, and those on AMX">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect"];
}

def FlattenRows : StagePass<"heddle-flatten-rows", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Join the dimensions around ops that work on rows";
  let description = [{
    `linear` and `embedding` over any number of dimensions become the same op over rows, between a `tensor.collapse_shape` and a
    `tensor.expand_shape`, which move no element. Must hold before: nothing. After: the input of every `linear` has two dimensions, the ids
    of every `embedding` one. Example: test/schedule/flatten-rows.mlir.

    ```mlir
    func.func @graph(%x: tensor<?x?x64xf32>) -> tensor<?x?x32xf32> {
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 128> : tensor<32x64xf32>
      %y = heddle.linear %x, weights(%w : tensor<32x64xf32>) : tensor<?x?x64xf32> -> tensor<?x?x32xf32>
      return %y : tensor<?x?x32xf32>
    }
    // becomes
    %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x64xf32> into tensor<?x64xf32>
    %y = heddle.linear %rows, weights(%w : tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x32xf32>
    %z = tensor.expand_shape %y [[0, 1], [2]] output_shape […, …, 32] : tensor<?x32xf32> into tensor<?x?x32xf32>
    return %z : tensor<?x?x32xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect"];
}

def PackWeights : StagePass<"heddle-pack-weights", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Give every weight a place in the weights section: packed where a kernel asks for it, as stored elsewhere";
  let description = [{
    A `pack` becomes a `weight` whose `#heddle.packing` says its offset, its layout and its sources. What a layer function packs of
    its arguments is an argument, filled at each call. Weights that ops read as they are keep their bytes, in the layout `stored`.
    What is packed equally (a tied head) has one place. Must hold before: what is packed are weights, or arguments of a private
    function. After: no `pack`; every `weight` has a packing instead of a storage, and none is without use. No byte is read here:
    packaging streams them. Examples: test/schedule/pack-weights.mlir, pack-weights-stored.mlir.

    ```mlir
    func.func @step() -> (tensor<4096xi8>, tensor<2xi1>) {
      %w = heddle.weight "w" <type = "bf16", file = 0, offset = 128> : tensor<32x64xbf16>
      %packed = heddle.pack <stacked> "bf16" (%w : tensor<32x64xbf16>) -> tensor<4096xi8>
      %flags = heddle.weight "flags" <type = "bool", file = 0, offset = 20> : tensor<2xi1>
      return %packed, %flags : tensor<4096xi8>, tensor<2xi1>
    }
    // becomes
    module attributes {heddle.weights_size = 4098 : i64} {
    %packed = heddle.weight "w" packed <layout = stacked, format = "bf16", shape = [32, 64], offset = 0, sources = [<name = "w", rows = 32, …
    %flags = heddle.weight "flags" packed <layout = stored, format = "bool", shape = [2], offset = 4096, …> : tensor<2xi1>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def AssignSchedules : StagePass<"heddle-assign-schedules", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Choose the schedules, number formats and tables that kernels run with";
  let description = [{
    Kernel ops of a module with a `heddle.target` get their `heddle.schedule`, from the target's table (`ScheduleTable.cpp`). Entries of the
    module's `heddle.schedules`, if it has any, come before: the first whose `match` says of the kernel what is so (`TunedSchedules.h`)
    replaces the tiles and numbers that it has. The attribute is gone afterwards.
    With `activations=int8`, inputs of products with quantised weights are quantised, with `bf16` rounded, with `by-rows` few rows become
    16-bit integers in the kernel; with `bf16-products`, inputs of products with bf16 weights are rounded, and with `by-rows` those of many
    rows: once per value however many products read it (for CUDA, `by-rows` leaves few rows f32, and the product rounds many); and attention over a bf16 cache multiplies bf16, on a CPU. Rotary embeddings read the session's table.
    Keys are split if there are too few tiles of attention per thread. In a step for CUDA a product takes along a norm that it alone reads, and the rounding of
    what another kernel left. In a step on a CPU a product whose result is read rounded rounds it where it stores it; where few rows are read as they are, of more
    rows than those (`rounded_above`). Examples: test/schedule/assign-schedules.mlir, assign-schedules-targets.mlir, assign-schedules-tuned.mlir,
    assign-schedules-prepares.mlir, assign-schedules-rounds.mlir.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
      %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%out : tensor<?x32xf32>)
        {n = 32, k = 64, format = "q8_0"} -> tensor<?x32xf32>
      return %y : tensor<?x32xf32>
    }
    // becomes, with activations=int8
    %codes, %scales, %sums = heddle.quantize %x : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
    %y = heddle.packed_matmul ins(%codes scales %scales sums %sums, %w : …
    // becomes, with activations=bf16
    %rounded = arith.truncf %x : tensor<?x64xf32> to tensor<?x64xbf16>
    %y = heddle.packed_matmul ins(%rounded, %w : …
    // becomes, with activations=by-rows bf16-products
    %rounded = arith.truncf %x : tensor<?x64xf32> to tensor<?x64xbf16>
    %y = heddle.packed_matmul ins(%x rounded %rounded, %w : …
    ```
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"f32\"", "Inputs of products with quantised weights: by-rows, f32, bf16 or int8">,
    Option<"bf16Products", "bf16-products", "bool", "false", "Inputs of products with bf16 weights are rounded to bf16, and what attention multiplies over a bf16 cache">,
    Option<"graphs", "graphs", "bool", "false", "So do graph entries, whose types otherwise say what they compute with">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def OutlineKernels : StagePass<"heddle-outline-kernels", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Gather what lies between products and attention into kernels";
  let description = [{
    Row-wise ops (norms, rotary embedding, activations, residuals, quantisation) that feed one another become one private
    function @kernel_N each, called by `kernel_call`; shape ops go into the kernels that need them, and equal kernels are shared.
    Layers write their result where the caller says. After: functions hold kernels, calls and views only.
    With `single-result`, for devices, where a grid of threads computes one result, a kernel with several is one kernel for each,
    which compute again what they share; queries and keys that one product made are rotated together, and where the
    target has a kernel for it (`hasRotateAppend`) by the one that stores what the cache holds of them, which ends the product of both where nothing else
    reads that (`endsWithHeads`). Examples: test/schedule/outline-kernels.mlir,
    outline-kernels-single.mlir, outline-kernels-rotate-append.mlir.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
      %sum = arith.addf %x, %y : tensor<?x64xf32>
      %n = heddle.rms_norm %sum, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
      return %n : tensor<?x64xf32>
    }
    // becomes
    func.func @step(%x: …, %y: …, %w: tensor<64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
    %n = heddle.kernel_call @kernel_0 ins(%x, %y, %w : …) outs(%out : tensor<?x64xf32>) -> tensor<?x64xf32>
    func.func private @kernel_0(…) -> tensor<?x64xf32> attributes {heddle.kernel} {
    %sum = arith.addf …
    %normalised = heddle.rms_norm %sum, …
    ```
  }];
  let options = [Option<"singleResult", "single-result", "bool", "false", "Kernels have one result each">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def TileWindows : StagePass<"heddle-tile-windows", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Multiply windows that overlap block by block, as many as a cache holds";
  let description = [{
    In graph entries. A `linear` whose rows are windows of a tensor, as a convolution leaves it, becomes loops over blocks of windows, if these overlap and are
    more than `most-elements` together. Windows that do not overlap are a copy of their tensor, and stay. Must hold before: raise has
    found the convolutions. After: no window that overlaps is written before the block that it is multiplied in.
    Example: test/schedule/tile-windows.mlir.

    ```mlir
    #x = affine_map<(n, o, c, k) -> (n, c, o * 2 + k)>
    #windows = affine_map<(n, o, c, k) -> (n, o, c, k)>
    func.func @graph(%x: tensor<1x4x65xf32>) -> tensor<1x32x8xf32> {
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x12xf32>
      %room = tensor.empty() : tensor<1x32x4x3xf32>
      %windows = linalg.generic {indexing_maps = [#x, #windows], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%x : tensor<1x4x65xf32>) outs(%room : tensor<1x32x4x3xf32>) {
      ^bb0(%e: f32, %out: f32):
        linalg.yield %e : f32
      } -> tensor<1x32x4x3xf32>
      %rows = tensor.collapse_shape %windows [[0], [1], [2, 3]] : tensor<1x32x4x3xf32> into tensor<1x32x12xf32>
      %y = heddle.linear %rows, weights(%w : tensor<8x12xf32>) : tensor<1x32x12xf32> -> tensor<1x32x8xf32>
      return %y : tensor<1x32x8xf32>
    }
    // becomes, with most-elements=192
    %all = scf.for %n = … iter_args(%some = %none) -> (tensor<32x8xf32>) {
    %some_more = scf.for %o = %c0 to %c32 step %c16 iter_args(…) -> (tensor<32x8xf32>) {
    %seen = tensor.extract_slice %x[%n, 0, …
    %windows = linalg.generic …
    %y = heddle.linear …
    %more = tensor.insert_slice %y into …
    ```
  }];
  let options = [Option<"mostElements", "most-elements", "int64_t", "1 << 18", "Elements of windows in a block">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def FuseElementwise : StagePass<"heddle-fuse-elementwise", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Make loops of elementwise ops, one for each chain of them";
  let description = [{
    In graph entries. Elementwise `arith` and `math` ops on tensors and named ops become `linalg.generic`; one whose only reader is another `linalg.generic`
    becomes part of it. Not into products, which have kernels of their own, nor where a costly element would be computed more
    than once. A body has at most 48 ops. Remarks say why a loop was not fused into the one that
    reads it. Example: test/schedule/fuse-elementwise.mlir.

    ```mlir
    func.func @graph(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %a = math.tanh %x : tensor<?x4xf32>
      %b = arith.mulf %a, %x : tensor<?x4xf32>
      return %b : tensor<?x4xf32>
    }
    // becomes
    %y = linalg.generic {…} ins(%x : tensor<?x4xf32>) outs(%room : tensor<?x4xf32>) {
    ^bb0(%in: f32, %out: f32):
    %a = math.tanh %in : f32
    %b = arith.mulf %a, %in : f32
    linalg.yield %b : f32
    return %y : tensor<?x4xf32>
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def DecomposeTensorOps : StagePass<"heddle-decompose-tensor-ops", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Break tensor ops that have no loop form of their own into ones that have";
  let description = [{
    In graph entries, which run through upstream's linalg. `linalg.softmax` becomes its maximum, exponential, sum and quotient,
    `tensor.concat` of up to 8 operands a row of `tensor.insert_slice`: what they are may then be computed in its place. Sums and
    contractions of 16-bit floats accumulate in f32 and round once. Model ops that have no kernel in graphs (norms, `glu`, `softcap`, `rope`)
    become what their formulas say.
    Elsewhere products whose columns a `tensor.concat` puts side by side are computed where they go: nothing is copied there.
    Example: test/schedule/decompose-tensor-ops.mlir.

    ```mlir
    func.func @graph(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> tensor<6x3xf32> {
      %z = tensor.concat dim(0) %x, %y : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
      return %z : tensor<6x3xf32>
    }
    // becomes
    %room = tensor.empty() : tensor<6x3xf32>
    %first = tensor.insert_slice %x into %room[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<6x3xf32>
    %z = tensor.insert_slice %y into %first[2, 0] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<6x3xf32>
    return %z : tensor<6x3xf32>
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def OrderLoops : StagePass<"heddle-order-loops", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Make the innermost loop of every linalg.generic the one that walks memory in order";
  let description = [{
    In graph entries. The innermost loop becomes the one whose steps are contiguous in most operands, and a parallel one where that is a draw: the
    compiler behind can vectorise it, and a row of the output stays in cache. Must hold before: named ops are generic. The order
    of a reduction's terms does not change. Example: test/schedule/order-loops.mlir.

    ```mlir
    #a = affine_map<(m, n, k) -> (m, k)>
    #b = affine_map<(m, n, k) -> (k, n)>
    #c = affine_map<(m, n, k) -> (m, n)>
    func.func @graph(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %init: tensor<2x4xf64>) -> tensor<2x4xf64> {
      %z = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x, %y : tensor<2x3xf64>, tensor<3x4xf64>) outs(%init : tensor<2x4xf64>) {
      ^bb0(%p: f64, %q: f64, %o: f64):
        %t = arith.mulf %p, %q : f64
        %s = arith.addf %o, %t : f64
        linalg.yield %s : f64
      } -> tensor<2x4xf64>
      return %z : tensor<2x4xf64>
    }
    // becomes
    #a = affine_map<(d0, d1, d2) -> (d0, d1)>
    #b = affine_map<(d0, d1, d2) -> (d1, d2)>
    #c = affine_map<(d0, d1, d2) -> (d0, d2)>
    %z = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "reduction", "parallel"]} …
    ```
  }];
}

def Bufferize : StagePass<"heddle-bufferize", "::mlir::ModuleOp", "Optimize"> {
  let summary = "Put tensors into buffers; kernel bodies stay on tensors";
  let description = [{
    One-shot bufferization. Of the step and its layers, after kernels are outlined: buffers of layer results are the caller's, and a copy
    is an error. Of graph entries: arguments and weights are read only; what is returned, also by loops, is a buffer of its own, or an
    argument as it came. Examples: test/schedule/bufferize.mlir, bufferize-graph.mlir.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
      %y = heddle.kernel_call @kernel_0 ins(%x, %w : tensor<?x64xf32>, tensor<64xf32>) outs(%out : tensor<?x64xf32>) -> tensor<?x64xf32>
      return %y : tensor<?x64xf32>
    }
    func.func private @kernel_0(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel} {
      %y = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    // becomes
    func.func @step(%x: memref<?x64xf32>, %w: memref<64xf32>, %out: memref<?x64xf32>) -> memref<?x64xf32> {
    heddle.kernel_call @kernel_0 ins(%x, %w : memref<?x64xf32>, memref<64xf32>) outs(%out : memref<?x64xf32>)
    return %out : memref<?x64xf32>
    ```

    ```mlir
    #row = affine_map<(i) -> (i)>
    func.func @graph(%x: tensor<8xf32>) -> tensor<8xf32> {
      %room = tensor.empty() : tensor<8xf32>
      %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%room : tensor<8xf32>) {
      ^bb0(%in: f32, %out: f32):
        %t = math.tanh %in : f32
        linalg.yield %t : f32
      } -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    // becomes
    func.func @graph(%x: memref<8xf32>) -> memref<8xf32> {
    %y = memref.alloc() {alignment = 64 : i64} : memref<8xf32>
    linalg.generic {…} ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
    return %y : memref<8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

def PlanMemory : StagePass<"heddle-plan-memory", "::mlir::ModuleOp", "Schedule"> {
  let summary = "Give every buffer an offset in the arena";
  let description = [{
    Offsets are multiples of the rows of a step, so that one plan serves every length: `heddle.row_offset` bytes per row on each
    allocation, the total on the module. What does not depend on the rows lies behind (`heddle.offset`, `heddle.fixed_bytes`). Buffers that do not live at the same time share bytes; a layer's lie behind its
    caller's. Rows that products of blocks of rows read 16 at a time, or write, lie a line further apart where their length would bring these into the same sets of a cache.
    The scratch memory of a thread (`heddle.thread_bytes`) is the largest that a schedule asks for. Example: test/schedule/plan-memory.mlir.

    ```mlir
    func.func @step(%rows: index, %w: memref<8192xi8>) {
      %a = memref.alloc(%rows) : memref<?x64xf32>
      %b = memref.alloc(%rows) : memref<?x64xf32>
      heddle.packed_matmul ins(%a, %w : memref<?x64xf32>, memref<8192xi8>) outs(%b : memref<?x64xf32>) {n = 64, k = 64, format = "bf16"}
      %c = memref.alloc(%rows) : memref<?x64xf32>
      heddle.packed_matmul ins(%b, %w : memref<?x64xf32>, memref<8192xi8>) outs(%c : memref<?x64xf32>) {n = 64, k = 64, format = "bf16"}
      return
    }
    // becomes
    module attributes {…heddle.row_bytes = 512 : i64} {
    %a = memref.alloc(%rows) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
    %b = memref.alloc(%rows) {heddle.row_offset = 256 : i64} : memref<?x64xf32>
    %c = memref.alloc(%rows) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
    ```
  }];
}

#endif

def PlanBarriers : StagePass<"heddle-plan-barriers", "::mlir::ModuleOp", "Schedule"> {
  let summary = "Find launches of a step behind which threads need not wait for each other";
  let description = [{
    Two launches follow each other without a wait where no memory that one writes is touched by the other on another thread: row-wise ops
    whose rows stay with their thread, and ops that are independent. Marked `heddle.runs_on` for steps of many rows and `heddle.runs_on_of_one_row`
    for those of one. Of one row, a row-wise result that all threads would wait for is computed by each of them in memory of its own
    (`heddle.private`, on the op and its allocation), and what is rounded for products of many rows only is left out (`heddle.of_many_rows`). The waits of a
    step of one row are counted on the module. Example: test/schedule/plan-barriers.mlir.

    ```mlir
    func.func @step(%rows: index, %x: memref<?x64xf32>, %w: memref<64xf32>, %m: memref<8192xi8>, %y: memref<?x64xf32>) {
      %a = memref.alloc(%rows) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
      heddle.kernel_call @norm ins(%x, %w : memref<?x64xf32>, memref<64xf32>) outs(%a : memref<?x64xf32>)
      heddle.packed_matmul ins(%a, %m : memref<?x64xf32>, memref<8192xi8>) outs(%y : memref<?x64xf32>) {n = 64, k = 64, format = "bf16"}
      return
    }
    func.func private @norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel} {
      %y = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    // becomes
    module attributes {heddle.waits = 1 : i64} {
    %a = memref.alloc(%rows) {heddle.private, heddle.row_offset = 0 : i64} : memref<?x64xf32>
    heddle.kernel_call @norm ins(%x, %w : memref<?x64xf32>, memref<64xf32>) outs(%a : memref<?x64xf32>) {heddle.private, heddle.runs_on_of_one_row}
    ```
  }];
}
