// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// quant_method compressed-tensors, of llm-compressor and vLLM. config_groups says of which modules what is quantised and how; that a weight is, and
// its sizes, its tensors say:
//
//   pack-quantized    NAME.weight_packed (out, in / p), the lowest columns first in a word of 32 bits, beside NAME.weight_shape and, where
//                     columns were quantised by their activations, NAME.weight_g_idx (in)
//   int-quantized     NAME.weight (out, in) of 8 bits
//   float-quantized   NAME.weight (out, in) of E4M3
//   nvfp4-pack-quantized, mxfp4-pack-quantized
//                     NAME.weight_packed (out, in / 2) of E2M1, the earlier number in the lower bits, beside NAME.weight_scale (out, in / 16) of E4M3
//                     and NAME.weight_global_scale, by which these are divided, or beside NAME.weight_scale (out, in / 32) of E8M0
//
// with NAME.weight_scale (out, groups), (out, 1) or (1) and, unless codes are symmetric, NAME.weight_zero_point, packed along its rows as codes
// are. Packed numbers have 2^(bits - 1) added. What multiplies weights is not rounded here, whatever the scheme says of activations.
#include "frontends/quantized/Float4.h"
#include "frontends/quantized/Float8.h"
#include "frontends/quantized/QuantMethods.h"

#include <cstring>

namespace heddle {

namespace {

// What config_groups says of weights; all groups say the same.
struct WeightScheme {
  int bits = 8;
  bool isFloat = false;
  int64_t groupSize = 0; // 0: by rows, or all of a matrix
  int64_t blockRows = 0, blockColumns = 0;
};

bool operator==(const WeightScheme &a, const WeightScheme &b) {
  return a.bits == b.bits && a.isFloat == b.isFloat && a.groupSize == b.groupSize && a.blockRows == b.blockRows &&
         a.blockColumns == b.blockColumns;
}

class IntegerWeight {
public:
  IntegerWeight(WeightRestorer &weights, const std::string &module, const WeightScheme &scheme, bool isPacked)
      : weights(weights), name(module + ".weight"), scheme(scheme), isPacked(isPacked), perWord(32 / scheme.bits) {}
  Status restore();

private:
  Status readShape(int64_t words);
  Status readScales();
  Status readZeros();
  Status readGroups();
  uint8_t fieldAt(const uint8_t *words, int64_t line, int64_t lineWords, int64_t field) const;

