// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DINOv2 (Oquab et al. 2023, arXiv:2304.07193): ViT whose blocks are scaled, each channel by a number of its own, before they are added; some
// have gated feed-forward blocks. With registers (Darcet et al. 2023, arXiv:2309.16588): learned tokens without a position behind the class token.

#include "frontends/families/Bert.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace heddle {

#define FLAT(name, rows, columns)                                                                                      \
  {name, nullptr, ConfigDim::rows, ConfigDim::columns, When::Always, StoredOrder::Flattened}
#define LINEAR(name, rows, columns, weight, bias)                                                                      \
  {name ".weight", nullptr, ConfigDim::rows, ConfigDim::columns, When::weight}, {                                      \
    name ".bias", nullptr, ConfigDim::rows, ConfigDim::None, When::bias                                                \
  }
#define DINOV2_RULES(prefix, layer)                                                                                    \
  FLAT(prefix "embeddings.cls_token", Hidden, One), FLAT(prefix "embeddings.position_embeddings", Positions, Hidden),  \
      FLAT(prefix "embeddings.patch_embeddings.projection.weight", Hidden, PatchWidth),                                \
      {prefix "embeddings.patch_embeddings.projection.bias", nullptr, ConfigDim::Hidden},                              \
      HEDDLE_NORM_RULES(layer "norm1", Hidden), HEDDLE_NORM_RULES(layer "norm2", Hidden),                              \
      LINEAR(layer "attention.attention.query", Queries, Hidden, Always, AttentionBias),                               \
      LINEAR(layer "attention.attention.key", KeyValues, Hidden, Always, AttentionBias),                               \
      LINEAR(layer "attention.attention.value", KeyValues, Hidden, Always, AttentionBias),                             \
      HEDDLE_LINEAR_RULES(layer "attention.output.dense", Hidden, Queries),                                            \
      {layer "layer_scale1.lambda1", nullptr, ConfigDim::Hidden},                                                      \
      {layer "layer_scale2.lambda1", nullptr, ConfigDim::Hidden},                                                      \
      LINEAR(layer "mlp.fc1", Intermediate, Hidden, Ungated, Ungated),                                                 \
      LINEAR(layer "mlp.fc2", Hidden, Intermediate, Ungated, Ungated),                                                 \
      LINEAR(layer "mlp.weights_in", GateAndUp, Hidden, Gated, Gated),                                                 \
      LINEAR(layer "mlp.weights_out", Hidden, Intermediate, Gated, Gated),                                             \
      HEDDLE_NORM_RULES(prefix "layernorm", Hidden)

static constexpr TensorRule plainRules[] = {DINOV2_RULES("dinov2.", "dinov2.encoder.layer.#.")};
static constexpr TensorRule rulesWithRegisters[] = {
    DINOV2_RULES("dinov2_with_registers.", "dinov2_with_registers.encoder.layer.#.")};
static constexpr TensorRule registerRules[] = {
    FLAT("dinov2_with_registers.embeddings.register_tokens", Registers, Hidden)};
static constexpr TensorRule imageClassifierRules[] = {HEDDLE_LINEAR_RULES("classifier", Labels, TwiceHidden)};

static constexpr KeyName keyNames[] = {{"num_key_value_heads", "num_attention_heads"},
                                       {"intermediate_size", "mlp_ratio"},
                                       {"rms_norm_eps", "layer_norm_eps"}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  bool hasRegisters = config.family->rules[1].count > 0;
  int64_t registers = hasRegisters ? object.integer("num_register_tokens").value_or(4) : 0;
  config.numKvHeads = config.numHeads;
  config.headDim = object.integer("head_dim").value_or(config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0);
  checkEvenHeads(object, config);
  double ratio = object.number("mlp_ratio").value_or(4.0);
  if (!(ratio > 0 && ratio <= 1024))
    object.fail("mlp_ratio", "is " + std::to_string(ratio) + ", expected a number above 0, at most 1024");
  readImage(object, config.image, /*patch=*/hasRegisters ? 16 : 14);
  if (registers < int64_t(hasRegisters) || registers > 1024)
    object.fail("num_register_tokens", "is " + std::to_string(registers) + ", expected 1 to 1024");
  if (!object.status().isOk() || config.hiddenSize > 1 << 20)
    return;
  config.gatesFeedForward = object.boolean("use_swiglu_ffn").value_or(false);
  config.intermediateSize = int64_t(double(config.hiddenSize) * ratio);
  if (config.gatesFeedForward) // two thirds of it, up to a multiple of 8
    config.intermediateSize = (int64_t(double(config.intermediateSize) * 2 / 3) + 7) / 8 * 8;
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.contextLength = config.image.grid() * config.image.grid() + 1; // positions
  config.image.specialTokens = 1 + registers;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.attentionBias = object.boolean("qkv_bias").value_or(true);
  if (config.gatesFeedForward)
    config.activation = Activation::Silu;
}

