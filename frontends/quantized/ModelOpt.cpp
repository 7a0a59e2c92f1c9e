// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// quant_method modelopt, of NVIDIA's Model Optimizer, in config.json or, as its older releases have it, in hf_quant_config.json. quant_algo says how
// weights are quantised:
//
//   NVFP4   NAME.weight (out, in / 2) of E2M1 beside NAME.weight_scale (out, in / 16) of E4M3 and NAME.weight_scale_2, which multiplies these
//   FP8     NAME.weight (out, in) of E4M3 beside NAME.weight_scale, one of all
//
// What multiplies weights is not rounded here, nor are keys and values: their scales take no part.
#include "frontends/quantized/Float4.h"
#include "frontends/quantized/Float8.h"
#include "frontends/quantized/QuantMethods.h"

namespace heddle {

RestoreWeights readModelOpt(JsonObject &options) {
  for (const char *key : {"config_groups", "exclude_modules", "group_size", "ignore", "kv_cache_quant_algo",
                          "kv_cache_scheme", "producer"})
    options.pass(key);
  std::string algorithm = options.string("quant_algo").value_or("");
  if (algorithm != "NVFP4" && algorithm != "FP8")
    options.unsupported("quant_algo", (algorithm.empty() ? "is missing" : "is '" + printable(algorithm, 64) + "'") +
                                          ", which is not supported for modelopt; expected NVFP4 or FP8");
  return [](WeightRestorer &weights) -> Status {
    for (const std::string &module : weights.namesBefore(".weight_scale_2"))
      HEDDLE_RETURN_IF_ERROR(restoreNvfp4(weights, module, {".weight", ".weight_scale", ".weight_scale_2"}));
    for (const std::string &module : weights.namesBefore(".weight_scale"))
      HEDDLE_RETURN_IF_ERROR(restoreFloat8(weights, module, {"weight_scale"}));
    for (const char *ending : {".input_scale", ".k_scale", ".v_scale"})
      for (const std::string &module : weights.namesBefore(ending))
        weights.drop(module + ending);
    return Status();
  };
}

} // namespace heddle
