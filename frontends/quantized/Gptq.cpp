// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPTQ (Frantar et al. 2022, arXiv:2210.17323) as AutoGPTQ and GPTQModel write it. With p codes in a word of 32 bits, the lowest first:
//
//   NAME.qweight  (in / p, out)    codes of p columns of a row
//   NAME.scales   (groups, out)    of f16
//   NAME.qzeros   (groups, out / p)
//   NAME.g_idx    (in)             the group of each column, which is in no order where columns were quantised by their activations
//
// Words of zeros lack 1 in each code, but for checkpoint_format gptq_v2.
#include "frontends/quantized/QuantMethods.h"

#include <cstring>

namespace heddle {

namespace {

struct GptqOptions {
  int bits = 4;
  int64_t groupSize = 128; // where there is no g_idx
  uint32_t zeroOffset = 0; // of a word of zeros
};

uint32_t wordAt(const uint8_t *data, int64_t index) {
  uint32_t word;
  std::memcpy(&word, data + 4 * index, sizeof word);
  return word;
}

// A weight of a layer, while its parts are read.
class GptqWeight {
public:
  GptqWeight(WeightRestorer &weights, std::string name, const GptqOptions &options)
      : weights(weights), name(std::move(name)), options(options), perWord(32 / options.bits),
        mask((1u << options.bits) - 1) {}
  Status restore();

private:
  Status readScales();
  Status readZeros();
  Status readGroups();
  void readCodes(const uint8_t *words, int64_t first, int64_t last, uint8_t *out) const;

