// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CLIP (Radford et al. 2021, arXiv:2103.00020): a tower that reads texts and one that sees images, whose unit vectors are compared. Texts attend
// causally, and their end stands for them; a class token stands for an image. Either tower is also there alone, with its projection or without.
// MetaCLIP 2 (Chuang et al. 2025, arXiv:2507.22062) is CLIP of texts in many languages, whose end is the one that the config says, whichever it is.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Towers.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule textRules[] = {
    {"text_model.embeddings.token_embedding.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"text_model.embeddings.position_embedding.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    HEDDLE_TOWER_LAYER("text_model.encoder.layers.#.", Hidden, Intermediate, Always),
    HEDDLE_TOWER_NORM("text_model.final_layer_norm", Hidden, Always),
};
static constexpr TensorRule visionRules[] = {
    {"vision_model.embeddings.class_embedding", nullptr, ConfigDim::EncoderHidden},
    {"vision_model.embeddings.patch_embedding.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth,
     When::Always, StoredOrder::Flattened},
    {"vision_model.embeddings.position_embedding.weight", nullptr, ConfigDim::EncoderPositions,
     ConfigDim::EncoderHidden},
    HEDDLE_TOWER_NORM("vision_model.pre_layrnorm", EncoderHidden, Always), // as the files spell it
    HEDDLE_TOWER_LAYER("vision_model.encoder.layers.%.", EncoderHidden, EncoderIntermediate, Always),
    HEDDLE_TOWER_NORM("vision_model.post_layernorm", EncoderHidden, FinalNorm),
};
static constexpr TensorRule textProjectionRules[] = {
    {"text_projection.weight", nullptr, ConfigDim::Projection, ConfigDim::Hidden}};
static constexpr TensorRule visualProjectionRules[] = {
    {"visual_projection.weight", nullptr, ConfigDim::Projection, ConfigDim::EncoderHidden}};
static constexpr TensorRule scaleRules[] = {
    {"logit_scale", nullptr, ConfigDim::One, ConfigDim::None, When::Always, StoredOrder::Flattened}};

static constexpr TowerDefaults textDefaults() {
  TowerDefaults defaults;
  defaults.hiddenSize = 512, defaults.intermediateSize = 2048, defaults.numHeads = 8;
  return defaults;
}

// `isStated`: the end of a text is what the config says.
static void readText(JsonObject &text, ModelConfig &config, bool isStated) {
  readTextTower(text, config, textDefaults());
  std::vector<int64_t> ends = text.integers("eos_token_id");
  if (ends.size() > 1)
    text.unsupported("eos_token_id", "has several tokens, which is not supported: a text has one end");
  // A model whose config has this number was trained with another: its end is the largest of all ids.
  constexpr int64_t largestId = 2;
  int64_t end = ends.empty() ? 49407 : ends[0];
  if (end < 0 || end >= config.vocabSize)
    text.fail("eos_token_id", "is " + std::to_string(end) + ", expected a token below vocab_size (" +
                                  std::to_string(config.vocabSize) + ")");
  if (end != largestId || isStated)
    config.endOfText = end;
}

static void readProjection(JsonObject &object, ModelConfig &config) {
  config.projectionSize = readBounded(object, "projection_dim", 512, 1 << 20);
}

template <bool endIsStated> static void readBothSizes(JsonObject &object, ModelConfig &config) {
  JsonObject text = towerOf(object, "text_config"), vision = towerOf(object, "vision_config");
  readText(text, config, endIsStated);
  readVisionTower(vision, config, TowerDefaults());
  adoptTower(object, text, config);
  adoptTower(object, vision, config);
  readProjection(object, config);
}

template <bool endIsStated> static void readTextSizes(JsonObject &object, ModelConfig &config) {
  readText(object, config, endIsStated);
  readProjection(object, config);
}

static void readVisionSizes(JsonObject &object, ModelConfig &config) {
  readVisionAlone(object, config, TowerDefaults());
  readProjection(object, config);
}

// The text tower's, which no key of the whole config says.
static void readTextActivation(JsonObject &object, ModelConfig &config) {
  JsonObject text = towerOf(object, "text_config");
  config.activation = readTowerActivation(text, textDefaults());
}

static void readActivation(JsonObject &object, ModelConfig &config) {
  config.activation = readTowerActivation(object, textDefaults());
}

