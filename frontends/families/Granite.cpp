// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Granite 3 (IBM 2024): Llama with four multipliers: of embeddings, of scores in place of 1 / sqrt(head_dim), of what a block adds to the
// residual, and a divisor of logits.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"query_pre_attn_scalar", "attention_multiplier"}};

static void readScales(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = object.number("embedding_multiplier").value_or(1.0);
  config.attentionScale = object.number("attention_multiplier").value_or(1.0);
  config.residualScale = object.number("residual_multiplier").value_or(1.0);
  double divisor = object.number("logits_scaling").value_or(1.0);
  if (!(divisor > 0.0))
    object.fail("logits_scaling", "is " + std::to_string(divisor) + ", expected a positive number");
  config.logitScale = 1.0 / divisor;
}

static void readGgufScales(GgufKeys &keys, ModelConfig &config) {
  config.embeddingScale = keys.number("embedding_scale", 1.0);
  config.residualScale = keys.number("residual_scale", 1.0);
  double divisor = keys.number("logit_scale", 1.0);
  if (!(divisor > 0.0))
    keys.fail(keys.full("logit_scale") + " is " + std::to_string(divisor) + ", expected a positive number");
  config.logitScale = 1.0 / divisor;
}

static constexpr Family describeGranite() {
  Family row;
  row.modelType = "granite";
  row.gguf = "granite";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.keyNames = keyNames;
  row.scalesInputs = true;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRest = readScales;
  row.readers.ggufRest = readGgufScales;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::granite = describeGranite();

} // namespace heddle
