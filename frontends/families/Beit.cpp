// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BEiT (Bao et al. 2021, arXiv:2106.08254): ViT whose scores get what a table of each layer, or one of all, has for how far two patches are apart; blocks are
// scaled, each channel by a number of its own, before they are added, keys have no bias, and the mean of patches stands for an image.
// data2vec for images (Baevski et al. 2022, arXiv:2202.03555) differs in what it was trained on.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// Behind a layer's name, and behind that of the encoder.
#define DISTANCES "relative_position_bias.relative_position_bias_table"
static constexpr const char *distancesOfLayer = "attention.attention." DISTANCES;

#define FLAT(name, rows, columns, when)                                                                                \
  {name, nullptr, ConfigDim::rows, ConfigDim::columns, When::when, StoredOrder::Flattened}
#define BEIT_RULES(prefix, layer)                                                                                      \
  FLAT(prefix "embeddings.cls_token", Hidden, None, Always),                                                           \
      FLAT(prefix "embeddings.position_embeddings", Positions, Hidden, PositionTable),                                 \
      FLAT(prefix "embeddings.patch_embeddings.projection.weight", Hidden, PatchWidth, Always),                        \
      {prefix "embeddings.patch_embeddings.projection.bias", nullptr, ConfigDim::Hidden},                              \
      HEDDLE_NORM_RULES(layer "layernorm_before", Hidden), HEDDLE_NORM_RULES(layer "layernorm_after", Hidden),         \
      HEDDLE_LINEAR_RULES(layer "attention.attention.query", Queries, Hidden),                                         \
      {layer "attention.attention.key.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},                        \
      HEDDLE_LINEAR_RULES(layer "attention.attention.value", Queries, Hidden),                                         \
      HEDDLE_LINEAR_RULES(layer "attention.output.dense", Hidden, Queries),                                            \
      {layer "attention.attention." DISTANCES, nullptr, ConfigDim::Buckets, ConfigDim::Heads, When::DistancesEach},    \
      {prefix "encoder." DISTANCES, nullptr, ConfigDim::Buckets, ConfigDim::Heads, When::DistancesShared},             \
      HEDDLE_LINEAR_RULES(layer "intermediate.dense", Intermediate, Hidden),                                           \
      HEDDLE_LINEAR_RULES(layer "output.dense", Hidden, Intermediate),                                                 \
      {layer "lambda_1", nullptr, ConfigDim::Hidden, ConfigDim::None, When::LayerScales},                              \
      {layer "lambda_2", nullptr, ConfigDim::Hidden, ConfigDim::None, When::LayerScales},                              \
      {prefix "layernorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},                       \
      {prefix "layernorm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},                         \
      {prefix "pooler.layernorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler}, {                 \
    prefix "pooler.layernorm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler                          \
  }
static constexpr TensorRule beitRules[] = {BEIT_RULES("beit.", "beit.encoder.layer.#.")};
static constexpr TensorRule data2vecRules[] = {BEIT_RULES("data2vec_vision.", "data2vec_vision.encoder.layer.#.")};

// What masks patches in pre-training, which row of a table is that of two patches, and heads that are not compiled.
static constexpr UnreadTensor unread[] = {{"*.embeddings.mask_token"},           {"*.relative_position_index"},
                                          {"classifier.*", /*isLoss=*/true},     {"lm_head.*", /*isLoss=*/true},
                                          {"layernorm.*", /*isLoss=*/true},      {"decode_head.*", /*isLoss=*/true},
                                          {"auxiliary_head.*", /*isLoss=*/true}, {"fpn*", /*isLoss=*/true}};

static constexpr KeyName keyNames[] = {{"num_key_value_heads", "num_attention_heads"},
                                       {"rms_norm_eps", "layer_norm_eps"}};

// Of both directions on either side, and three for the class token: as a query, as a key, and as both.
static int64_t numDistances(int64_t grid) {
  return (2 * grid - 1) * (2 * grid - 1) + 3;
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.vocabSize = 1; // that of config.json is of a head
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  checkEvenHeads(object, config);
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  readImage(object, config.image, /*patch=*/16);
  if (!object.status().isOk())
    return;
  config.image.specialTokens = 1;
  config.contextLength = config.image.tokens();
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.hasPositionTable = object.boolean("use_absolute_position_embeddings").value_or(false);
  config.sharesDistances = object.boolean("use_shared_relative_position_bias").value_or(false);
  bool hasEach = object.boolean("use_relative_position_bias").value_or(false);
  if (hasEach && config.sharesDistances)
    object.unsupported("use_relative_position_bias",
                       "and use_shared_relative_position_bias are true, which is not supported; expected one of them");
  constexpr int64_t mostOnSide = 64; // every pair of tokens has a number of its own
  if (int64_t grid = config.image.grid(); grid > mostOnSide && (hasEach || config.sharesDistances))
    object.fail("image_size", "and patch_size stand for " + std::to_string(grid) +
                                  " patches on a side, expected at most " + std::to_string(mostOnSide) +
                                  " where scores depend on distances");
  else if (hasEach || config.sharesDistances)
    config.relativeBuckets = numDistances(config.image.grid());
  config.hasLayerScales = object.number("layer_scale_init_value").value_or(0.1) > 0;
  config.hasFinalNorm = !object.boolean("use_mean_pooling").value_or(true);
}

// Each layer names the table that all share as one of its own.
static Status nameSharedDistances(Model &model) {
  const ModelConfig &config = model.config;
  std::string encoder = prefixOf(config) + "encoder.";
  if (!config.sharesDistances)
    return Status();
  TensorInfo shared = *model.checkpoint.find(encoder + DISTANCES);
  for (int64_t i = 0; i < config.numHiddenLayers; ++i)
    model.checkpoint.tensors.emplace(encoder + "layer." + std::to_string(i) + "." + distancesOfLayer, shared);
  return Status();
}

// The row of the table for each pair of a query and a key, of which the first is the class token.
static std::vector<int32_t> rowsOfPairs(int64_t grid) {
  int64_t tokens = grid * grid + 1, classRows = numDistances(grid) - 3;
  std::vector<int32_t> rows;
  for (int64_t query = 0; query < tokens; ++query)
    for (int64_t key = 0; key < tokens; ++key) {
      int64_t down = (query - 1) / grid - (key - 1) / grid + grid - 1,
              right = (query - 1) % grid - (key - 1) % grid + grid - 1;
      int64_t row = down * (2 * grid - 1) + right;
      if (query == 0 || key == 0)
        row = classRows + (query == 0 && key == 0 ? 2 : query == 0 ? 0 : 1);
      rows.push_back(int32_t(row));
    }
  return rows;
}

static TensorHandle attend(ModelBuilder &b, TensorHandle x, const WindowTerms &distances) {
  int64_t heads = b.config().numHeads;
  TensorHandle query = b.linear(x, "attention.attention.query"), key = b.linear(x, "attention.attention.key"),
               value = b.linear(x, "attention.attention.value");
  if (b.config().relativeBuckets)
    return b.windowAttention(query, key, value, heads, distances);
  return b.mergeHeads(b.attention(b.splitHeads(query, heads), b.splitHeads(key, heads), b.splitHeads(value, heads)));
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x, const WindowTerms &distances) {
  auto scaled = [&](TensorHandle block, const char *name) {
    return b.config().hasLayerScales ? b.scaleColumns(block, name) : block;
  };
  TensorHandle attended = attend(b, b.layerNorm(x, "layernorm_before"), distances);
  x = b.add(scaled(b.linear(attended, "attention.output.dense"), "lambda_1"), x);
  TensorHandle wide = b.activation(b.linear(b.layerNorm(x, "layernorm_after"), "intermediate.dense"));
  return b.add(scaled(b.linear(wide, "output.dense"), "lambda_2"), x);
}

static TensorHandle meanPatch(ModelBuilder &b, TensorHandle x) {
  std::vector<int32_t> patches;
  for (int64_t token = 1; token < b.config().image.tokens(); ++token)
    patches.push_back(int32_t(token));
  return b.meanToken(b.gatherTokens(x, patches));
}

static void build(ModelBuilder &b) {
  const ModelConfig &config = b.config();
  std::string prefix = prefixOf(config), scope = prefix + "embeddings.";
  b.beginEntry("graph", "batch");
  std::vector<int32_t> places;
  places.reserve(size_t(config.image.tokens()));
  for (int64_t token = 0; token < config.image.tokens(); ++token)
    places.push_back(int32_t(token - 1));
  TensorHandle x = b.linear(b.pixelPatches(), scope + "patch_embeddings.projection");
  x = b.gatherTokens(x, places, /*group=*/1, scope + "cls_token");
  if (config.hasPositionTable)
    x = b.addTable(x, scope + "position_embeddings");
  WindowTerms distances;
  if (config.relativeBuckets) {
    distances.tokens = config.image.tokens();
    distances.table = distancesOfLayer;
    distances.distances = rowsOfPairs(config.image.grid());
  }
  for (int64_t i = 0; i < config.numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x, distances); });
  TensorHandle pooled;
  if (config.hasFinalNorm) {
    x = b.layerNorm(x, prefix + "layernorm");
    pooled = b.firstTokens(x);
  } else if (config.hasPooler) {
    pooled = b.layerNorm(meanPatch(b, x), prefix + "pooler.layernorm");
  }
  finishEncoder(b, x, pooled);
}

