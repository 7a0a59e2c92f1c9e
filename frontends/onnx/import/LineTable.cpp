// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/onnx/import/LineTable.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace heddle;

// More rows are no heads.
static constexpr int64_t mostRows = 1024;

SmallVector<double> heddle::lineTableOf(const OnnxModel &model, const OnnxTensor &tensor) {
  int64_t columns = tensor.dims.size() < 2 ? 0 : tensor.dims.back();
  if (tensor.type != OnnxType::Float || columns < 3 || int64_t(tensor.elements) / columns > mostRows)
    return {};
  const uint8_t *bytes = model.data(tensor);
  SmallVector<double> lines;
  bool grows = false;
  for (int64_t row = 0; row < int64_t(tensor.elements) / columns; ++row) {
    auto at = [&](int64_t column) -> double {
      float value;
      memcpy(&value, bytes + (row * columns + column) * sizeof(float), sizeof(float));
      return value;
    };
    double first = at(0), last = at(columns - 1), slope = (last - first) / double(columns - 1);
    double near = 1e-6 * std::fmax(std::abs(first), std::abs(last));
    for (int64_t column = 0; column < columns; ++column)
      if (!(std::abs(at(column) - (first + slope * double(column))) <= near))
        return {};
    lines.append({first, slope});
    grows |= slope != 0;
  }
  return grows ? lines : SmallVector<double>();
}
