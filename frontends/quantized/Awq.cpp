// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AWQ (Lin et al. 2023, arXiv:2306.00978) in the layout that AutoAWQ calls gemm: codes of 4 bits of eight rows share a word of 32 bits, in the
// order 0, 2, 4, 6, 1, 3, 5, 7 from the lowest.
//
//   NAME.qweight  (in, out / 8)
//   NAME.qzeros   (groups, out / 8)
//   NAME.scales   (groups, out)    of f16
#include "frontends/quantized/QuantMethods.h"

#include <cstring>

namespace heddle {

static constexpr int64_t perWord = 8;

// The code of row `row` in line `line` of a matrix (lines, rows / 8).
static uint8_t codeAt(const uint8_t *words, int64_t line, int64_t row, int64_t rows) {
  constexpr int nibbleOf[perWord] = {0, 4, 1, 5, 2, 6, 3, 7};
  uint32_t word;
  std::memcpy(&word, words + 4 * (line * (rows / perWord) + row / perWord), sizeof word);
  return word >> (4 * nibbleOf[row % perWord]) & 15;
}

static Status restoreWeight(WeightRestorer &weights, const std::string &name, int64_t groupSize) {
  Expected<WeightPart> codes = weights.part(name + ".qweight", {TensorType::I32}, {-1, -1});
  if (!codes)
    return codes.status();
  CodedWeight weight;
  weight.columns = codes->shape[0];
  weight.rows = codes->shape[1] * perWord;
  int64_t size = groupSize < 0 ? weight.columns : groupSize;
  weight.groups = (weight.columns + size - 1) / size;
  Expected<WeightPart> zeros = weights.part(name + ".qzeros", {TensorType::I32}, {weight.groups, codes->shape[1]});
  if (!zeros)
    return zeros.status();
  Expected<WeightPart> scales = weights.part(name + ".scales", {TensorType::F16, TensorType::BF16, TensorType::F32},
                                             {weight.groups, weight.rows});
  if (!scales)
    return scales.status();
  std::vector<float> numbers = scales->numbers();
  for (int64_t row = 0; row < weight.rows; ++row)
    for (int64_t group = 0; group < weight.groups; ++group) {
      weight.scales.push_back(numbers[static_cast<size_t>(group * weight.rows + row)]);
      weight.zeros.push_back(codeAt(zeros->data, group, row, weight.rows));
    }
  weight.groupColumns(size);
  weight.codes = [&](int64_t first, int64_t last, uint8_t *out) {
    for (int64_t column = 0; column < weight.columns; ++column)
      for (int64_t row = first; row < last; ++row)
        out[(row - first) * weight.columns + column] = codeAt(codes->data, column, row, weight.rows);
  };
  HEDDLE_RETURN_IF_ERROR(weights.addCodes(name + ".weight", weight));
  for (const char *part : {".qweight", ".scales", ".qzeros"})
    weights.drop(name + part);
  return Status();
}

RestoreWeights readAwq(JsonObject &options) {
  passQuantizerKeys(options);
  const char *bitsKey = options.has("bits") ? "bits" : "w_bit",
             *sizeKey = options.has("group_size") ? "group_size" : "q_group_size";
  for (const char *key : {"bits", "w_bit", "group_size", "q_group_size"})
    options.pass(key);
  if (int64_t bits = options.integer(bitsKey).value_or(4); bits != 4)
    options.unsupported(bitsKey, "is " + std::to_string(bits) + ", which is not supported for awq; expected 4");
  int64_t groupSize = options.integer(sizeKey).value_or(128);
  if (groupSize == 0 || groupSize < -1)
    options.fail(sizeKey, "is " + std::to_string(groupSize) + ", expected a positive number, or -1 for all columns");
  options.pass("format");
  const char *layoutKey = options.has("version") ? "version" : "format";
  if (std::string version = options.string(layoutKey).value_or("gemm"); version != "gemm" && version != "GEMM")
    options.unsupported(layoutKey,
                        "is '" + printable(version, 64) + "', which is not supported for awq; expected gemm");
  if (!options.boolean("zero_point").value_or(true))
    options.unsupported("zero_point", "is false, which is not supported for awq; expected true");
  return [groupSize](WeightRestorer &weights) -> Status {
    for (const std::string &name : weights.namesBefore(".qweight"))
      HEDDLE_RETURN_IF_ERROR(restoreWeight(weights, name, groupSize));
    return Status();
  };
}

} // namespace heddle