static void buildClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

// Its pooler's norm is a part of the model, unless the class token stands for an image.
static constexpr Head heads[] = {
    {"BeitForImageClassification", classifierRules, buildClassifier, HeadTask::Classify},
    {"Data2VecVisionForImageClassification", classifierRules, buildClassifier, HeadTask::Classify}};

static constexpr Family describeBeit() {
  Family row;
  row.modelType = "beit";
  row.isGraph = true;
  row.pooler = "beit.pooler.layernorm.weight";
  row.heads = heads;
  row.imageProcessor = "BeitImageProcessor";
  row.embedding = "beit.embeddings.cls_token";
  row.rules = {beitRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 1; // which readSizes says, as it does the context
  row.defaults.normEps = 1e-12;
  row.defaults.activation = Activation::Gelu;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = nameSharedDistances;
  row.build = build;
  return row;
}
const Family family::beit = describeBeit();

static constexpr Family describeData2Vec() {
  Family row = describeBeit();
  row.modelType = "data2vec-vision";
  row.pooler = "data2vec_vision.pooler.layernorm.weight";
  row.embedding = "data2vec_vision.embeddings.cls_token";
  row.rules = {data2vecRules};
  return row;
}
const Family family::data2VecVision = describeData2Vec();

} // namespace heddle
