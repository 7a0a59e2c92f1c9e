// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No block of ours has such numbers, which reach over four powers of ten. Where all scales are powers of two, bf16 has the products as they
// are; else they are rounded to f16, which has three bits more, if it reaches so far.
#include "frontends/quantized/Float8.h"

#include "frontends/SmallFloats.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle {

static TensorType typeFor(const std::vector<float> &scales) {
  constexpr float largestNumber = 448, largestHalf = 65504, smallestBfloat = 0x1p-100f;
  int exponent;
  bool arePowers = std::all_of(scales.begin(), scales.end(), [&](float scale) {
    return scale > smallestBfloat && std::frexp(scale, &exponent) == 0.5f;
  });
  float largest = *std::max_element(scales.begin(), scales.end());
  return arePowers || largest * largestNumber > largestHalf ? TensorType::BF16 : TensorType::F16;
}

Status restoreFloat8(WeightRestorer &weights, const std::string &module, const Float8Scales &options) {
  std::string name = module + ".weight", scaleName = module + "." + options.ending;
  Expected<WeightPart> codes = weights.part(name, {TensorType::U8}, {-1, -1});
  if (!codes)
    return codes.status();
  Expected<WeightPart> part = weights.part(scaleName, {TensorType::F32, TensorType::BF16, TensorType::F16});
  if (!part)
    return part.status();
  int64_t rows = codes->shape[0], columns = codes->shape[1];
  std::vector<float> scales = part->numbers();
  auto count = static_cast<int64_t>(scales.size());
  int64_t blockRows = rows, blockColumns = columns;
  if (options.blockColumns) {
    blockRows = options.blockRows;
    blockColumns = options.blockColumns;
  } else if (count == rows) {
    blockRows = 1;
  }
  int64_t across = (columns + blockColumns - 1) / blockColumns, down = (rows + blockRows - 1) / blockRows;
  if (count != across * down)
    return weights.refused(scaleName, "has shape " + shapeText(part->shape) + ", expected " +
                                          shapeText({down, across}) + " scales of " + shapeText(codes->shape));
  std::array<float, 256> numbers;
  for (size_t bits = 0; bits < numbers.size(); ++bits)
    numbers[bits] = e4m3ToFloat(static_cast<uint8_t>(bits));
  auto fill = [&](int64_t row, float *out) {
    const uint8_t *bytes = codes->data + row * columns;
    const float *ofRow = scales.data() + row / blockRows * across;
    for (int64_t column = 0; column < columns; ++column)
      out[column] = numbers[bytes[column]] * ofRow[column / blockColumns];
  };
  HEDDLE_RETURN_IF_ERROR(weights.addNumbers(name, typeFor(scales), rows, columns, fill));
  weights.drop(scaleName);
  return Status();
}

} // namespace heddle
