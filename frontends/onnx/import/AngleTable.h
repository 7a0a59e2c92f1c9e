// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tables of sines and cosines.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_ANGLETABLE_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_ANGLETABLE_H

#include "frontends/onnx/OnnxModel.h"

#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <vector>

namespace heddle {

// Element [row, column] of a table is `amplitude` times the sine or the cosine of row * frequencies[column].
struct AngleTable {
  double amplitude = 1;
  llvm::SmallVector<double> frequencies; // of each column, 32-bit floats
  llvm::SmallVector<bool> isCosine;
};

// The tables among the initializers of a model.
class AngleTables {
public:
  explicit AngleTables(const OnnxModel &model) : model(model) {}

  // What a tensor of floats (1, …, rows, columns) is, to the precision of angles of 32 bits, if every column is one. The cosine of each sine is in
  // the table as well, in their order; or one table has the sines and another initializer of its shape the cosines, column by column, as exporters
  // fold the rotations of a known length.
  std::optional<AngleTable> read(const OnnxTensor &tensor);

private:
  struct Halves {
    std::vector<const OnnxTensor *> sines, cosines;
  };

  void collectHalves();
  std::optional<AngleTable> halfOfPair(const OnnxTensor &tensor, bool isCosine);

  const OnnxModel &model;
  // Initializers whose first rows are those of sines or cosines alone, by their dimensions; collected when one of them is read.
  std::optional<std::map<std::vector<int64_t>, Halves>> halves;
};

} // namespace heddle

#endif
