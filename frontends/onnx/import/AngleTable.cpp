// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tables of sines and cosines. Row 0 tells them apart, 0 and 1; frequencies are those of the sines, found from the numbers: the first
// row that a quarter turn has not passed says nearly which, least squares (Gauss and Newton) over more and more rows the rest: what a frequency
// is off by then turns no row by much, of 16-bit floats as well.

#include "frontends/onnx/import/AngleTable.h"

#include "bytes/HalfFloats.h"

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
  OnnxType type;
  int64_t rows, columns;
  double amplitude = 1;

  static std::optional<Table> of(const OnnxModel &model, const OnnxTensor &tensor);
  double at(int64_t row, int64_t column) const {
    int64_t place = row * columns + column;
    float value;
    if (type == OnnxType::Float) {
      memcpy(&value, bytes + place * sizeof(float), sizeof(float));
    } else {
      uint16_t half;
      memcpy(&half, bytes + place * sizeof(half), sizeof(half));
      value = type == OnnxType::Float16 ? halfToFloat(half) : bfloatToFloat(half);
    }
    return value / amplitude;
  }
  // What a number may be off by: twice what it was rounded by, since the frequency is found from such numbers.
  double precision() const { return type == OnnxType::Float ? 1e-6 : type == OnnxType::Float16 ? 0x1p-11 : 0x1p-8; }
  // Whether row 0 is this number, at which all sines, or all cosines, begin.
  bool startsWith(double number) const {
    return llvm::all_of(llvm::seq(columns), [&](int64_t column) { return at(0, column) == number; });
  }
  bool beginsAsSines() const { return startsWith(0) && at(1, 0) != 0; }
  bool beginsAsCosines() const { return at(0, 0) > 0 && startsWith(at(0, 0)); }
  bool agrees(int64_t column, bool isCosine, double frequency) const;
  std::optional<double> frequencyOfSines(int64_t column) const;
};
} // namespace

std::optional<Table> Table::of(const OnnxModel &model, const OnnxTensor &tensor) {
  size_t rank = tensor.dims.size();
  bool isRead = tensor.type == OnnxType::Float || tensor.type == OnnxType::Float16 || tensor.type == OnnxType::Bfloat16;
  if (!isRead || tensor.isSparse || rank < 2 || tensor.dims[rank - 2] < 2 || tensor.dims[rank - 1] < 2 ||
      llvm::any_of(ArrayRef(tensor.dims).drop_back(2), [](int64_t size) { return size != 1; }))
    return std::nullopt;
  return Table{model.data(tensor), tensor.type, tensor.dims[rank - 2], tensor.dims[rank - 1]};
}

// An angle of 32 bits is off by its last bit, which grows with it.
bool Table::agrees(int64_t column, bool isCosine, double frequency) const {
  for (int64_t row = 0; row < rows; ++row) {
    double angle = double(row) * frequency, wanted = isCosine ? std::cos(angle) : std::sin(angle);
    if (!(std::abs(at(row, column) - wanted) <= precision() + 1.5e-7 * angle))
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
  auto improve = [&](int64_t end) {
    double change = 0, norm = 0;
    for (int64_t row = 1; row < end; ++row) {
      double angle = double(row) * frequency, slope = double(row) * std::cos(angle);
      change += slope * (at(row, column) - std::sin(angle));
      norm += slope * slope;
    }
    if (norm > 0)
      frequency += change / norm;
  };
  for (int64_t end = 4 * first; end < rows; end *= 4)
    improve(end);
  for (int step = 0; step < 4; ++step)
    improve(rows);
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

void AngleTables::collectHalves() {
  halves.emplace();
  for (const OnnxTensor &tensor : model.graph.initializers)
    if (std::optional<Table> table = Table::of(model, tensor)) {
      if (table->beginsAsSines())
        (*halves)[tensor.dims].sines.push_back(&tensor);
      else if (table->beginsAsCosines())
        (*halves)[tensor.dims].cosines.push_back(&tensor);
    }
}

// Of a table whose columns are all sines or all cosines, where the others are an initializer as well.
std::optional<AngleTable> AngleTables::halfOfPair(const OnnxTensor &tensor, bool isCosine) {
  if (!halves)
    collectHalves();
  auto found = halves->find(tensor.dims);
  if (found == halves->end())
    return std::nullopt;
  // Few tables of a model have one shape: what has many is none, and not worth trying all against all.
  constexpr size_t maxPartners = 64;
  ArrayRef<const OnnxTensor *> partners = isCosine ? found->second.sines : found->second.cosines;
  for (const OnnxTensor *partner : partners.take_front(maxPartners)) {
    Table cosines = *Table::of(model, isCosine ? tensor : *partner),
          sines = *Table::of(model, isCosine ? *partner : tensor);
    cosines.amplitude = sines.amplitude = cosines.at(0, 0);
    if (std::optional<AngleTable> table = frequenciesOf(sines, cosines)) {
      table->isCosine.assign(sines.columns, isCosine);
      return table;
    }
  }
  return std::nullopt;
}

std::optional<AngleTable> AngleTables::read(const OnnxTensor &tensor) {
  std::optional<Table> floats = Table::of(model, tensor);
  if (!floats)
    return std::nullopt;
  const Table &table = *floats;
  AngleTable result;
  for (int64_t column = 0; column < table.columns; ++column)
    result.isCosine.push_back(table.at(0, column) == 1);
  if (table.beginsAsSines() || table.beginsAsCosines())
    return halfOfPair(tensor, table.beginsAsCosines());
  if (llvm::all_equal(result.isCosine))
    return std::nullopt;
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
