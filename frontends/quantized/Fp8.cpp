// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// quant_method fp8: weights of E4M3 beside NAME.weight_scale_inv, a scale for each block of weight_block_size, as DeepSeek-V3 (arXiv:2412.19437)
// has them, or NAME.weight_scale, one of all. What multiplies them is not rounded to 8 bits here, so that scales of activations take no part.
#include "frontends/quantized/Float8.h"
#include "frontends/quantized/QuantMethods.h"

namespace heddle {

RestoreWeights readFp8(JsonObject &options) {
  for (const char *key : {"dequantize", "ignored_layers", "modules_to_convert", "modules_to_not_convert", "scale_fmt"})
    options.pass(key);
  for (auto [key, known] : {std::pair("fmt", "e4m3"), {"expert_dtype", "fp8"}})
    if (std::string value = options.string(key).value_or(known); value != known)
      options.unsupported(key, "is '" + printable(value, 64) + "', which is not supported for fp8; expected " + known);
  if (std::string scheme = options.string("activation_scheme").value_or("dynamic");
      scheme != "dynamic" && scheme != "static")
    options.unsupported("activation_scheme", "is '" + printable(scheme, 64) +
                                                 "', which is not supported for fp8; expected dynamic or static");
  if (options.has("kv_cache_scheme"))
    options.unsupported("kv_cache_scheme", "is set, which is not supported for fp8; expected null");
  std::vector<int64_t> block = options.integers("weight_block_size");
  if (!block.empty() && (block.size() != 2 || block[0] < 1 || block[1] < 1))
    options.fail("weight_block_size",
                 "has " + std::to_string(block.size()) + " numbers, expected two that are positive");
  return [block](WeightRestorer &weights) -> Status {
    for (const char *ending : {"weight_scale_inv", "weight_scale"}) {
      Float8Scales scales{ending};
      if (block.size() == 2) {
        scales.blockRows = block[0];
        scales.blockColumns = block[1];
      }
      for (const std::string &module : weights.namesBefore(std::string(".") + ending))
        HEDDLE_RETURN_IF_ERROR(restoreFloat8(weights, module, scales));
    }
    for (const char *ending : {".input_scale", ".activation_scale"})
      for (const std::string &module : weights.namesBefore(ending))
        weights.drop(module + ending);
    return Status();
  };
}

} // namespace heddle
