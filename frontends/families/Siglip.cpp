// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SigLIP (Zhai et al. 2023, arXiv:2303.15343): CLIP's towers, whose pairs are judged each by itself: a scaled and shifted product becomes a
// probability. Texts are of one length, padding counts, and the last token stands for them; for an image stands what a learned query finds among
// its patches. SigLIP 2 (Tschannen et al. 2025, arXiv:2502.14786) of one resolution is the same model with other weights; that of any (NaFlex) takes patches of images
// as they are, with a mask of what fills up a batch, and learned positions of a square that is resized to each image.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Towers.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

#define HEAD "vision_model.head."
#define POSITIONS "vision_model.embeddings.position_embedding"

static constexpr TensorRule textRules[] = {
    {"text_model.embeddings.token_embedding.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Texts},
    {"text_model.embeddings.position_embedding.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden, When::Texts},
    HEDDLE_TOWER_LAYER("text_model.encoder.layers.#.", Hidden, Intermediate, Texts),
    HEDDLE_TOWER_NORM("text_model.final_layer_norm", Hidden, Texts),
    HEDDLE_TOWER_LINEAR("text_model.head", Projection, Hidden, Texts),
};
static constexpr TensorRule positionRules[] = {
    {POSITIONS ".weight", nullptr, ConfigDim::EncoderPositions, ConfigDim::EncoderHidden}};
// Positions of a patch are a product with the table, transposed.
static constexpr TensorRule squareRules[] = {{POSITIONS ".weight", nullptr, ConfigDim::EncoderHidden,
                                              ConfigDim::EncoderPositions, When::Always, StoredOrder::Conv1d}};
static constexpr TensorRule visionRules[] = {
    {"vision_model.embeddings.patch_embedding.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth,
     When::Always, StoredOrder::Flattened},
    {"vision_model.embeddings.patch_embedding.bias", nullptr, ConfigDim::EncoderHidden},
    HEDDLE_TOWER_LAYER("vision_model.encoder.layers.%.", EncoderHidden, EncoderIntermediate, Always),
    HEDDLE_TOWER_NORM("vision_model.post_layernorm", EncoderHidden, Always),
    {HEAD "probe", nullptr, ConfigDim::EncoderHidden, ConfigDim::One, When::Pooler, StoredOrder::Flattened},
    {HEAD "attention.in_proj_weight", nullptr, ConfigDim::EncoderQueriesKeysValues, ConfigDim::EncoderHidden,
     When::Pooler},
    {HEAD "attention.in_proj_bias", nullptr, ConfigDim::EncoderQueriesKeysValues, ConfigDim::None, When::Pooler},
    HEDDLE_TOWER_LINEAR(HEAD "attention.out_proj", EncoderHidden, EncoderHidden, Pooler),
    HEDDLE_TOWER_NORM(HEAD "layernorm", EncoderHidden, Pooler),
    HEDDLE_TOWER_LINEAR(HEAD "mlp.fc1", EncoderIntermediate, EncoderHidden, Pooler),
    HEDDLE_TOWER_LINEAR(HEAD "mlp.fc2", EncoderHidden, EncoderIntermediate, Pooler),
};
static constexpr TensorRule pairRules[] = {{"logit_scale", nullptr, ConfigDim::One, ConfigDim::None, When::Texts},
                                           {"logit_bias", nullptr, ConfigDim::One, ConfigDim::None, When::Texts}};

static constexpr TowerDefaults defaultsOf() {
  TowerDefaults defaults;
  defaults.normEps = 1e-6, defaults.activation = "gelu_pytorch_tanh";
  defaults.vocabSize = 32000, defaults.context = 64;
  defaults.patch = 16, defaults.specialTokens = 0;
  return defaults;
}

static void readText(JsonObject &text, ModelConfig &config) {
  readTextTower(text, config, defaultsOf());
  config.projectionSize = readBounded(text, "projection_size", config.hiddenSize, 1 << 20);
}

// A vision tower that takes patches.
static void readPatchTower(JsonObject &vision, ModelConfig &config) {
  readTowerStack(vision, config.encoder, defaultsOf());
  ImageConfig &image = config.image;
  image.hasAnySize = true;
  image.channels = readBounded(vision, "num_channels", 3, 64);
  image.size = image.patch = readPatchSide(vision, "patch_size", defaultsOf().patch);
  constexpr int64_t mostOnSide = 1 << 8;
  int64_t places = readBounded(vision, "num_patches", 256, mostOnSide * mostOnSide), side = 1;
  while ((side + 1) * (side + 1) <= places)
    ++side;
  if (side * side != places)
    vision.unsupported("num_patches", "is " + std::to_string(places) + ", expected a square number");
  config.seen.placesOnSide = side;
  config.encoder.contextLength = side * side;
}

static constexpr char classifier[] = "SiglipForImageClassification";
static constexpr char classifier2[] = "Siglip2ForImageClassification";

static bool isOfClass(JsonObject &object, const char *name) {
  std::vector<std::string> architectures = object.strings("architectures");
  return std::find(architectures.begin(), architectures.end(), name) != architectures.end();
}

// Once both towers are read: refuses pairs in which nothing stands for an image, or what does cannot be compared.
static void adoptPair(JsonObject &object, JsonObject &text, JsonObject &vision, const ModelConfig &config) {
  if (!vision.boolean("vision_use_head").value_or(true))
    vision.unsupported("vision_use_head", "is false, which is not supported beside texts: nothing stands for an image");
  adoptTower(object, text, config);
  adoptTower(object, vision, config);
  if (object.status().isOk() && config.projectionSize != config.encoder.hiddenSize)
    object.fail("text_config", "has projection_size " + std::to_string(config.projectionSize) +
                                   ", expected the hidden_size of vision_config (" +
                                   std::to_string(config.encoder.hiddenSize) + ")");
}

// A classifier of images has no tower of texts, whatever its config says of one.
static void readBothSizes(JsonObject &object, ModelConfig &config) {
  JsonObject text = towerOf(object, "text_config"), vision = towerOf(object, "vision_config");
  if (isOfClass(object, classifier)) {
    readVisionAlone(vision, config, defaultsOf());
    return adoptTower(object, vision, config);
  }
  readText(text, config);
  readVisionTower(vision, config, defaultsOf());
  adoptPair(object, text, vision, config);
}

static void readBothPatchSizes(JsonObject &object, ModelConfig &config) {
  if (isOfClass(object, classifier2))
    return object.unsupported("architectures", std::string("has ") + classifier2 + ", which is not supported");
  JsonObject text = towerOf(object, "text_config"), vision = towerOf(object, "vision_config");
  readText(text, config);
  readPatchTower(vision, config);
  adoptPair(object, text, vision, config);
}

static void readVisionSizes(JsonObject &object, ModelConfig &config) {
  object.pass("vision_use_head"); // the checkpoint says it
  readVisionAlone(object, config, defaultsOf());
}

static void readPatchSizes(JsonObject &object, ModelConfig &config) {
  object.pass("vision_use_head"); // the checkpoint says it
  readPatchTower(object, config);
  if (object.status().isOk())
    adoptVision(config);
}

static void readBothRest(JsonObject &object, ModelConfig &config) {
  if (config.vocabSize == 1)
    return;
  JsonObject text = towerOf(object, "text_config");
  config.activation = readTowerActivation(text, defaultsOf());
  config.labelScores = LabelScores::Sigmoid;
}

static void readTextRest(JsonObject &object, ModelConfig &config) {
  config.activation = readTowerActivation(object, defaultsOf());
}

// What the query of the head finds among the patches, through its feed-forward block.
static TensorHandle poolPatches(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms) {
  const EncoderConfig &stack = b.config().encoder;
  int64_t width = stack.hiddenSize;
  TensorHandle probe = b.gatherTokens(x, {-1}, /*group=*/1, HEAD "probe"); // (images, 1, width)
  auto heads = [&](TensorHandle of, int64_t part) {
    return b.splitHeads(
        b.linear(of, HEAD "attention.in_proj_weight", HEAD "attention.in_proj_bias", part * width, width),
        stack.numHeads);
  };
  TensorHandle attended = b.mergeHeads(b.attention(heads(probe, 0), heads(x, 1), heads(x, 2), terms));
  attended = b.linear(attended, HEAD "attention.out_proj");
  TensorHandle wide = b.linear(b.layerNorm(attended, HEAD "layernorm", stack.normEps), HEAD "mlp.fc1");
  wide = b.linear(b.activation(wide, stack.activation), HEAD "mlp.fc2");
  return b.firstTokens(b.add(attended, wide));
}

// What each layer of the vision tower reads, and the last one gives, and that behind its norm.
static std::vector<TensorHandle> statesOf(ModelBuilder &b, const AttentionTerms &terms) {
  const ModelConfig &c = b.config();
  int64_t side = c.seen.placesOnSide;
  TensorHandle patches = side ? b.runs("pixel_values", 0, c.image.patchWidth()) : b.pixelPatches();
  TensorHandle x = b.linear(patches, "vision_model.embeddings.patch_embedding");
  x = side ? b.add(x, b.linear(b.placesOf(patches, side), POSITIONS)) : b.addTable(x, POSITIONS ".weight");
  std::vector<TensorHandle> states = visionHiddenStates(b, x, terms);
  states.push_back(b.layerNorm(states.back(), "vision_model.post_layernorm", c.encoder.normEps));
  return states;
}

static std::vector<TensorHandle> hiddenStates(ModelBuilder &b) {
  return statesOf(b, {});
}

// The states of the vision tower behind its norm, and what stands for an image; nothing does in a model without a head.
static TensorHandle visionStates(ModelBuilder &b, TensorHandle &pooled) {
  AttentionTerms terms;
  if (b.config().seen.placesOnSide)
    terms.bias = b.patchMask();
  TensorHandle x = statesOf(b, terms).back();
  if (b.config().hasPooler)
    pooled = poolPatches(b, x, terms);
  return x;
}

static void buildText(ModelBuilder &b) {
  b.beginEntry("text", "texts");
  TensorHandle states = textStates(b, /*causal=*/false);
  finishEncoder(b, states, b.linear(b.lastTokens(states), "text_model.head"));
}

static void buildVision(ModelBuilder &b) {
  b.beginEntry("image", "images");
  TensorHandle pooled, states = visionStates(b, pooled);
  finishEncoder(b, states, pooled);
}

static void buildSiglip(ModelBuilder &b) {
  if (b.config().vocabSize == 1)
    return buildVision(b);
  b.beginEntry("text", "texts");
  TensorHandle states = textStates(b, /*causal=*/false);
  finishTower(b, "text", states, b.linear(b.lastTokens(states), "text_model.head"), "text_embeds");
  b.beginEntry("image", "images");
  TensorHandle pooled;
  states = visionStates(b, pooled);
  finishTower(b, "vision", states, pooled, "image_embeds");
  buildComparison(b, "logit_bias");
}

static void buildClassifier(ModelBuilder &b, TensorHandle states, TensorHandle) {
  b.output("logits", b.linear(b.meanToken(states), "classifier"));
}

static constexpr Head heads[] = {{classifier, classifierRules, buildClassifier, HeadTask::Classify}};

static constexpr Family describeSiglip() {
  Family row = describeTowers("siglip");
  row.imageProcessor = "SiglipImageProcessor";
  row.padsTexts = true;
  row.pooler = HEAD "probe";
  row.heads = heads;
  row.embedding = "text_model.embeddings.token_embedding.weight";
  row.rules = {textRules, visionRules, positionRules, pairRules};
  row.readers.huggingFaceAllSizes = readBothSizes;
  row.readers.huggingFaceRest = readBothRest;
  row.build = buildSiglip;
  return row;
}
const Family family::siglip = describeSiglip();

static constexpr Family describeText() {
  Family row = describeTowers("siglip_text_model");
  row.padsTexts = true;
  row.embedding = "text_model.embeddings.token_embedding.weight";
  row.rules = {textRules};
  row.readers.huggingFaceAllSizes = readText;
  row.readers.huggingFaceRest = readTextRest;
  row.build = buildText;
  return row;
}
const Family family::siglipTextModel = describeText();

static constexpr Family describeVision() {
  Family row = describeTowers("siglip_vision_model");
  row.imageProcessor = "SiglipImageProcessor";
  row.pooler = HEAD "probe";
  row.embedding = "vision_model.embeddings.patch_embedding.weight";
  row.rules = {visionRules, positionRules};
  row.readers.huggingFaceAllSizes = readVisionSizes;
  row.build = buildVision;
  row.hiddenStates = hiddenStates;
  return row;
}
const Family family::siglipVisionModel = describeVision();

static constexpr Family describeSiglip2() {
  Family row = describeSiglip();
  row.modelType = "siglip2";
  row.imageProcessor = nullptr; // patches are given as such
  row.heads = {};
  row.rules = {textRules, visionRules, squareRules, pairRules};
  row.readers.huggingFaceAllSizes = readBothPatchSizes;
  return row;
}
const Family family::siglip2 = describeSiglip2();

static constexpr Family describeText2() {
  Family row = describeText();
  row.modelType = "siglip2_text_model";
  return row;
}
const Family family::siglip2TextModel = describeText2();

static constexpr Family describeVision2() {
  Family row = describeVision();
  row.modelType = "siglip2_vision_model";
  row.imageProcessor = nullptr;
  row.rules = {visionRules, squareRules};
  row.readers.huggingFaceAllSizes = readPatchSizes;
  row.hiddenStates = nullptr;
  return row;
}
const Family family::siglip2VisionModel = describeVision2();

// The tower of Idefics3 and SmolVLM: no head, and other sizes where the config says none. Where an image of the tower's own size has its patches is
// computed from fractions of its sides, which rounding moves for some numbers of patches.
static void readIdefics3Sizes(JsonObject &object, ModelConfig &config) {
  TowerDefaults defaults = defaultsOf();
  defaults.hiddenSize = 1152, defaults.numHeads = 16, defaults.patch = 32;
  readVisionAlone(object, config, defaults);
  int64_t side = config.image.patch ? config.image.grid() : 0;
  std::vector<float> bounds;
  auto step = 1.0F / float(side);
  for (int64_t i = 1; i < side; ++i)
    bounds.push_back(float(1.0 / double(side) + double(i - 1) * (1.0 / double(side))));
  for (int64_t i = 0; i < side; ++i)
    if (float place = std::min(float(i) * step, float(1.0 - 1e-6));
        std::upper_bound(bounds.begin(), bounds.end(), place) - bounds.begin() != i)
      return object.unsupported("image_size", "has " + std::to_string(side) +
                                                  " patches on a side, whose positions rounding moves in the "
                                                  "reference, which is not supported");
}

static constexpr Family describeIdefics3Vision(const char *modelType, const char *older) {
  Family row = describeVision();
  row.modelType = modelType;
  row.olderPart = older;
  row.pooler = nullptr;
  row.readers.huggingFaceAllSizes = readIdefics3Sizes;
  return row;
}
const Family family::idefics3Vision = describeIdefics3Vision("idefics3_vision", "idefics3");
const Family family::smolvlmVision = describeIdefics3Vision("smolvlm_vision", "smolvlm");

} // namespace heddle