  WeightRestorer &weights;
  std::string name;
  const GptqOptions &options;
  int64_t perWord;
  uint32_t mask;
  CodedWeight weight;
};

Status GptqWeight::readScales() {
  Expected<WeightPart> scales =
      weights.part(name + ".scales", {TensorType::F16, TensorType::BF16, TensorType::F32}, {-1, weight.rows});
  if (!scales)
    return scales.status();
  weight.groups = scales->shape[0];
  std::vector<float> numbers = scales->numbers();
  weight.scales.resize(numbers.size());
  for (int64_t group = 0; group < weight.groups; ++group)
    for (int64_t row = 0; row < weight.rows; ++row)
      weight.scales[static_cast<size_t>(row * weight.groups + group)] =
          numbers[static_cast<size_t>(group * weight.rows + row)];
  return Status();
}

Status GptqWeight::readZeros() {
  Expected<WeightPart> zeros =
      weights.part(name + ".qzeros", {TensorType::I32}, {weight.groups, weight.rows / perWord});
  if (!zeros)
    return zeros.status();
  weight.zeros.resize(weight.scales.size());
  for (int64_t group = 0; group < weight.groups; ++group)
    for (int64_t row = 0; row < weight.rows; ++row) {
      uint32_t word = wordAt(zeros->data, group * (weight.rows / perWord) + row / perWord) + options.zeroOffset;
      weight.zeros[static_cast<size_t>(row * weight.groups + group)] =
          static_cast<float>(word >> (row % perWord * options.bits) & mask);
    }
  return Status();
}

Status GptqWeight::readGroups() {
  if (!weights.has(name + ".g_idx")) {
    int64_t size = options.groupSize < 0 ? weight.columns : options.groupSize;
    if (weight.groups != (weight.columns + size - 1) / size)
      return weights.refused(name + ".scales", "has " + std::to_string(weight.groups) +
                                                   " rows, expected one for each " + std::to_string(size) +
                                                   " (group_size) of " + std::to_string(weight.columns) + " columns");
    weight.groupColumns(options.groupSize);
    return Status();
  }
  Expected<WeightPart> groups = weights.part(name + ".g_idx", {TensorType::I32}, {weight.columns});
  if (!groups)
    return groups.status();
  for (int64_t column = 0; column < weight.columns; ++column) {
    uint32_t group = wordAt(groups->data, column);
    if (group >= static_cast<uint64_t>(weight.groups))
      return weights.refused(name + ".g_idx", "has " + std::to_string(static_cast<int32_t>(group)) +
                                                  ", expected the number of one of " + std::to_string(weight.groups) +
                                                  " groups");
    weight.groupOf.push_back(static_cast<int32_t>(group));
  }
  return Status();
}

void GptqWeight::readCodes(const uint8_t *words, int64_t first, int64_t last, uint8_t *out) const {
  for (int64_t line = 0; line < weight.columns / perWord; ++line)
    for (int64_t row = first; row < last; ++row) {
      uint32_t word = wordAt(words, line * weight.rows + row);
      uint8_t *codes = out + (row - first) * weight.columns + line * perWord;
      for (int64_t i = 0; i < perWord; ++i, word >>= options.bits)
        codes[i] = static_cast<uint8_t>(word & mask);
    }
}

Status GptqWeight::restore() {
  Expected<WeightPart> codes = weights.part(name + ".qweight", {TensorType::I32}, {-1, -1});
  if (!codes)
    return codes.status();
  weight.bits = options.bits;
  weight.columns = codes->shape[0] * perWord;
  weight.rows = codes->shape[1];
  if (weight.rows % perWord)
    return weights.refused(name + ".qweight", "has " + std::to_string(weight.rows) +
                                                  " columns, expected a multiple of " + std::to_string(perWord));
  HEDDLE_RETURN_IF_ERROR(readScales());
  HEDDLE_RETURN_IF_ERROR(readZeros());
  HEDDLE_RETURN_IF_ERROR(readGroups());
  weight.codes = [&](int64_t first, int64_t last, uint8_t *out) { readCodes(codes->data, first, last, out); };
  HEDDLE_RETURN_IF_ERROR(weights.addCodes(name + ".weight", weight));
  for (const char *part : {".qweight", ".scales", ".qzeros", ".g_idx"})
    weights.drop(name + part);
  return Status();
}

} // namespace

RestoreWeights readGptq(JsonObject &options) {
  GptqOptions read;
  passQuantizerKeys(options);
  int64_t bits = options.integer("bits").value_or(0);
  if (bits != 4 && bits != 8)
    options.unsupported("bits", "is " + std::to_string(bits) + ", which is not supported for gptq; expected 4 or 8");
  read.bits = static_cast<int>(bits);
  read.groupSize = options.integer("group_size").value_or(read.groupSize);
  if (read.groupSize == 0 || read.groupSize < -1)
    options.fail("group_size",
                 "is " + std::to_string(read.groupSize) + ", expected a positive number, or -1 for all columns");
  if (JsonValue dynamic = options.find("dynamic"); JsonItems(dynamic).next())
    options.unsupported("dynamic", "is set, which is not supported for gptq; expected the same options for all layers");
  if (std::string words = options.string("pack_dtype").value_or("int32"); words != "int32")
    options.unsupported("pack_dtype",
                        "is '" + printable(words, 64) + "', which is not supported for gptq; expected int32");
  if (options.boolean("is_marlin_format").value_or(false))
    options.unsupported("is_marlin_format", "is true, which is not supported for gptq; expected false");
  const char *key = options.has("checkpoint_format") ? "checkpoint_format" : "format";
  options.pass("format");
  std::string format = options.string(key).value_or("gptq");
  if (format != "gptq" && format != "gptq_v2")
    options.unsupported(key, "is '" + printable(format, 64) +
                                 "', which is not supported for gptq; expected gptq or gptq_v2");
  if (format == "gptq")
    read.zeroOffset = bits == 4 ? 0x11111111 : 0x01010101;
  return [read](WeightRestorer &weights) -> Status {
    for (const std::string &name : weights.namesBefore(".qweight"))
      HEDDLE_RETURN_IF_ERROR(GptqWeight(weights, name, read).restore());
    return Status();
  };
}

} // namespace heddle
