// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// StableLM (Bellagente et al. 2024, arXiv:2402.17834): Llama with LayerNorm, heads of which a quarter rotates and, in some checkpoints, a
// feed-forward block that reads the normed input of attention. In GGUF a file without ffn_norm is one of those, whatever its key says, as in
// llama.cpp.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static void readResidual(JsonObject &object, ModelConfig &config) {
  config.parallelResidual = object.boolean("use_parallel_residual").value_or(false);
}

static void readGgufResidual(GgufKeys &keys, ModelConfig &config) {
  keys.boolean("use_parallel_residual", false);
  config.parallelResidual = !keys.source().tensors().find("blk.0.ffn_norm.weight");
}

static constexpr Family describeStableLm() {
  Family row;
  row.modelType = "stablelm";
  row.gguf = "stablelm";
  row.rules = {embeddingRules,       attentionNormRules, attentionRules,
               feedForwardNormRules, feedForwardRules,   normBiasRules};
  row.keyNames = keyNames;
  row.defaults.numKvHeads = 32;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.25;
  row.norm = NormKind::Layer;
  row.biases.attentionKey = "use_qkv_bias";
  row.biases.inOutput = false;
  row.rope.partial = true;
  row.readers.huggingFaceRest = readResidual;
  row.readers.ggufRest = readGgufResidual;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::stableLm = describeStableLm();

} // namespace heddle
