// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nemotron (Parmar et al. 2024, arXiv:2402.16819): LayerNorm whose weights are stored less 1, a feed-forward block without a gate whose
// activation is the square of ReLU, heads of which half rotates. Jais 2 (Inception 2025): the same with weights as they are, biases, and heads that
// rotate as a whole.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "norm_eps", "attention.layer_norm_epsilon"}};

static constexpr Family describeNemotron() {
  Family row;
  row.modelType = "nemotron";
  row.gguf = "nemotron";
  row.rules = {embeddingRules,       attentionNormRules,      attentionRules,
               feedForwardNormRules, ungatedFeedForwardRules, normBiasRules};
  row.keyNames = keyNames;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.5;
  row.defaults.activation = Activation::SquaredRelu;
  row.norm = NormKind::Layer;
  row.normWeightOffset = 1.0;
  row.feedForward.gate = nullptr;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.partial = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::nemotron = describeNemotron();

static constexpr KeyName jaisKeyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr Family describeJais2() {
  Family row = describeNemotron();
  row.modelType = "jais2";
  row.gguf = "jais2";
  row.keyNames = jaisKeyNames;
  row.defaults.context = 8192;
  row.defaults.partialRotary = 1.0;
  row.normWeightOffset = 0.0;
  row.biases.attentionDefault = row.biases.mlpDefault = true;
  row.rope.partial = false;
  return row;
}
const Family family::jais2 = describeJais2();

} // namespace heddle
