// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage: from model ops to kernels, their buffers and their weights.
#ifndef HEDDLE_SCHEDULE_PASSES
#define HEDDLE_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def FlashTile : Pass<"heddle-flash-tile", "::mlir::ModuleOp"> {
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

def SplitKv : Pass<"heddle-split-kv", "::mlir::ModuleOp"> {
  let summary = "Let steps of few queries divide their keys among the threads";
  let description = [{
    `online_attention` becomes a branch on `prefer_splits`: on one side attention to splits of `split-kv` keys and
    `combine_splits`, on the other what was there. Split points are multiples of `split-kv` in the sequence, whatever the
    threads and the rows, so both sides leave the same bits. Must hold before: attention is tiled. After: a split attention
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
    %few = heddle.prefer_splits %cache, %rows {max_rows = 64 : i64, split_kv = 512 : i64} : …
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

def LowerToKernels : Pass<"heddle-lower-to-kernels", "::mlir::func::FuncOp"> {
  let summary = "Make kernels of model ops, which ask for their weights packed";
  let description = [{
    `linear` becomes `packed_matmul` (adding to its destination where the product is only added to a value that is not used
    later), `embedding` of a weight becomes `dequantize`, `moe` the product of its router, `route_experts` and two
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
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect"];
}

def FlattenRows : Pass<"heddle-flatten-rows", "::mlir::ModuleOp"> {
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

def PackWeights : Pass<"heddle-pack-weights", "::mlir::ModuleOp"> {
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

def AssignSchedules : Pass<"heddle-assign-schedules", "::mlir::ModuleOp"> {
  let summary = "Choose the schedules, number formats and tables that kernels run with";
  let description = [{
    Kernel ops of a module with a `heddle.target` get their `heddle.schedule`, from the target's table (`ScheduleTable.cpp`).
    With `activations=int8`, inputs of products with quantised weights are quantised, with `bf16` rounded; with `bf16-products`,
    inputs of products with bf16 weights are rounded: once per value however many products read it. Rotary embeddings read the session's table.
    Keys are split if there are too few tiles of attention per thread. Examples: test/schedule/assign-schedules.mlir,
    assign-schedules-targets.mlir.

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
    ```
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"f32\"", "Inputs of products with quantised weights: f32, bf16 or int8">,
    Option<"bf16Products", "bf16-products", "bool", "false", "Inputs of products with bf16 weights are rounded to bf16">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect"];
}

def OutlineKernels : Pass<"heddle-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Gather what lies between products and attention into kernels";
  let description = [{
    Row-wise ops (norms, rotary embedding, activations, residuals, quantisation) that feed one another become one private
    function @kernel_N each, called by `kernel_call`; shape ops go into the kernels that need them, and equal kernels are shared.
    Layers write their result where the caller says. After: functions hold kernels, calls and views only.
    With `single-result`, for devices, where a grid of threads computes one result, a kernel with several is one kernel for each,
    which compute again what they share. Example: test/schedule/outline-kernels.mlir, outline-kernels-single.mlir.

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
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect"];
}

def BufferizeKernels : Pass<"heddle-bufferize-kernels", "::mlir::ModuleOp"> {
  let summary = "Put tensors into buffers; kernel bodies stay on tensors";
  let description = [{
    One-shot bufferization of the step and its layers. Must hold before: kernels are outlined. Buffers of layer results are the
    caller's. Example: test/schedule/bufferize-kernels.mlir.

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
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

def PlanMemory : Pass<"heddle-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give every buffer an offset in the arena";
  let description = [{
    Offsets are multiples of the rows of a step, so that one plan serves every length: `heddle.row_offset` bytes per row on each
    allocation, the total on the module. What does not depend on the rows lies behind (`heddle.offset`, `heddle.fixed_bytes`). Buffers that do not live at the same time share bytes; a layer's lie behind its
    caller's. Example: test/schedule/plan-memory.mlir.

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
