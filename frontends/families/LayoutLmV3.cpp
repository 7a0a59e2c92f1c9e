// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LayoutLMv3 (Huang et al. 2022, arXiv:2204.08387): words of a page with a box each, and patches of its image behind them, in one encoder. Scores depend on
// distances in the text, and along both sides of the page.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

#include <cmath>
#include <tuple>

namespace heddle {

#define MODEL "layoutlmv3."
static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES(MODEL),
    {MODEL "embeddings.x_position_embeddings.weight", nullptr, ConfigDim::PagePlaces, ConfigDim::PageCoordinate},
    {MODEL "embeddings.y_position_embeddings.weight", nullptr, ConfigDim::PagePlaces, ConfigDim::PageCoordinate},
    {MODEL "embeddings.h_position_embeddings.weight", nullptr, ConfigDim::PagePlaces, ConfigDim::PageShape},
    {MODEL "embeddings.w_position_embeddings.weight", nullptr, ConfigDim::PagePlaces, ConfigDim::PageShape},
    {MODEL "patch_embed.proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::PatchWidth, When::Always,
     StoredOrder::Flattened},
    {MODEL "patch_embed.proj.bias", nullptr, ConfigDim::Hidden},
    {MODEL "cls_token", nullptr, ConfigDim::Hidden, ConfigDim::One, When::Always, StoredOrder::Flattened},
    {MODEL "pos_embed", nullptr, ConfigDim::EncoderPositions, ConfigDim::Hidden, When::Always, StoredOrder::Flattened},
    HEDDLE_NORM_RULES(MODEL "norm", Hidden),
    HEDDLE_NORM_RULES(MODEL "LayerNorm", Hidden),
    {MODEL "encoder.rel_pos_bias.weight", nullptr, ConfigDim::Heads, ConfigDim::Buckets, When::Distances},
    {MODEL "encoder.rel_pos_x_bias.weight", nullptr, ConfigDim::Heads, ConfigDim::PageBuckets, When::PageDistances},
    {MODEL "encoder.rel_pos_y_bias.weight", nullptr, ConfigDim::Heads, ConfigDim::PageBuckets, When::PageDistances},
    HEDDLE_BERT_LAYER_RULES(MODEL "encoder.layer.#."),
};
static constexpr TensorRule denseClassifierRules[] = {HEDDLE_LINEAR_RULES("classifier.dense", Hidden, Hidden),
                                                      HEDDLE_LINEAR_RULES("classifier.out_proj", Labels, Hidden)};
static constexpr TensorRule denseAnswerRules[] = {HEDDLE_LINEAR_RULES("qa_outputs.dense", Hidden, Hidden),
                                                  HEDDLE_LINEAR_RULES("qa_outputs.out_proj", Two, Hidden)};
// Of heads that are not compiled, and what older releases saved. Distances along the page count beside those in the text alone.
static constexpr UnreadTensor unread[] = {
    {MODEL "embeddings.position_ids"},       {MODEL "visual_bbox"},
    {MODEL "encoder.rel_pos_x_bias.weight"}, {MODEL "encoder.rel_pos_y_bias.weight"},
    {"classifier.*", /*isLoss=*/true},       {"qa_outputs.*", /*isLoss=*/true}};

static void readPage(JsonObject &object, PageConfig &page) {
  constexpr int64_t mostPlaces = 1 << 20, mostWide = 1 << 20;
  auto read = [&](const char *key, int64_t usual, int64_t most) {
    return object.bounded(key, object.integer(key).value_or(usual), 1, most);
  };
  page.places = read("max_2d_position_embeddings", 1024, mostPlaces);
  page.coordinateSize = read("coordinate_size", 128, mostWide);
  page.shapeSize = read("shape_size", 128, mostWide);
}

