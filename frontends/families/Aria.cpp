// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text part of Aria (Rhymes AI 2024, arXiv:2410.05993): Llama's attention and, in every layer, experts that softmax weighs among those that are chosen, in two tensors, beside
// those that every token passes.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule expertTensors[] = {
    {"model.layers.#.mlp.router.weight", nullptr, ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.mlp.experts.@.fc1.weight", nullptr, ConfigDim::ExpertGateAndUp, ConfigDim::Hidden, When::Always,
     StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::ExpertIntermediate, When::Always,
     StoredOrder::Conv1d},
};

// What sees images, beside the text part of a whole model.
static constexpr UnreadTensor imageTensors[] = {
    {"vision_tower.*", /*isLoss=*/true},
    {"multi_modal_projector.*", /*isLoss=*/true},
    {"model.vision_tower.*", /*isLoss=*/true},
    {"model.multi_modal_projector.*", /*isLoss=*/true},
};

static constexpr KeyName keyNames[] = {{"num_local_experts", "moe_num_experts"}, {"num_experts_per_tok", "moe_topk"}};

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  moe.intermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  const char *key = "moe_num_shared_experts";
  int64_t shared = object.bounded(key, object.integer(key).value_or(2), 1, 1 << 12);
  if (moe.intermediateSize <= 1 << 24)
    moe.sharedIntermediateSize = shared * moe.intermediateSize;
  if (config.activation != Activation::Silu) // that of the chosen experts has no key
    object.unsupported("hidden_act", "is not silu, which is not supported for " + config.architecture);
}

static constexpr Family describeAriaText() {
  Family row;
  row.modelType = "aria_text";
  row.wrapper = "aria";
  row.hasExperts = true;
  row.rules = {embeddingRules,       attentionNormRules, attentionRules,
               feedForwardNormRules, expertTensors,      sharedExpertRules};
  row.unread = imageTensors;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 32000;
  row.defaults.hiddenSize = 4096, row.defaults.intermediateSize = 4096;
  row.defaults.numLayers = 32, row.defaults.numHeads = 32;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.experts.router = "router";
  row.experts.gateAndUp = "fc1";
  row.experts.gateThenUp = true;
  row.experts.down = "fc2";
  row.readers.huggingFaceRest = readExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::ariaText = describeAriaText();

} // namespace heddle
