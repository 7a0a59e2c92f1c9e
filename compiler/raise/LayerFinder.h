// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a decoder's layers begin and end in its graph.
#ifndef HEDDLE_COMPILER_RAISE_LAYERFINDER_H
#define HEDDLE_COMPILER_RAISE_LAYERFINDER_H

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// Activations: floats that are computed, of rank 2 or more, and how they compare.
bool isData(mlir::Value value);
// The number that every element of a tensor of floats is, as what a scale multiplies by.
std::optional<double> numberEverywhere(mlir::Value value);

// The values between which a decoder's layers lie: boundaries[k] and boundaries[k + 1] are input and output of layer k.
class LayerFinder {
public:
  explicit LayerFinder(mlir::func::FuncOp graph);
  // Empty if the graph is no chain of layers with one attention each.
  llvm::SmallVector<mlir::Value> run(LinearOp head);

private:
  void findCuts();
  std::optional<size_t> lastCut(size_t begin, size_t end);
  std::optional<size_t> lastBoundary(llvm::ArrayRef<size_t> attentions, llvm::ArrayRef<size_t> found, LinearOp head);

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Value, size_t> index;
  llvm::SmallVector<bool> isCut; // nothing that is computed before is read after
};

} // namespace heddle

#endif
