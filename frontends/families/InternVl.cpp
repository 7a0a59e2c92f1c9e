// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// InternVL 2.5 and 3 (arXiv:2412.05271, arXiv:2504.10479) as transformers has them: a ViT whose blocks scale each of their channels, its patches as tokens
// square by square through a norm and two matrices. An image is cut into tiles of the grid nearest to its ratio.

#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/families/Seen.h"
#include "frontends/families/Towers.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

#define LAYER "vision.encoder.layer.%."

static constexpr TensorRule visionRules[] = {
    {"vision.embeddings.cls_token", nullptr, ConfigDim::EncoderHidden, ConfigDim::One, When::Always,
     StoredOrder::Flattened},
    {"vision.embeddings.patch_embeddings.projection.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth,
     When::Always, StoredOrder::Flattened},
    {"vision.embeddings.patch_embeddings.projection.bias", nullptr, ConfigDim::EncoderHidden},
    {"vision.embeddings.position_embeddings", nullptr, ConfigDim::EncoderPositions, ConfigDim::EncoderHidden,
     When::PositionTable, StoredOrder::Flattened},
    {LAYER "layernorm_before.weight", nullptr, ConfigDim::EncoderHidden},
    {LAYER "layernorm_before.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::NormBias},
    {LAYER "layernorm_after.weight", nullptr, ConfigDim::EncoderHidden},
    {LAYER "layernorm_after.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::NormBias},
    {LAYER "attention.q_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.q_proj.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::AttentionBias},
    {LAYER "attention.k_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.k_proj.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::AttentionBias},
    {LAYER "attention.v_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.v_proj.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::AttentionBias},
    {LAYER "attention.q_norm.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::HeadNorms},
    {LAYER "attention.k_norm.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::HeadNorms},
    HEDDLE_TOWER_LINEAR(LAYER "attention.projection_layer", EncoderHidden, EncoderHidden, Always),
    {LAYER "lambda_1", nullptr, ConfigDim::EncoderHidden},
    {LAYER "lambda_2", nullptr, ConfigDim::EncoderHidden},
    HEDDLE_TOWER_LINEAR(LAYER "mlp.fc1", EncoderIntermediate, EncoderHidden, Always),
    HEDDLE_TOWER_LINEAR(LAYER "mlp.fc2", EncoderHidden, EncoderIntermediate, Always),
    {"vision.layernorm.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::FinalNorm},
    {"vision.layernorm.bias", nullptr, ConfigDim::EncoderHidden, ConfigDim::None, When::FinalNorm},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  TowerDefaults defaults;
  defaults.hiddenSize = 1024, defaults.intermediateSize = 4096, defaults.numLayers = 24, defaults.numHeads = 16;
  defaults.normEps = 1e-6, defaults.activation = "gelu", defaults.patch = 14;
  if (!object.has("image_size"))
    object.fail("image_size", "is missing");
  readVisionAlone(object, config, defaults);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  std::string norm = object.string("norm_type").value_or("layer_norm");
  if (norm != "layer_norm" && norm != "rms_norm")
    object.unsupported("norm_type",
                       "is '" + printable(norm, 64) + "', which is not supported; expected layer_norm or rms_norm");
  config.hasRmsNorms = norm == "rms_norm";
  config.hasNormBias = !config.hasRmsNorms;
  config.attentionBias = object.boolean("attention_bias").value_or(false);
  config.normsHeads = object.boolean("use_qk_norm").value_or(false);
  config.hasPositionTable = object.boolean("use_absolute_position_embeddings").value_or(true);
  config.hasFinalNorm = !object.boolean("use_mean_pooling").value_or(true);
}

static std::vector<TensorHandle> hiddenStates(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  const EncoderConfig &stack = c.encoder;
  TensorHandle patches = b.linear(b.pixelPatches(), "vision.embeddings.patch_embeddings.projection");
  std::vector<int32_t> tokens; // the class token, then all patches
  tokens.reserve(size_t(stack.contextLength));
  for (int64_t token = 0; token < stack.contextLength; ++token)
    tokens.push_back(int32_t(token - 1));
  TensorHandle x = b.gatherTokens(patches, tokens, /*group=*/1, "vision.embeddings.cls_token");
  if (c.hasPositionTable)
    x = b.addTable(x, "vision.embeddings.position_embeddings");
  auto norm = [&](TensorHandle x, const char *name) {
    return c.hasRmsNorms ? b.rmsNorm(x, name, stack.normEps) : b.layerNorm(x, name, stack.normEps);
  };
  std::vector<TensorHandle> states = {x};
  for (int64_t i = 0; i < stack.numLayers; ++i)
    states.push_back(b.layer(i, "vision.encoder.layer." + std::to_string(i) + ".", states.back(), [&](TensorHandle x) {
      TensorHandle normed = norm(x, "layernorm_before");
      auto heads = [&](const char *name, const char *ofNorm) {
        constexpr double eps = 1e-6; // whatever the config says
        TensorHandle rows = b.linear(normed, std::string("attention.") + name);
        return b.splitHeads(c.normsHeads && ofNorm ? b.rmsNorm(rows, ofNorm, eps) : rows, stack.numHeads);
      };
      TensorHandle attended = b.attention(heads("q_proj", "attention.q_norm"), heads("k_proj", "attention.k_norm"),
                                          heads("v_proj", nullptr));
      attended = b.linear(b.mergeHeads(attended), "attention.projection_layer");
      x = b.add(b.scaleColumns(attended, "lambda_1"), x);
      TensorHandle wide = b.activation(b.linear(norm(x, "layernorm_after"), "mlp.fc1"), stack.activation);
      return b.add(b.scaleColumns(b.linear(wide, "mlp.fc2"), "lambda_2"), x);
    }));
  states.push_back(c.hasFinalNorm ? b.layerNorm(states.back(), "vision.layernorm", stack.normEps) : states.back());
  return states;
}

static void buildVision(ModelBuilder &b) {
  b.beginEntry("image", "images");
  b.output("last_hidden_state", hiddenStates(b).back());
}

static constexpr Family describeVision() {
  Family row = describeTowers("internvl_vision");
  row.imageProcessor = "GotOcr2ImageProcessor";
  row.embedding = "vision.embeddings.cls_token";
  row.rules = {visionRules};
  row.readers.huggingFaceAllSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = buildVision;
  row.hiddenStates = hiddenStates;
  return row;
}
const Family family::internVlVision = describeVision();

#define PROJECTOR "multi_modal_projector."
static constexpr TensorRule projectorRules[] = {
    HEDDLE_TOWER_NORM(PROJECTOR "layer_norm", Seen, Always),
    HEDDLE_TOWER_LINEAR(PROJECTOR "linear_1", Projection, Seen, Always),
    HEDDLE_TOWER_LINEAR(PROJECTOR "linear_2", Projection, Projection, Always),
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 151667);
  readSeenLayers(object, tower, -1);
  // The last one is what the whole tower gives.
  if (tower.seen.layers == std::vector<int64_t>{tower.encoder.numLayers})
    seeLast(tower);
  else if (tower.seen.layers.size() > 1)
    object.unsupported("vision_feature_layer", "has several layers, which is not supported");
  readSeenStrategy(object, tower);
  if (!tower.seen.skipsFirst)
    object.unsupported("vision_feature_select_strategy", "is full, which is not supported: expected default");
  double ratio = object.number("downsample_ratio").value_or(0.5);
  auto side = int64_t(std::lround(1 / ratio));
  if (!(ratio > 0 && ratio <= 1) || 1.0 / double(side) != ratio)
    object.unsupported("downsample_ratio", "is " + std::to_string(ratio) + ", expected one divided by a whole number");
  else
    readSquares(object, tower, "downsample_ratio", side, /*sideBySide=*/true);
  readSeenActivation(object, tower);
  tower.seen.text = {"<IMG_CONTEXT>", "<IMG_CONTEXT>\n",    "<img><IMG_CONTEXT></img>", "<IMG_CONTEXT>", "", "",
                     "<img>",         "<IMG_CONTEXT></img>"};
}

static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  constexpr double eps = 1e-5;
  TensorHandle wide = b.linear(b.layerNorm(seen, PROJECTOR "layer_norm", eps), PROJECTOR "linear_1");
  b.output("image_features", b.linear(b.activation(wide, b.config().headActivation), PROJECTOR "linear_2"));
}

static void build(ModelBuilder &b) {
  project(b, squares(b, beginSeen(b)), {});
}

static constexpr Head heads[] = {{"InternVLForConditionalGeneration", projectorRules, project}};

static constexpr Family describeInternVl() {
  Family row;
  row.modelType = "internvl";
  row.textModel = "qwen2";
  row.towerModel = "internvl_vision";
  row.imageProcessor = "GotOcr2ImageProcessor";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = build;
  return row;
}
const Family family::internVl = describeInternVl();

} // namespace heddle
