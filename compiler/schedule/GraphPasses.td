// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage that only graphs take, on upstream's ops alone.
#ifndef HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_TD
#define HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_TD

include "mlir/Pass/PassBase.td"

def TileWindows : Pass<"heddle-tile-windows", "::mlir::ModuleOp"> {
  let summary = "Multiply windows that overlap block by block, as many as a cache holds";
  let description = [{
    A `linear` whose rows are windows of a tensor, as a convolution leaves it, becomes loops over blocks of windows, if these overlap and are
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

def FuseElementwise : Pass<"heddle-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Make loops of elementwise ops, one for each chain of them";
  let description = [{
    Elementwise `arith` and `math` ops on tensors become `linalg.generic`; one whose only reader is another `linalg.generic`
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

def DecomposeTensorOps : Pass<"heddle-decompose-tensor-ops", "::mlir::ModuleOp"> {
  let summary = "Break tensor ops that have no loop form of their own into ones that have";
  let description = [{
    For graphs, which run through upstream's linalg. `linalg.softmax` becomes its maximum, exponential, sum and quotient,
    `tensor.concat` of up to 8 operands a row of `tensor.insert_slice`: what they are may then be computed in its place. Sums and
    contractions of 16-bit floats accumulate in f32 and round once. Model ops that have no kernel in graphs (norms, `glu`, `softcap`, `rope`)
    become what their formulas say.
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

def OrderLoops : Pass<"heddle-order-loops", "::mlir::ModuleOp"> {
  let summary = "Make the innermost loop of every linalg.generic the one that walks memory in order";
  let description = [{
    The innermost loop becomes the one whose steps are contiguous in most operands, and a parallel one where that is a draw: the
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

def BufferizeGraph : Pass<"heddle-bufferize-graph", "::mlir::ModuleOp"> {
  let summary = "Put the tensors of a graph into buffers";
  let description = [{
    One-shot bufferization of @graph. Arguments and weights are read only; what is returned, also by loops, is a buffer of its own.
    Example: test/schedule/bufferize-graph.mlir.

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

#endif
