// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MXFP4 (OCP Microscaling Formats (MX) specification 1.0): 32 numbers of E2M1 share a power of two, E8M0. The experts of a layer are stacked,
// NAME_blocks (experts, out, in / 32, 16) and NAME_scales (experts, out, in / 32); of a byte of blocks, the low nibble is the earlier number.
// ggml's blocks are the same numbers in another order.
#include "frontends/quantized/Float4.h"
#include "frontends/quantized/QuantMethods.h"

#include <atomic>

namespace heddle {

// `name` ends in the name of a matrix that each expert has.
static Status restoreExperts(WeightRestorer &weights, const std::string &name) {
  constexpr uint8_t notANumber = 255;
  Expected<WeightPart> blocks = weights.part(name + "_blocks", {TensorType::U8}, {-1, -1, -1, 16});
  if (!blocks)
    return blocks.status();
  int64_t experts = blocks->shape[0], rows = blocks->shape[1], perRow = blocks->shape[2];
  Expected<WeightPart> scales = weights.part(name + "_scales", {TensorType::U8}, {experts, rows, perRow});
  if (!scales)
    return scales.status();
  std::atomic<bool> isFinite{true};
  size_t dot = name.rfind('.') + 1;
  for (int64_t expert = 0; expert < experts; ++expert) {
    auto fill = [&](int64_t first, int64_t last, uint8_t *out) {
      const uint8_t *scale = scales->data + (expert * rows + first) * perRow;
      const uint8_t *pairs = blocks->data + (expert * rows + first) * perRow * 16;
      for (int64_t i = 0; i < (last - first) * perRow; ++i, pairs += 16, out += 17) {
        if (scale[i] == notANumber)
          isFinite = false;
        putMxfp4Block(scale[i], pairs, out);
      }
    };
    std::string ofExpert = name.substr(0, dot) + std::to_string(expert) + "." + name.substr(dot) + ".weight";
    HEDDLE_RETURN_IF_ERROR(weights.addBlocks(ofExpert, TensorType::MXFP4, rows, perRow * 32, fill));
  }
  if (!isFinite)
    return weights.refused(name + "_scales", "has the scale 255, which is not a number");
  weights.drop(name + "_blocks");
  weights.drop(name + "_scales");
  return Status();
}

RestoreWeights readMxfp4(JsonObject &options) {
  options.pass("modules_to_not_convert"); // they have no blocks
  options.pass("dequantize");             // whether transformers computes with them
  return [](WeightRestorer &weights) -> Status {
    for (const std::string &name : weights.namesBefore("_blocks"))
      HEDDLE_RETURN_IF_ERROR(restoreExperts(weights, name));
    return Status();
  };
}

} // namespace heddle
