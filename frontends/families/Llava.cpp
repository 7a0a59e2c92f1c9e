// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLaVA (Liu et al. 2023, arXiv:2304.08485; 1.5: arXiv:2310.03744): any decoder, and any tower whose hidden states become tokens of its
// prompts through two linear layers. Decoder and tower are those of their own rows.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule projectorRules[] = {
    {"multi_modal_projector.linear_1.weight", nullptr, ConfigDim::Projection, ConfigDim::Seen},
    {"multi_modal_projector.linear_1.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias},
    {"multi_modal_projector.linear_2.weight", nullptr, ConfigDim::Projection, ConfigDim::Projection},
    {"multi_modal_projector.linear_2.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias},
};

// Negative numbers of hidden states count from the last.
static void readLayers(JsonObject &object, ModelConfig &tower) {
  int64_t count = tower.encoder.numLayers + 1;
  std::vector<int64_t> layers = object.integers("vision_feature_layer");
  if (!object.has("vision_feature_layer"))
    layers = {-2};
  if (layers.empty() || layers.size() > 64)
    object.fail("vision_feature_layer",
                "has " + std::to_string(layers.size()) + " layers, expected one, or a list of 1 to 64");
  for (int64_t layer : layers) {
    if (layer < -count || layer >= count)
      return object.fail("vision_feature_layer", "is " + std::to_string(layer) +
                                                     ", expected a hidden state of vision_config's " +
                                                     std::to_string(count - 1) + " layers, " + std::to_string(-count) +
                                                     " to " + std::to_string(count - 1));
    tower.seen.layers.push_back(layer < 0 ? layer + count : layer);
  }
}

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readLayers(object, tower);
  std::string strategy = object.string("vision_feature_select_strategy").value_or("default");
  if (strategy != "default" && strategy != "full")
    object.unsupported("vision_feature_select_strategy",
                       "is '" + printable(strategy, 64) + "', which is not supported; expected default or full");
  tower.seen.skipsFirst = strategy == "default";
  if (tower.seen.skipsFirst && tower.image.tokens() < 2)
    object.fail("vision_feature_select_strategy", "is default, which leaves no token of an image");
  std::string activation = object.string("projector_hidden_act").value_or("gelu");
  if (std::optional<Activation> known = activationNamed(activation))
    tower.headActivation = *known;
  else
    object.fail("projector_hidden_act",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
  tower.hasHeadBias = object.boolean("multimodal_projector_bias").value_or(true);
  readImageToken(object, text, tower, 32000);
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  TensorHandle wide = b.activation(b.linear(seen, "multi_modal_projector.linear_1"), b.config().headActivation);
  b.output("image_features", b.linear(wide, "multi_modal_projector.linear_2"));
}

// What the decoder is given of an image: (images, tokens, hidden_size).
static void build(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle seen = beginSeen(b);
  if (c.seen.skipsFirst) {
    std::vector<int32_t> tokens;
    for (int64_t token = 1; token < c.image.tokens(); ++token)
      tokens.push_back(int32_t(token));
    seen = b.gatherTokens(seen, tokens, /*group=*/1, "");
  }
  c.head->build(b, seen, {});
}

static constexpr Head heads[] = {{"LlavaForConditionalGeneration", projectorRules, project}};

static constexpr Family describeLlava() {
  Family row;
  row.modelType = "llava";
  row.textModel = "llama";
  row.towerModel = "clip_vision_model";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = build;
  return row;
}
const Family family::llava = describeLlava();

} // namespace heddle
