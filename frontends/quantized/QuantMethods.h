// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantised Hugging Face folders. What `quantization_config` in config.json says decides how the parts of a weight (codes, scales, zeros, …)
// are read; everything behind the reader sees a weight of the usual name in one of the types of weights.
#ifndef HEDDLE_FRONTENDS_QUANTIZED_QUANTMETHODS_H
#define HEDDLE_FRONTENDS_QUANTIZED_QUANTMETHODS_H

#include "frontends/WeightRestorer.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Gives each weight that the checkpoint holds in parts its usual name. A tensor that is no part of one is left as it is.
using RestoreWeights = std::function<Status(WeightRestorer &)>;

// Reads the options of a method; what it does not ask for, nor pass over, is refused. Failures go to `options`.
RestoreWeights readAwq(JsonObject &options);
RestoreWeights readBitsAndBytes(JsonObject &options);
RestoreWeights readCompressedTensors(JsonObject &options);
RestoreWeights readFp8(JsonObject &options);
RestoreWeights readGptq(JsonObject &options);
RestoreWeights readModelOpt(JsonObject &options);
RestoreWeights readMxfp4(JsonObject &options);

// Passes over the keys of GPTQ and AWQ that say how codes were chosen, which modules have them or which kernels are to run: what the tensors say
// alone is what they stand for.
void passQuantizerKeys(JsonObject &options);

// Restores the weights of `model`, whose tensors have the names and shapes of the folder's files, if its config.json has a
// quantization_config, or it has a hf_quant_config.json.
Status restoreQuantizedWeights(ModelFiles &files, Model &model);

} // namespace heddle

#endif
