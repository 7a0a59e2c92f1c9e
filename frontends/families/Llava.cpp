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

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readSeenLayers(object, tower, -2);
  readSeenStrategy(object, tower);
  readSeenActivation(object, tower);
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
