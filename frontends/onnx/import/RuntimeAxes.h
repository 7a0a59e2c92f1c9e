// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Axes that a node reads from an input, known when it is imported or only when it runs. Both are the same arithmetic:
// the indicator of (axis, dimension) is 1 if they are the same, else 0, and constants fold.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_RUNTIMEAXES_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_RUNTIMEAXES_H

#include "frontends/onnx/import/GraphImporter.h"

namespace heddle {

class RuntimeAxes {
public:
  // The elements of `axes`, of which only the number must be known; negative ones count from the end. One that is out
  // of range, or there twice, is an error of the node or ends the run.
  static std::optional<RuntimeAxes> read(NodeImport &n, const GraphValue &axes, int64_t rank);

  int64_t count() const { return int64_t(picks.size()); }
  // All of them, if they are constants.
  std::optional<llvm::SmallVector<int64_t>> constants() const;
  // Per dimension: 1 if it is among the axes.
  const Dims &members() const { return isMember; }
  // Per dimension: the value that its axis has in `values`, or the one of `otherwise`.
  Dims spread(GraphBuilder &g, llvm::ArrayRef<Dim> values, llvm::ArrayRef<Dim> otherwise) const;
  // The values of the dimensions that are no axes, in order.
  Dims without(GraphBuilder &g, llvm::ArrayRef<Dim> values) const;
  // One value per dimension: 1 for the axes, `rest` in order for the others.
  Dims inserted(GraphBuilder &g, llvm::ArrayRef<Dim> rest) const;

private:
  Dims numbers;            // the axes, from the front
  std::vector<Dims> picks; // (axis, dimension)
  Dims isMember;
};

} // namespace heddle

#endif
