// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel computes, as Halide Funcs: the first of a kernel's two paragraphs. Schedules.h has the second.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_ALGORITHMS_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_ALGORITHMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "Halide.h"

#include <string>
#include <vector>

namespace heddle {

// How the innermost dimension of a tensor is read: `run` neighbours of it are neighbours in every source. A rotary
// embedding repeats after `period` elements; within it, each run is code of its own.
struct Contiguity {
  int64_t run = 1, period = 1;
};

enum class StageKind { Elementwise, PartialSums, Fold, Scalar, BlockReduction, Reduction };

// A Func whose rows are computed one at a time and kept on the stack. Variables are innermost first.
struct RowStage {
  StageKind kind = StageKind::Elementwise;
  Halide::Func func;
  llvm::SmallVector<int64_t> extents; // innermost first; ShapedType::kDynamic: one row
  Contiguity contiguity;
  Halide::RVar reduced; // of a block reduction
};

// A result: variables are innermost first, the last is named "row".
struct Output {
  Halide::Func func;
  llvm::SmallVector<int64_t> extents;
  Contiguity contiguity;
};

struct Algorithm {
  std::vector<Halide::Argument> arguments;
  std::vector<RowStage> stages; // producers first
  std::vector<Output> outputs;
};

// Partial sums per row: element i is added to sum i % partialSums, in order; the sums are then added pairwise. The
// order is the same on every target and for every slice of rows.
constexpr int partialSums = 32;
// Partial sums are folded to this many before the last, scalar additions.
constexpr int foldedSums = 8;

// Every Func is named after `symbol`; dynamic dimensions are `maxRows` at most.
mlir::FailureOr<Algorithm> buildAlgorithm(mlir::func::FuncOp kernel, llvm::StringRef symbol, int64_t maxRows);

} // namespace heddle

#endif