// What each layer of the vision tower reads, and the last one gives.
static std::vector<TensorHandle> hiddenStates(ModelBuilder &b) {
  const EncoderConfig &stack = b.config().encoder;
  TensorHandle patches = b.linear(b.pixelPatches(), "vision_model.embeddings.patch_embedding");
  std::vector<int32_t> tokens; // the class token, then all patches
  tokens.reserve(size_t(stack.contextLength));
  for (int64_t token = 0; token < stack.contextLength; ++token)
    tokens.push_back(int32_t(token - 1));
  TensorHandle x = b.gatherTokens(patches, tokens, /*group=*/1, "vision_model.embeddings.class_embedding");
  x = b.addTable(x, "vision_model.embeddings.position_embedding.weight");
  return visionHiddenStates(b, b.layerNorm(x, "vision_model.pre_layrnorm", stack.normEps));
}

// The states of the vision tower, and what stands for an image: the class token behind its norm.
static TensorHandle visionStates(ModelBuilder &b, TensorHandle &pooled) {
  TensorHandle x = hiddenStates(b).back();
  pooled = b.layerNorm(b.firstTokens(x), "vision_model.post_layernorm", b.config().encoder.normEps);
  return x;
}

static void buildClip(ModelBuilder &b) {
  b.beginEntry("text", "texts");
  TensorHandle states = textStates(b, /*causal=*/true);
  TensorHandle end = b.endToken(states, b.config().endOfText);
  finishTower(b, "text", states, b.linear(end, "text_projection"), "text_embeds");
  b.beginEntry("image", "images");
  TensorHandle pooled;
  states = visionStates(b, pooled);
  finishTower(b, "vision", states, b.linear(pooled, "visual_projection"), "image_embeds");
  buildComparison(b);
}

static void buildText(ModelBuilder &b) {
  b.beginEntry("text", "texts");
  TensorHandle states = textStates(b, /*causal=*/true);
  finishEncoder(b, states, b.endToken(states, b.config().endOfText));
}

static void buildVision(ModelBuilder &b) {
  b.beginEntry("image", "images");
  TensorHandle pooled, states = visionStates(b, pooled);
  finishEncoder(b, states, pooled);
}

static void buildTextProjection(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("text_embeds", b.linear(pooled, "text_projection"));
}

static void buildVisualProjection(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("image_embeds", b.linear(pooled, "visual_projection"));
}

static constexpr Head textHeads[] = {{"CLIPTextModelWithProjection", textProjectionRules, buildTextProjection}};
static constexpr Head visionHeads[] = {{"CLIPVisionModelWithProjection", visualProjectionRules, buildVisualProjection}};

static constexpr Family describeClip() {
  Family row = describeTowers("clip");
  row.imageProcessor = "CLIPImageProcessor";
  row.embedding = "text_model.embeddings.token_embedding.weight";
  row.rules = {textRules, visionRules, textProjectionRules, visualProjectionRules, scaleRules};
  row.readers.huggingFaceAllSizes = readBothSizes<false>;
  row.readers.huggingFaceRest = readTextActivation;
  row.build = buildClip;
  return row;
}
const Family family::clip = describeClip();

static constexpr Family describeMetaClip2() {
  Family row = describeClip();
  row.modelType = "metaclip_2";
  row.readers.huggingFaceAllSizes = readBothSizes<true>;
  return row;
}
const Family family::metaClip2 = describeMetaClip2();

static constexpr Family describeText() {
  Family row = describeTowers("clip_text_model");
  row.heads = textHeads;
  row.embedding = "text_model.embeddings.token_embedding.weight";
  row.rules = {textRules};
  row.readers.huggingFaceAllSizes = readTextSizes<false>;
  row.readers.huggingFaceRest = readActivation;
  row.build = buildText;
  return row;
}
const Family family::clipTextModel = describeText();

static constexpr Head metaTextHeads[] = {
    {"MetaClip2TextModelWithProjection", textProjectionRules, buildTextProjection}};
static constexpr Family describeMetaText() {
  Family row = describeText();
  row.modelType = "metaclip_2_text_model";
  row.heads = metaTextHeads;
  row.readers.huggingFaceAllSizes = readTextSizes<true>;
  return row;
}
const Family family::metaClip2TextModel = describeMetaText();

static constexpr Family describeVision() {
  Family row = describeTowers("clip_vision_model");
  row.imageProcessor = "CLIPImageProcessor";
  row.heads = visionHeads;
  row.embedding = "vision_model.embeddings.class_embedding";
  row.rules = {visionRules};
  row.readers.huggingFaceAllSizes = readVisionSizes;
  row.build = buildVision;
  row.hiddenStates = hiddenStates;
  return row;
}
const Family family::clipVisionModel = describeVision();

static constexpr Head metaVisionHeads[] = {
    {"MetaClip2VisionModelWithProjection", visualProjectionRules, buildVisualProjection}};
static constexpr Family describeMetaVision() {
  Family row = describeVision();
  row.modelType = "metaclip_2_vision_model";
  row.heads = metaVisionHeads;
  return row;
}
const Family family::metaClip2VisionModel = describeMetaVision();

} // namespace heddle
