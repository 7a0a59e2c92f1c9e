// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pixtral's tower (arXiv:2410.07073): a llama of both directions over the patches of an image of any size, rotated by their row and column. LLaVA's row
// joins it to a decoder; Mistral Small 3.1 and Ministral 3 ("mistral3") make a token of a square of its patches.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"
#include "frontends/families/Towers.h"

namespace heddle {

#define LAYER "pixtral.transformer.layers.%."

static constexpr TensorRule towerRules[] = {
    {"pixtral.patch_conv.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth, When::Always,
     StoredOrder::Flattened},
    {"pixtral.ln_pre.weight", nullptr, ConfigDim::EncoderHidden},
    {LAYER "attention_norm.weight", nullptr, ConfigDim::EncoderHidden},
    {LAYER "attention.q_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.k_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.v_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "attention.o_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderHidden},
    {LAYER "ffn_norm.weight", nullptr, ConfigDim::EncoderHidden},
    {LAYER "feed_forward.gate_proj.weight", nullptr, ConfigDim::EncoderIntermediate, ConfigDim::EncoderHidden},
    {LAYER "feed_forward.up_proj.weight", nullptr, ConfigDim::EncoderIntermediate, ConfigDim::EncoderHidden},
    {LAYER "feed_forward.down_proj.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::EncoderIntermediate},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  EncoderConfig &stack = config.encoder;
  ImageConfig &image = config.image;
  TowerDefaults defaults;
  defaults.hiddenSize = 1024, defaults.intermediateSize = 4096, defaults.numLayers = 24, defaults.numHeads = 16;
  defaults.activation = "gelu";
  readTowerStack(object, stack, defaults);
  stack.normEps = 1e-5; // whatever the config says
  image.channels = readBounded(object, "num_channels", 3, 64);
  image.size = image.patch = readPatchSide(object, "patch_size", 16);
  image.hasAnySize = image.isWhole = true;
  object.pass("image_size"); // what its processor makes of images says the folder
  readPlaceRotation(object, config);
  config.seen.alternates = true;
  config.vocabSize = 1; // there are no words
  adoptStack(config, stack);
  config.contextLength = stack.contextLength = 1;
  if (object.status().isOk() && config.headDim % 4)
    object.fail("hidden_size", "(" + std::to_string(stack.hiddenSize) +
                                   ") must be a multiple of four times num_attention_heads (" +
                                   std::to_string(stack.numHeads) + ")");
  if (object.integer("head_dim").value_or(config.headDim) != config.headDim)
    object.unsupported("head_dim", "is not what num_attention_heads leaves of a patch, which is not supported");
  config.seen.text = {"[IMG]", "[IMG]", "", "[IMG]", "[IMG_BREAK]", "[IMG_END]"};
}

static std::vector<TensorHandle> hiddenStates(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  const EncoderConfig &stack = c.encoder;
  TensorHandle pixels = b.runs("pixel_values", 0, c.image.patchWidth());
  TensorHandle cosines = b.runs("cosines", 0, c.headDim), sines = b.runs("sines", 0, c.headDim);
  TensorHandle x = b.rmsNorm(b.linear(pixels, "pixtral.patch_conv"), "pixtral.ln_pre", stack.normEps);
  std::vector<TensorHandle> states = {x};
  for (int64_t i = 0; i < stack.numLayers; ++i)
    states.push_back(
        b.layer(i, "pixtral.transformer.layers." + std::to_string(i) + ".", states.back(), [&](TensorHandle x) {
          TensorHandle normed = b.rmsNorm(x, "attention_norm", stack.normEps);
          auto heads = [&](const char *name) {
            return b.splitHeads(b.linear(normed, std::string("attention.") + name), stack.numHeads);
          };
          TensorHandle q = b.rotated(heads("q_proj"), cosines, sines), k = b.rotated(heads("k_proj"), cosines, sines);
          TensorHandle attended = b.mergeHeads(b.attention(q, k, heads("v_proj")));
          x = b.add(x, b.linear(attended, "attention.o_proj"));
          normed = b.rmsNorm(x, "ffn_norm", stack.normEps);
          TensorHandle gate = b.linear(normed, "feed_forward.gate_proj"), up = b.linear(normed, "feed_forward.up_proj");
          return b.add(x, b.linear(b.glu(gate, up, stack.activation), "feed_forward.down_proj"));
        }));
  return states;
}

static void buildTower(ModelBuilder &b) {
  b.beginEntry("image", "runs");
  b.output("last_hidden_state", hiddenStates(b).back());
}

static constexpr Family describeTower() {
  Family row = describeTowers("pixtral");
  row.imageProcessor = "PixtralImageProcessor";
  row.embedding = "pixtral.patch_conv.weight";
  row.rules = {towerRules};
  row.readers.huggingFaceAllSizes = readSizes;
  row.build = buildTower;
  row.hiddenStates = hiddenStates;
  return row;
}
const Family family::pixtral = describeTower();

#define PROJECTOR "multi_modal_projector."

static constexpr TensorRule projectorRules[] = {
    {PROJECTOR "norm.weight", nullptr, ConfigDim::EncoderHidden},
    {PROJECTOR "patch_merger.merging_layer.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::Seen},
    {PROJECTOR "linear_1.weight", nullptr, ConfigDim::Projection, ConfigDim::EncoderHidden},
    {PROJECTOR "linear_1.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias},
    {PROJECTOR "linear_2.weight", nullptr, ConfigDim::Projection, ConfigDim::Projection},
    {PROJECTOR "linear_2.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias},
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readImageToken(object, text, tower, 10);
  readSeenLayers(object, tower, -1);
  if (tower.seen.layers.size() > 1)
    object.unsupported("vision_feature_layer", "has several layers, which is not supported");
  if (!tower.image.hasAnySize)
    object.unsupported("vision_config", std::string("is of ") + tower.family->modelType +
                                            ", which is not supported of mistral3; expected pixtral");
  readSeenActivation(object, tower);
  tower.hasHeadBias = object.boolean("multimodal_projector_bias").value_or(false);
  tower.seen.side = readBounded(object, "spatial_merge_size", 2, 64);
  tower.seen.sideBySide = true;
  tower.image.size = tower.image.patch * tower.seen.side;
  tower.normEps = text.normEps; // of the norm before squares
}

// A square's numbers of a column stand side by side.
static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  const ModelConfig &c = b.config();
  TensorHandle normed = b.rmsNorm(seen, PROJECTOR "norm", c.normEps);
  TensorHandle joined = b.groupTokens(normed, c.seen.side * c.seen.side, /*byColumn=*/true);
  TensorHandle merged = b.linear(joined, PROJECTOR "patch_merger.merging_layer");
  TensorHandle wide = b.activation(b.linear(merged, PROJECTOR "linear_1"), c.headActivation);
  b.output("image_features", b.linear(wide, PROJECTOR "linear_2"));
}

static constexpr Head heads[] = {{"Mistral3ForConditionalGeneration", projectorRules, project}};

static constexpr Family describeMistral3() {
  Family row;
  row.modelType = "mistral3";
  row.textModel = "mistral";
  row.towerModel = "pixtral";
  row.imageProcessor = "PixtralImageProcessor";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = buildSeen;
  return row;
}
const Family family::mistral3 = describeMistral3();

} // namespace heddle