  WeightRestorer &weights;
  std::string name;
  const WeightScheme &scheme;
  bool isPacked;
  int64_t perWord;
  CodedWeight weight;
};

uint8_t IntegerWeight::fieldAt(const uint8_t *words, int64_t line, int64_t lineWords, int64_t field) const {
  uint32_t word;
  std::memcpy(&word, words + 4 * (line * lineWords + field / perWord), sizeof word);
  return static_cast<uint8_t>(word >> (field % perWord * scheme.bits) & ((1u << scheme.bits) - 1));
}

// The last word of a row may be filled in part.
Status IntegerWeight::readShape(int64_t words) {
  Expected<WeightPart> shape = weights.part(name + "_shape", {TensorType::I64, TensorType::I32}, {2});
  if (!shape)
    return shape.status();
  std::vector<float> sizes = shape->numbers();
  weight.columns = static_cast<int64_t>(sizes[1]);
  if (static_cast<int64_t>(sizes[0]) != weight.rows || weight.columns < 1 ||
      (weight.columns + perWord - 1) / perWord != words)
    return weights.refused(name + "_shape", "says " + shapeText({static_cast<int64_t>(sizes[0]), weight.columns}) +
                                                ", which is not that of " + std::to_string(weight.rows) + " rows of " +
                                                std::to_string(words) + " words");
  return Status();
}

Status IntegerWeight::readScales() {
  Expected<WeightPart> scales = weights.part(name + "_scale", {TensorType::F32, TensorType::BF16, TensorType::F16});
  if (!scales)
    return scales.status();
  std::vector<float> numbers = scales->numbers();
  auto count = static_cast<int64_t>(numbers.size());
  weight.groups = scheme.groupSize ? (weight.columns + scheme.groupSize - 1) / scheme.groupSize : 1;
  if (count == 1 && weight.rows * weight.groups != 1)
    numbers.assign(static_cast<size_t>(weight.rows * weight.groups), numbers.front());
  else if (count != weight.rows * weight.groups)
    return weights.refused(name + "_scale", "has shape " + shapeText(scales->shape) + ", expected " +
                                                shapeText({weight.rows, weight.groups}));
  weight.scales = std::move(numbers);
  return Status();
}

Status IntegerWeight::readZeros() {
  if (!weights.has(name + "_zero_point"))
    return Status();
  int64_t words = (weight.rows + perWord - 1) / perWord;
  std::vector<int64_t> packed = {words, weight.groups};
  Expected<WeightPart> zeros =
      weights.part(name + "_zero_point", {isPacked ? TensorType::I32 : TensorType::I8}, isPacked ? &packed : nullptr);
  if (!zeros)
    return zeros.status();
  std::vector<float> numbers = zeros->numbers();
  if (!isPacked && numbers.size() != 1 && numbers.size() != weight.scales.size())
    return weights.refused(name + "_zero_point", "has shape " + shapeText(zeros->shape) + ", expected " +
                                                     shapeText({weight.rows, weight.groups}));
  weight.zeros.resize(weight.scales.size());
  for (int64_t row = 0; row < weight.rows; ++row)
    for (int64_t group = 0; group < weight.groups; ++group) {
      auto index = static_cast<size_t>(row * weight.groups + group);
      uint32_t word;
      if (isPacked)
        std::memcpy(&word, zeros->data + 4 * (row / perWord * weight.groups + group), sizeof word);
      weight.zeros[index] = isPacked
                                ? static_cast<float>(word >> (row % perWord * scheme.bits) & ((1u << scheme.bits) - 1))
                                : numbers[numbers.size() == 1 ? 0 : index] + 128;
    }
  return Status();
}

Status IntegerWeight::readGroups() {
  if (!weights.has(name + "_g_idx")) {
    weight.groupColumns(scheme.groupSize ? scheme.groupSize : -1);
    return Status();
  }
  Expected<WeightPart> groups = weights.part(name + "_g_idx", {TensorType::I32, TensorType::I64}, {weight.columns});
  if (!groups)
    return groups.status();
  for (float group : groups->numbers()) {
    if (group < 0 || group >= static_cast<float>(weight.groups))
      return weights.refused(name + "_g_idx", "has " + std::to_string(static_cast<int64_t>(group)) +
                                                  ", expected the number of one of " + std::to_string(weight.groups) +
                                                  " groups");
    weight.groupOf.push_back(static_cast<int32_t>(group));
  }
  return Status();
}

Status IntegerWeight::restore() {
  std::string stored = name + (isPacked ? "_packed" : "");
  Expected<WeightPart> codes = weights.part(stored, {isPacked ? TensorType::I32 : TensorType::I8}, {-1, -1});
  if (!codes)
    return codes.status();
  weight.bits = isPacked ? scheme.bits : 8;
  weight.rows = codes->shape[0];
  weight.columns = codes->shape[1];
  int64_t words = weight.columns;
  if (isPacked)
    HEDDLE_RETURN_IF_ERROR(readShape(words));
  HEDDLE_RETURN_IF_ERROR(readScales());
  HEDDLE_RETURN_IF_ERROR(readZeros());
  HEDDLE_RETURN_IF_ERROR(readGroups());
  weight.codes = [&](int64_t first, int64_t last, uint8_t *out) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t column = 0; column < weight.columns; ++column)
        *out++ = isPacked ? fieldAt(codes->data, row, words, column)
                          : static_cast<uint8_t>(codes->data[row * words + column] ^ 0x80);
  };
  HEDDLE_RETURN_IF_ERROR(weights.addCodes(name, weight));
  for (const char *part : {"_packed", "_shape", "_scale", "_zero_point", "_g_idx"})
    weights.drop(name + part);
  return Status();
}

WeightScheme readScheme(JsonObject &weights) {
  WeightScheme scheme;
  for (const char *key : {"actorder", "dynamic", "observer", "observer_kwargs", "scale_dtype", "symmetric", "zp_dtype"})
    weights.pass(key); // how codes were chosen, and what tensors say
  std::string type = weights.string("type").value_or("int"), strategy = weights.string("strategy").value_or("tensor");
  int64_t bits = weights.integer("num_bits").value_or(8);
  scheme.isFloat = type == "float";
  if (type != "int" && type != "float")
    weights.unsupported("type", "is '" + printable(type, 64) +
                                    "', which is not supported for compressed-tensors; expected int or float");
  if (bits != 8 && bits != 4)
    weights.unsupported("num_bits", "is " + std::to_string(bits) +
                                        ", which is not supported for compressed-tensors; expected 4 or 8");
  scheme.bits = static_cast<int>(bits);
  int64_t size = weights.integer("group_size").value_or(0);
  std::vector<int64_t> block = weights.integers("block_structure");
  if (scheme.isFloat && bits == 4) {
    // Blocks of 16 with a scale for all of a matrix beside theirs (NVFP4), or of 32 (MXFP4).
    scheme.groupSize = strategy == "tensor_group" ? 16 : 32;
    if ((strategy != "tensor_group" && strategy != "group") || size != scheme.groupSize)
      weights.unsupported("group_size", "is " + std::to_string(size) + " with the strategy '" +
                                            printable(strategy, 64) +
                                            "', which is not supported for 4 bits of type float; expected 16 with "
                                            "tensor_group or 32 with group");
    return scheme;
  }
  if (strategy == "group" && size < 1)
    weights.fail("group_size", "is " + std::to_string(size) + ", expected a positive number");
  else if (strategy == "group")
    scheme.groupSize = size;
  else if (strategy == "block" && (!scheme.isFloat || block.size() != 2 || block[0] < 1 || block[1] < 1))
    weights.unsupported("block_structure", "is not supported for compressed-tensors; expected two positive numbers, of "
                                           "weights of 8 bits of type float");
  else if (strategy == "block")
    std::tie(scheme.blockRows, scheme.blockColumns) = std::pair(block[0], block[1]);
  else if (strategy != "channel" && strategy != "tensor")
    weights.unsupported(
        "strategy", "is '" + printable(strategy, 64) +
                        "', which is not supported for compressed-tensors; expected tensor, channel, group or block");
  if (scheme.isFloat && scheme.groupSize)
    std::tie(scheme.blockRows, scheme.blockColumns) = std::pair(int64_t(1), scheme.groupSize);
  return scheme;
}

