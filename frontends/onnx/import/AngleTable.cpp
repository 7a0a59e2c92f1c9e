// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tables of sines and cosines. Row 0 tells them apart, 0 and 1; frequencies are those of the sines, found from the numbers: the first
// row that a quarter turn has not passed says nearly which, least squares over all rows (Gauss and Newton) the rest.

#include "frontends/onnx/import/AngleTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;
using namespace heddle;

namespace {
// Rows and columns of numbers that are `amplitude` times sines and cosines.
struct Table {
  const uint8_t *bytes;
  int64_t rows, columns;
  double amplitude = 1;

  static std::optional<Table> of(const OnnxModel &model, const OnnxTensor &tensor);
  double at(int64_t row, int64_t column) const {
    float value;
    memcpy(&value, bytes + (row * columns + column) * sizeof(float), sizeof(float));
    return value / amplitude;
  }
  // Whether row 0 is this number, at which all sines, or all cosines, begin.
  bool startsWith(double number) const {
    return llvm::all_of(llvm::seq(columns), [&](int64_t column) { return at(0, column) == number; });
  }
  bool agrees(int64_t column, bool isCosine, double frequency) const;
  std::optional<double> frequencyOfSines(int64_t column) const;
};
} // namespace

std::optional<Table> Table::of(const OnnxModel &model, const OnnxTensor &tensor) {
  size_t rank = tensor.dims.size();
  if (tensor.type != OnnxType::Float || tensor.isSparse || rank < 2 || tensor.dims[rank - 2] < 2 ||
      tensor.dims[rank - 1] < 2 ||
      llvm::any_of(ArrayRef(tensor.dims).drop_back(2), [](int64_t size) { return size != 1; }))
    return std::nullopt;
  return Table{model.data(tensor), tensor.dims[rank - 2], tensor.dims[rank - 1]};
}

// An angle of 32 bits is off by its last bit, which grows with it.
bool Table::agrees(int64_t column, bool isCosine, double frequency) const {
  for (int64_t row = 0; row < rows; ++row) {
    double angle = double(row) * frequency, wanted = isCosine ? std::cos(angle) : std::sin(angle);
    if (!(std::abs(at(row, column) - wanted) <= 1e-6 + 1.5e-7 * angle))
      return false;
  }
  return true;
}

// Nothing where the column is no sine of its rows.
std::optional<double> Table::frequencyOfSines(int64_t column) const {
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
  frequency = double(float(frequency));
  return frequency > 0 && agrees(column, false, frequency) ? std::optional(frequency) : std::nullopt;
}

// Sines in one table and cosines in another.
static std::optional<AngleTable> frequenciesOf(const Table &sines, const Table &cosines) {
  AngleTable result;
  for (int64_t column = 0; column < sines.columns; ++column) {
    std::optional<double> frequency = sines.frequencyOfSines(column);
    if (!frequency || !cosines.agrees(column, true, *frequency))
      return std::nullopt;
    result.frequencies.push_back(*frequency);
  }
  result.amplitude = sines.amplitude;
  return result;
}

// Of a table whose columns are all sines or all cosines, where the others are an initializer as well.
static std::optional<AngleTable> halfOfPair(const OnnxModel &model, const OnnxTensor &tensor, Table table) {
  bool isCosine = table.at(0, 0) > 0 && table.startsWith(table.at(0, 0));
  if (!isCosine && !table.startsWith(0))
    return std::nullopt;
  for (const OnnxTensor &other : model.graph.initializers) {
    std::optional<Table> partner =
        other.dims == tensor.dims && &other != &tensor ? Table::of(model, other) : std::nullopt;
    if (!partner)
      continue;
    Table &cosines = isCosine ? table : *partner, &sines = isCosine ? *partner : table;
    double amplitude = cosines.at(0, 0);
    if (!(amplitude > 0) || !cosines.startsWith(amplitude) || !sines.startsWith(0))
      continue;
    cosines.amplitude = sines.amplitude = amplitude;
    if (std::optional<AngleTable> found = frequenciesOf(sines, cosines)) {
      found->isCosine.assign(table.columns, isCosine);
      return found;
    }
    table.amplitude = 1;
  }
  return std::nullopt;
}

std::optional<AngleTable> heddle::angleTableOf(const OnnxModel &model, const OnnxTensor &tensor) {
  std::optional<Table> read = Table::of(model, tensor);
  if (!read)
    return std::nullopt;
  const Table &table = *read;
  AngleTable result;
  for (int64_t column = 0; column < table.columns; ++column)
    result.isCosine.push_back(table.at(0, column) == 1);
  if (llvm::all_equal(result.isCosine))
    return halfOfPair(model, tensor, table);
  SmallVector<double> found;
  for (int64_t column = 0; column < table.columns; ++column)
    if (!result.isCosine[column]) {
      std::optional<double> frequency = table.frequencyOfSines(column);
      if (table.at(0, column) != 0 || !frequency)
        return std::nullopt;
      found.push_back(*frequency);
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