// Buckets of distances: on each side a half of them, of which a half is of one distance each.
static void readBuckets(JsonObject &object, const char *bucketsKey, int64_t usualBuckets, const char *distanceKey,
                        int64_t usualDistance, int64_t &buckets, int64_t &distance) {
  constexpr int64_t mostBuckets = 1 << 12;
  buckets = object.bounded(bucketsKey, object.integer(bucketsKey).value_or(usualBuckets), 4, mostBuckets);
  distance =
      object.bounded(distanceKey, object.integer(distanceKey).value_or(usualDistance), 1, DistanceBias::maxDistance);
  if (object.status().isOk() && distance <= buckets / 4)
    object.unsupported(distanceKey, "is " + std::to_string(distance) + ", expected more than a quarter of " +
                                        bucketsKey + " (" + std::to_string(buckets) + ")");
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  readPage(object, config.page);
  ImageConfig &image = config.image;
  image.channels = object.bounded("num_channels", object.integer("num_channels").value_or(3), 1, 64);
  constexpr int64_t mostPixels = 1 << 14, mostOnSide = 1 << 8;
  image.size = object.bounded("input_size", object.integer("input_size").value_or(224), 1, mostPixels);
  image.patch = object.bounded("patch_size", object.integer("patch_size").value_or(16), 1, image.size);
  image.specialTokens = 1;
  if (image.grid() > mostOnSide)
    object.unsupported("patch_size", "is " + std::to_string(image.patch) + ": " + std::to_string(image.grid()) +
                                         " patches on a side of the image, expected at most 256");
  if (object.status().isOk())
    config.encoder.contextLength = image.tokens();
  for (const char *key : {"text_embed", "visual_embed"})
    if (!object.boolean(key).value_or(true))
      object.unsupported(key, "is false, which is not supported; expected true");
  if (object.boolean("has_relative_attention_bias").value_or(true))
    readBuckets(object, "rel_pos_bins", 32, "max_rel_pos", 128, config.relativeBuckets, config.relativeDistance);
  if (object.boolean("has_spatial_attention_bias").value_or(true))
    readBuckets(object, "rel_2d_pos_bins", 64, "max_rel_2d_pos", 256, config.page.buckets, config.page.distance);
  const PageConfig &page = config.page;
  if (int64_t wide = 4 * page.coordinateSize + 2 * page.shapeSize; object.status().isOk() && wide != config.hiddenSize)
    object.fail("coordinate_size", "and shape_size make " + std::to_string(wide) + ", expected hidden_size (" +
                                       std::to_string(config.hiddenSize) + ")");
}

// The padding behind which positions begin.
static int64_t paddingOf(const ModelConfig &config) {
  return config.padId.value_or(1);
}

static void buildDenseClassifier(ModelBuilder &b, TensorHandle x, TensorHandle);
static constexpr Head denseTokenHead = {"LayoutLMv3ForTokenClassification", denseClassifierRules, buildDenseClassifier,
                                        HeadTask::ClassifyTokens};

static void readRest(JsonObject &object, ModelConfig &config) {
  config.padId = object.integer("pad_token_id").value_or(1);
  if (*config.padId < 0 || *config.padId + 1 >= config.contextLength)
    object.fail("pad_token_id", "is " + std::to_string(*config.padId) +
                                    ", behind which positions begin: expected 0 to max_position_embeddings - 2 (" +
                                    std::to_string(config.contextLength - 2) + ")");
  constexpr size_t mostPlain = 9; // labels of a head of one layer
  if (config.head && config.head->architecture == std::string(denseTokenHead.architecture) &&
      config.labels.size() > mostPlain)
    config.head = &denseTokenHead;
}

// Upper left and lower right corner of each patch, as parts of 1000, behind those of the class token: number `edge` of each.
static std::vector<int32_t> edgesOfPatches(int64_t grid, int64_t edge) {
  constexpr int64_t side = 1000;
  std::vector<int32_t> edges = {edge < 2 ? 1 : int32_t(side - 1)};
  for (int64_t patch = 0; patch < grid * grid; ++patch) {
    int64_t place = edge % 2 ? patch / grid : patch % grid;
    edges.push_back(int32_t((place + (edge < 2 ? 0 : 1)) * side / grid));
  }
  return edges;
}

enum Edge : uint8_t { left, top, right, bottom };

static TensorHandle embedWords(ModelBuilder &b) {
  std::string scope = MODEL "embeddings.";
  TensorHandle x = b.embedTokens(scope + "word_embeddings.weight");
  x = b.add(x, b.embedTokenTypes(scope + "token_type_embeddings.weight"));
  x = b.add(x, b.embedCounted(scope + "position_embeddings.weight", paddingOf(b.config())));
  std::vector<TensorHandle> parts;
  parts.reserve(6);
  for (Edge edge : {left, top, right, bottom})
    parts.push_back(b.embedBoxes(scope + (edge % 2 ? "y" : "x") + "_position_embeddings.weight", edge));
  constexpr int64_t most = 1023; // of a width or height
  for (auto [name, to, from] : {std::tuple<const char *, Edge, Edge>{"h", bottom, top}, {"w", right, left}})
    parts.push_back(b.embedBoxes(scope + name + "_position_embeddings.weight", to, from, most));
  return b.layerNorm(b.add(x, b.sideBySide(parts)), scope + "LayerNorm");
}

