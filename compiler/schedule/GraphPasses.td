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

def DecomposeTensorOps : Pass<"heddle-decompose-tensor-ops", "::mlir::ModuleOp"> {
  let summary = "Break tensor ops that have no loop form of their own into ones that have";
  let description = [{
    For graphs, which run through upstream's linalg. `linalg.softmax` becomes its maximum, exponential, sum and quotient,
    `tensor.concat` a row of `tensor.insert_slice`. Sums and contractions of 16-bit floats accumulate in f32 and round once.
    Example: test/schedule/decompose-tensor-ops.mlir.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect"];
}

def OrderLoops : Pass<"heddle-order-loops", "::mlir::ModuleOp"> {
  let summary = "Make the innermost loop of every linalg.generic the one that walks memory in order";
  let description = [{
    The innermost loop becomes the one whose steps are contiguous in most operands, and a parallel one where that is a draw: the
    compiler behind can vectorise it, and a row of the output stays in cache. Must hold before: named ops are generic. The order
    of a reduction's terms does not change. Example: test/schedule/order-loops.mlir.
  }];
}

def PlaceWeights : Pass<"heddle-place-weights", "::mlir::ModuleOp"> {
  let summary = "Give every weight of a graph, stored as in its file, a place in the weights section";
  let description = [{
    After: every `weight` says its offset in the section and its source; equal ones share their bytes. No byte is read here.
    Example: test/schedule/place-weights.mlir.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def BufferizeGraph : Pass<"heddle-bufferize-graph", "::mlir::ModuleOp"> {
  let summary = "Put the tensors of a graph into buffers";
  let description = [{
    One-shot bufferization of @graph. Arguments and weights are read only; what is returned, also by loops, is a buffer of its own.
    Example: test/schedule/bufferize-graph.mlir.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

#endif
