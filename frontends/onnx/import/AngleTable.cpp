// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tables of sines and cosines. Row 0 tells them apart, 0 and 1; frequencies are those of the sines, found from the numbers: the first
// row that a quarter turn has not passed says nearly which, least squares over all rows (Gauss and Newton) the rest.

#include "frontends/onnx/import/AngleTable.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;
using namespace heddle;

namespace {
struct Table {
  const uint8_t *bytes;
  int64_t rows, columns;

  double at(int64_t row, int64_t column) const {
    float value;
    memcpy(&value, bytes + (row * columns + column) * sizeof(float), sizeof(float));
    return value;
  }
  bool agrees(int64_t column, bool isCosine, double frequency) const;
  double frequencyOfSines(int64_t column) const;
};
} // namespace

// An angle of 32 bits is off by its last bit, which grows with it.
bool Table::agrees(int64_t column, bool isCosine, double frequency) const {
  for (int64_t row = 0; row < rows; ++row) {
    double angle = double(row) * frequency, wanted = isCosine ? std::cos(angle) : std::sin(angle);
    if (!(std::abs(at(row, column) - wanted) <= 1e-6 + 1.5e-7 * angle))
      return false;
  }
  return true;
}

double Table::frequencyOfSines(int64_t column) const {
  int64_t first = 1;
  while (first + 1 < rows && at(first, column) < 0.5)
    ++first;
  double frequency = std::asin(std::clamp(at(first, column), -1.0, 1.0)) / double(first);
  for (int step = 0; step < 4; ++step) {
    double change = 0, norm = 0;
    for (int64_t row = 1; row < rows; ++row) {
      double angle = double(row) * frequency, slope = double(row) * std::cos(angle);
      change += slope * (at(row, column) - std::sin(angle));
      norm += slope * slope;
    }
    if (norm > 0)
      frequency += change / norm;
  }
  return double(float(frequency));
}

std::optional<AngleTable> heddle::angleTableOf(const OnnxModel &model, const OnnxTensor &tensor) {
  if (tensor.type != OnnxType::Float || tensor.dims.size() != 2 || tensor.dims[0] < 2 || tensor.dims[1] < 2)
    return std::nullopt;
  Table table{model.data(tensor), tensor.dims[0], tensor.dims[1]};
  AngleTable result;
  for (int64_t column = 0; column < table.columns; ++column) {
    double start = table.at(0, column);
    if (start != 0 && start != 1)
      return std::nullopt;
    result.isCosine.push_back(start == 1);
  }
  SmallVector<double> found;
  for (int64_t column = 0; column < table.columns; ++column)
    if (!result.isCosine[column]) {
      found.push_back(table.frequencyOfSines(column));
      if (found.back() <= 0 || !table.agrees(column, false, found.back()))
        return std::nullopt;
    }
  size_t sines = 0, cosines = 0;
  for (int64_t column = 0; column < table.columns; ++column) {
    size_t place = result.isCosine[column] ? cosines++ : sines++;
    if (place >= found.size() || (result.isCosine[column] && !table.agrees(column, true, found[place])))
      return std::nullopt;
    result.frequencies.push_back(found[place]);
  }
  return sines == cosines ? std::optional(result) : std::nullopt;
}