static TensorHandle embedImage(ModelBuilder &b) {
  TensorHandle x = b.linear(b.pixelPatches(), MODEL "patch_embed.proj");
  std::vector<int32_t> tokens;
  tokens.reserve(size_t(b.config().image.tokens()));
  for (int64_t token = 0; token < b.config().image.tokens(); ++token)
    tokens.push_back(int32_t(token) - 1); // the class token, then patches
  x = b.addTable(b.gatherTokens(x, tokens, /*group=*/1, MODEL "cls_token"), MODEL "pos_embed");
  return b.layerNorm(x, MODEL "norm", 1e-6);
}

// What scores get: nothing of masked tokens, and what distances say.
static TensorHandle biasOf(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle bias = b.keyMask(c.image.tokens());
  if (!c.relativeBuckets)
    return bias;
  PageDistances terms;
  terms.scale = 1.0 / std::sqrt(double(c.headDim));
  terms.buckets = relativeBuckets(MODEL "encoder.rel_pos_bias.weight", /*bidirectional=*/true, c.relativeBuckets,
                                  c.relativeDistance);
  terms.most = c.relativeDistance;
  for (int64_t token = 0; token < c.image.tokens(); ++token)
    terms.behind.push_back(int32_t(token));
  bias = b.pageDistances(terms, bias);
  if (!c.page.buckets)
    return bias;
  terms.most = c.page.distance;
  for (auto [name, edge] : {std::pair<const char *, Edge>{"x", left}, {"y", bottom}}) {
    std::string table = std::string(MODEL "encoder.rel_pos_") + name + "_bias.weight";
    terms.buckets = relativeBuckets(table, /*bidirectional=*/true, c.page.buckets, c.page.distance);
    terms.edge = edge;
    terms.behind = edgesOfPatches(c.image.grid(), edge);
    bias = b.pageDistances(terms, bias);
  }
  return bias;
}

static void build(ModelBuilder &b) {
  b.beginEntry("page", "texts");
  TensorHandle words = embedWords(b);
  TensorHandle x = b.layerNorm(b.behind(words, embedImage(b)), MODEL "LayerNorm");
  AttentionTerms terms;
  terms.bias = biasOf(b);
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, MODEL "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x, terms); });
  finishEncoder(b, x, TensorHandle());
}

static TensorHandle denseHead(ModelBuilder &b, TensorHandle x, const std::string &name) {
  return b.activation(b.linear(x, name + ".dense"), Activation::Tanh);
}

static void buildTokens(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(b.tokensOfTexts(x), "classifier"));
}

static void buildDenseClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(denseHead(b, b.tokensOfTexts(x), "classifier"), "classifier.out_proj"));
}

static void buildSequence(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(denseHead(b, b.firstTokens(x), "classifier"), "classifier.out_proj"));
}

// Of all tokens, those of the image as well.
static void buildAnswer(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = denseHead(b, x, "qa_outputs");
  auto ends = [&](int64_t row) {
    return b.linear(x, "qa_outputs.out_proj.weight", "qa_outputs.out_proj.bias", row, 1);
  };
  b.output("start_logits", ends(0), /*squeezed=*/true);
  b.output("end_logits", ends(1), /*squeezed=*/true);
}

static constexpr Head heads[] = {
    {"LayoutLMv3ForTokenClassification", classifierRules, buildTokens, HeadTask::ClassifyTokens},
    {"LayoutLMv3ForSequenceClassification", denseClassifierRules, buildSequence, HeadTask::Classify},
    {"LayoutLMv3ForQuestionAnswering", denseAnswerRules, buildAnswer},
};

static constexpr Family describe() {
  Family row = describeBertKin("layoutlmv3");
  row.isEncoder = false;
  row.isGraph = true;
  row.heads = heads;
  row.embedding = MODEL "embeddings.word_embeddings.weight";
  row.head = "classifier.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 50265;
  row.defaults.normEps = 1e-5;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::layoutLmV3 = describe();

} // namespace heddle