void refuseFormat(JsonObject &object) {
  std::string format = object.string("format").value_or("pack-quantized");
  for (const char *known : {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized",
                            "nvfp4-pack-quantized", "mxfp4-pack-quantized"})
    if (format == known)
      return;
  object.unsupported("format", "is '" + printable(format, 64) +
                                   "', which is not supported for compressed-tensors; expected pack-quantized, "
                                   "int-quantized, float-quantized, naive-quantized, nvfp4-pack-quantized or "
                                   "mxfp4-pack-quantized");
}

WeightScheme readGroups(JsonObject &options) {
  std::optional<WeightScheme> common;
  JsonObject groups = options.object("config_groups");
  for (JsonItems items(options.find("config_groups")); items.next();) {
    std::string name = items.key.string();
    JsonObject group = groups.object(name.c_str());
    JsonObject weights = group.object("weights");
    refuseFormat(group);
    if (!group.has("weights"))
      group.unsupported("weights",
                        "is missing, which is not supported for compressed-tensors; expected a scheme of weights");
    WeightScheme scheme = readScheme(weights);
    if (common && !(*common == scheme))
      weights.unsupported("num_bits", "or another option is that of no other group, which is not supported for "
                                      "compressed-tensors; expected the same for all weights");
    common = scheme;
    group.adopt(weights);
    groups.adopt(group);
  }
  options.adopt(groups);
  if (!common)
    options.fail("config_groups", "has no group, expected one at least");
  return common.value_or(WeightScheme());
}

Status restoreAll(WeightRestorer &weights, const WeightScheme &scheme) {
  bool isFloat4 = scheme.isFloat && scheme.bits == 4;
  for (const std::string &module : weights.namesBefore(".weight_packed"))
    if (isFloat4 && scheme.groupSize == 16)
      HEDDLE_RETURN_IF_ERROR(
          restoreNvfp4(weights, module, {".weight_packed", ".weight_scale", ".weight_global_scale", /*divides=*/true}));
    else if (isFloat4)
      HEDDLE_RETURN_IF_ERROR(restoreMxfp4(weights, module, {".weight_packed", ".weight_scale"}));
    else
      HEDDLE_RETURN_IF_ERROR(IntegerWeight(weights, module, scheme, /*isPacked=*/true).restore());
  for (const std::string &module : weights.namesBefore(".weight_scale")) {
    if (scheme.isFloat)
      HEDDLE_RETURN_IF_ERROR(restoreFloat8(weights, module, {"weight_scale", scheme.blockRows, scheme.blockColumns}));
    else
      HEDDLE_RETURN_IF_ERROR(IntegerWeight(weights, module, scheme, /*isPacked=*/false).restore());
    weights.drop(module + ".weight_zero_point");
  }
  for (const char *ending :
       {".input_scale", ".input_global_scale", ".input_zero_point", ".output_scale", ".output_zero_point"})
    for (const std::string &module : weights.namesBefore(ending))
      weights.drop(module + ending);
  return Status();
}

} // namespace

RestoreWeights readCompressedTensors(JsonObject &options) {
  for (const char *key : {"global_compression_ratio", "ignore", "quantization_status", "version"})
    options.pass(key);
  for (const char *key : {"kv_cache_scheme", "moe_sparsity_config"})
    if (options.has(key))
      options.unsupported(key, "is set, which is not supported for compressed-tensors; expected null");
  for (const char *key : {"sparsity_config", "transform_config"})
    if (JsonItems(options.find(key)).next())
      options.unsupported(key, "is set, which is not supported for compressed-tensors; expected an empty one");
  if (options.has("format"))
    refuseFormat(options);
  options.pass("format");
  WeightScheme scheme = readGroups(options);
  return [scheme](WeightRestorer &weights) { return restoreAll(weights, scheme); };
}

} // namespace heddle
