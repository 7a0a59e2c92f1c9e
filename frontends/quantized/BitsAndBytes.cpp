// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// quant_method bitsandbytes. Of 4 bits (QLoRA, Dettmers et al. 2023, arXiv:2305.14314), the numbers of a matrix in a row are cut into blocks:
//
//   NAME (out in / 2, 1)            two codes a byte, the earlier one high
//   NAME.quant_map (16)             what codes stand for: the levels of NF4 or FP4
//   NAME.absmax (blocks)            what multiplies them; of bytes, where it is quantised itself:
//   NAME.nested_quant_map (256), NAME.nested_absmax (blocks of blocks)
//   NAME.quant_state.bitsandbytes__nf4 or __fp4: JSON with shape, blocksize, nested_blocksize, nested_offset
//
// LLM.int8 (Dettmers et al. 2022, arXiv:2208.07339) has NAME of 8 bits and SCB (out), the largest magnitude of each row: SCB / 127 is a scale.
#include "frontends/quantized/QuantMethods.h"

#include "bytes/Json.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

// The JSON of quant_state.
struct QuantState {
  int64_t rows = 0, columns = 0, blockSize = 0, nestedSize = 0;
  double nestedOffset = 0;
};

Status readState(WeightRestorer &weights, const std::string &name, QuantState &state) {
  Expected<WeightPart> part = weights.part(name, {TensorType::U8}, {-1});
  if (!part)
    return part.status();
  std::string error;
  std::string_view text(reinterpret_cast<const char *>(part->data), static_cast<size_t>(part->shape[0]));
  JsonValue json = JsonValue::parse(text, error);
  if (!error.empty())
    return weights.refused(name, "is " + error);
  std::vector<int64_t> shape;
  for (JsonItems items(json.find("shape")); items.next();)
    if (int64_t size = 0; items.value.integer(size))
      shape.push_back(size);
  constexpr int64_t most = 1 << 30;
  bool isMatrix = shape.size() == 2 &&
                  std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size > 0 && size < most; });
  if (!isMatrix || !json.find("blocksize").integer(state.blockSize) || state.blockSize < 1)
    return weights.refused(name, "is " + printable(text, 128) + ", expected a shape of two sizes and a blocksize");
  state.rows = shape[0];
  state.columns = shape[1];
  json.find("nested_blocksize").integer(state.nestedSize);
  json.find("nested_offset").number(state.nestedOffset);
  return Status();
}

// What multiplies the codes of each block.
Status readAbsmax(WeightRestorer &weights, const std::string &name, const QuantState &state,
                  std::vector<float> &outAbsmax) {
  int64_t blocks = (state.rows * state.columns + state.blockSize - 1) / state.blockSize;
  bool isNested = weights.has(name + ".nested_absmax");
  Expected<WeightPart> absmax = weights.part(name + ".absmax", {isNested ? TensorType::U8 : TensorType::F32}, {blocks});
  if (!absmax)
    return absmax.status();
  outAbsmax = absmax->numbers();
  if (!isNested)
    return Status();
  int64_t size = std::max<int64_t>(1, state.nestedSize);
  Expected<WeightPart> outer = weights.part(name + ".nested_absmax", {TensorType::F32}, {(blocks + size - 1) / size});
  if (!outer)
    return outer.status();
  Expected<WeightPart> levels = weights.part(name + ".nested_quant_map", {TensorType::F32}, {256});
  if (!levels)
    return levels.status();
  std::vector<float> scales = outer->numbers(), map = levels->numbers();
  for (size_t block = 0; block < outAbsmax.size(); ++block)
    outAbsmax[block] = map[static_cast<size_t>(outAbsmax[block])] * scales[block / static_cast<size_t>(size)] +
                       static_cast<float>(state.nestedOffset);
  return Status();
}