// What is added to patches, and to zeros before them: the class token at the first position, registers, and the positions of patches, which are
// interpolated where an image has more or fewer than they were learned for.
static Status addTokens(Model &model) {
  const Checkpoint &checkpoint = model.checkpoint;
  int64_t width = model.config.hiddenSize, special = model.config.image.specialTokens;
  std::string scope = prefixOf(model.config) + "embeddings.";
  int64_t learned = std::lround(std::sqrt(double(model.config.contextLength - 1))), grid = model.config.image.grid();
  auto read = [&](const char *name, int64_t row, std::vector<float> &out) {
    const TensorInfo &tensor = *checkpoint.find(scope + name);
    uint64_t bytes = uint64_t(width) * tensorTypeInfo(tensor.type).blockBytes;
    dequantize(tensor.type, checkpoint.data(tensor) + uint64_t(row) * bytes, size_t(width), out.data());
  };
  std::vector<float> token(static_cast<size_t>(width)), first(token), resized;
  if (learned != grid) {
    std::vector<float> table(size_t(learned * learned * width));
    for (int64_t row = 0; row < learned * learned; ++row) {
      read("position_embeddings", row + 1, token);
      std::copy(token.begin(), token.end(), table.begin() + row * width);
    }
    resized = interpolateGrid(table, learned, grid, width, /*antialiased=*/special > 1);
  }
  return addTensor(model, scope + "tokens", TensorInfo{TensorType::F32, {model.config.image.tokens(), width}},
                   "tokens and positions", [&](std::vector<char> &out, int64_t row) {
                     bool isRegister = row > 0 && row < special;
                     int64_t position = std::max<int64_t>(row - special + 1, 0);
                     if (position > 0 && !resized.empty())
                       std::copy_n(resized.begin() + (position - 1) * width, width, token.begin());
                     else
                       read(isRegister ? "register_tokens" : "position_embeddings", isRegister ? row - 1 : position,
                            token);
                     if (row == 0) {
                       read("cls_token", 0, first);
                       std::transform(token.begin(), token.end(), first.begin(), token.begin(), std::plus<float>());
                     }
                     memcpy(out.data(), token.data(), out.size());
                   });
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  TensorHandle normed = b.layerNorm(x, "norm1");
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(normed, std::string("attention.attention.") + name), b.config().numHeads);
  };
  TensorHandle attended = b.mergeHeads(b.attention(heads("query"), heads("key"), heads("value")));
  x = b.add(b.scaleColumns(b.linear(attended, "attention.output.dense"), "layer_scale1.lambda1"), x);
  normed = b.layerNorm(x, "norm2");
  int64_t wide = b.config().intermediateSize;
  auto half = [&](int64_t row) { return b.linear(normed, "mlp.weights_in.weight", "mlp.weights_in.bias", row, wide); };
  TensorHandle block = b.config().gatesFeedForward ? b.linear(b.glu(half(0), half(wide)), "mlp.weights_out")
                                                   : b.linear(b.activation(b.linear(normed, "mlp.fc1")), "mlp.fc2");
  return b.add(b.scaleColumns(block, "layer_scale2.lambda1"), x);
}

static void buildDinov2(ModelBuilder &b) {
  std::string prefix = prefixOf(b.config());
  const ImageConfig &image = b.config().image;
  b.beginEntry("graph", "batch");
  std::vector<int32_t> places(size_t(image.tokens()), -1);
  for (int64_t patch = 0; patch < image.tokens() - image.specialTokens; ++patch)
    places[size_t(image.specialTokens + patch)] = int32_t(patch);
  TensorHandle x = b.linear(b.pixelPatches(), prefix + "embeddings.patch_embeddings.projection");
  x = b.addTable(b.gatherTokens(x, places), prefix + "embeddings.tokens");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x); });
  x = b.layerNorm(x, prefix + "layernorm");
  finishEncoder(b, x, b.firstTokens(x));
}

// The class token beside the mean of all patches.
static void buildClassifier(ModelBuilder &b, TensorHandle x, TensorHandle pooled) {
  std::vector<int32_t> patches;
  for (int64_t token = b.config().image.specialTokens; token < b.config().image.tokens(); ++token)
    patches.push_back(int32_t(token));
  b.output("logits", b.linear(b.sideBySide({pooled, b.meanToken(b.gatherTokens(x, patches))}), "classifier"));
}

static constexpr Head heads[] = {
    {"Dinov2ForImageClassification", imageClassifierRules, buildClassifier, HeadTask::Classify},
    {"Dinov2WithRegistersForImageClassification", imageClassifierRules, buildClassifier, HeadTask::Classify}};

static constexpr UnreadTensor unread[] = {{"*.embeddings.mask_token"}, {"classifier.*", /*isLoss=*/true}};

static constexpr Family describeDinov2() {
  Family row;
  row.modelType = "dinov2";
  row.isGraph = true;
  row.heads = heads;
  row.imageProcessor = "BitImageProcessor";
  row.interpolatesPositions = true;
  row.embedding = "dinov2.embeddings.cls_token";
  row.rules = {plainRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 1; // there are no words
  row.defaults.normEps = 1e-6;
  row.defaults.activation = Activation::Gelu;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addTokens;
  row.build = buildDinov2;
  return row;
}
const Family family::dinov2 = describeDinov2();

static constexpr Family describeWithRegisters() {
  Family row = describeDinov2();
  row.modelType = "dinov2_with_registers";
  row.embedding = "dinov2_with_registers.embeddings.cls_token";
  row.rules = {rulesWithRegisters, registerRules};
  return row;
}
const Family family::dinov2WithRegisters = describeWithRegisters();

} // namespace heddle