Status restoreFourBits(WeightRestorer &weights, const std::string &name, const std::string &stateName) {
  QuantState state;
  HEDDLE_RETURN_IF_ERROR(readState(weights, stateName, state));
  int64_t count = state.rows * state.columns;
  Expected<WeightPart> codes = weights.part(name, {TensorType::U8}, {(count + 1) / 2, 1});
  if (!codes)
    return codes.status();
  Expected<WeightPart> levels = weights.part(name + ".quant_map", {TensorType::F32}, {16});
  if (!levels)
    return levels.status();
  std::vector<float> map = levels->numbers(), absmax;
  HEDDLE_RETURN_IF_ERROR(readAbsmax(weights, name, state, absmax));
  constexpr float largestHalf = 65504;
  bool fitsHalf = std::all_of(absmax.begin(), absmax.end(), [](float scale) { return std::fabs(scale) < largestHalf; });
  auto fill = [&](int64_t row, float *out) {
    for (int64_t column = 0, i = row * state.columns; column < state.columns; ++column, ++i) {
      int code = codes->data[i / 2] >> (i % 2 ? 0 : 4) & 15;
      out[column] = map[static_cast<size_t>(code)] * absmax[static_cast<size_t>(i / state.blockSize)];
    }
  };
  HEDDLE_RETURN_IF_ERROR(
      weights.addNumbers(name, fitsHalf ? TensorType::F16 : TensorType::BF16, state.rows, state.columns, fill));
  weights.drop(stateName);
  for (const char *part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    weights.drop(name + part);
  return Status();
}

Status restoreEightBits(WeightRestorer &weights, const std::string &module) {
  std::string name = module + ".weight";
  Expected<WeightPart> codes = weights.part(name, {TensorType::I8}, {-1, -1});
  if (!codes)
    return codes.status();
  CodedWeight weight;
  weight.bits = 8;
  weight.rows = codes->shape[0];
  weight.columns = codes->shape[1];
  Expected<WeightPart> largest = weights.part(module + ".SCB", {TensorType::F32}, {weight.rows});
  if (!largest)
    return largest.status();
  for (float magnitude : largest->numbers())
    weight.scales.push_back(magnitude / 127);
  weight.groupColumns(-1);
  weight.codes = [&](int64_t first, int64_t last, uint8_t *out) {
    for (int64_t i = first * weight.columns; i < last * weight.columns; ++i)
      *out++ = codes->data[i] ^ 0x80;
  };
  HEDDLE_RETURN_IF_ERROR(weights.addCodes(name, weight));
  weights.drop(module + ".SCB");
  // Rows of other orders than these are made when a model is loaded.
  if (weights.has(module + ".weight_format")) {
    Expected<WeightPart> format = weights.part(module + ".weight_format", {TensorType::U8});
    if (!format)
      return format.status();
    if (*format->data != 0)
      return weights.refused(module + ".weight_format", "is " + std::to_string(*format->data) + ", expected 0 (rows)");
    weights.drop(module + ".weight_format");
  }
  return Status();
}

} // namespace

RestoreWeights readBitsAndBytes(JsonObject &options) {
  // What tensors say, and how to compute.
  for (const char *key :
       {"_load_in_4bit", "_load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type",
        "bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight",
        "llm_int8_skip_modules", "llm_int8_threshold", "load_in_4bit", "load_in_8bit"})
    options.pass(key);
  if (std::string storage = options.string("bnb_4bit_quant_storage").value_or("uint8"); storage != "uint8")
    options.unsupported("bnb_4bit_quant_storage",
                        "is '" + printable(storage, 64) + "', which is not supported for bitsandbytes; expected uint8");
  return [](WeightRestorer &weights) -> Status {
    for (const char *kind : {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"})
      for (const std::string &name : weights.namesBefore(kind))
        HEDDLE_RETURN_IF_ERROR(restoreFourBits(weights, name, name + kind));
    for (const std::string &module : weights.namesBefore(".SCB"))
      HEDDLE_RETURN_IF_ERROR(restoreEightBits(weights, module));
    return Status();
  };
}

} // namespace heddle
