// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ViT (Dosovitskiy et al. 2020, arXiv:2010.11929): an image is a sequence of patches behind a class token, with learned positions; the
// layers norm before attention and before the feed-forward block. DeiT (Touvron et al. 2020, arXiv:2012.12877) has a second token of its own.
// MSN (Assran et al. 2022, arXiv:2204.07141) differs in how it was trained, as does I-JEPA (Assran et al. 2023, arXiv:2301.08243), which has no class
// token: the mean of patches stands for an image.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define HEDDLE_VIT_RULES(prefix)                                                                                       \
  {prefix "embeddings.cls_token", nullptr, ConfigDim::Hidden, ConfigDim::One, When::Always, StoredOrder::Flattened},   \
      HEDDLE_VIT_PATCH_RULES(prefix)
// All but the class token.
#define HEDDLE_VIT_PATCH_RULES(prefix)                                                                                 \
  {prefix "embeddings.position_embeddings",                                                                            \
   nullptr,                                                                                                            \
   ConfigDim::Positions,                                                                                               \
   ConfigDim::Hidden,                                                                                                  \
   When::Always,                                                                                                       \
   StoredOrder::Flattened},                                                                                            \
      {prefix "embeddings.patch_embeddings.projection.weight",                                                         \
       nullptr,                                                                                                        \
       ConfigDim::Hidden,                                                                                              \
       ConfigDim::PatchWidth,                                                                                          \
       When::Always,                                                                                                   \
       StoredOrder::Flattened},                                                                                        \
      {prefix "embeddings.patch_embeddings.projection.bias",                                                           \
       nullptr,                                                                                                        \
       ConfigDim::Hidden,                                                                                              \
       ConfigDim::One,                                                                                                 \
       When::Always,                                                                                                   \
       StoredOrder::Flattened},                                                                                        \
      {prefix "encoder.layer.#.attention.attention.query.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},     \
      {prefix "encoder.layer.#.attention.attention.key.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},     \
      {prefix "encoder.layer.#.attention.attention.value.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},   \
      {prefix "encoder.layer.#.attention.attention.query.bias", nullptr, ConfigDim::Queries, ConfigDim::None,          \
       When::AttentionBias},                                                                                           \
      {prefix "encoder.layer.#.attention.attention.key.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None,          \
       When::AttentionBias},                                                                                           \
      {prefix "encoder.layer.#.attention.attention.value.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None,        \
       When::AttentionBias},                                                                                           \
      HEDDLE_LINEAR_RULES(prefix "encoder.layer.#.attention.output.dense", Hidden, Queries),                           \
      HEDDLE_NORM_RULES(prefix "encoder.layer.#.layernorm_before", Hidden),                                            \
      HEDDLE_NORM_RULES(prefix "encoder.layer.#.layernorm_after", Hidden),                                             \
      HEDDLE_LINEAR_RULES(prefix "encoder.layer.#.intermediate.dense", Intermediate, Hidden),                          \
      HEDDLE_LINEAR_RULES(prefix "encoder.layer.#.output.dense", Hidden, Intermediate),                                \
      HEDDLE_NORM_RULES(prefix "layernorm", Hidden),                                                                   \
      {prefix "pooler.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden, When::Pooler}, {                   \
    prefix "pooler.dense.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler                              \
  }

static constexpr TensorRule vitRules[] = {HEDDLE_VIT_RULES("vit.")};
static constexpr TensorRule ijepaRules[] = {HEDDLE_VIT_PATCH_RULES("ijepa.")};
static constexpr TensorRule deitRules[] = {HEDDLE_VIT_RULES("deit."),
                                           {"deit.embeddings.distillation_token", nullptr, ConfigDim::Hidden,
                                            ConfigDim::One, When::Always, StoredOrder::Flattened}};

static constexpr KeyName keyNames[] = {
    {"num_key_value_heads", "num_attention_heads"},
    {"rms_norm_eps", "layer_norm_eps"},
};

static void readSizes(JsonObject &object, ModelConfig &config, int64_t specialTokens) {
  config.numKvHeads = config.numHeads;
  config.headDim = object.integer("head_dim").value_or(config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0);
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  ImageConfig &image = config.image;
  readImage(object, image, /*patch=*/16);
  image.specialTokens = specialTokens;
  checkEvenHeads(object, config);
  if (!object.status().isOk())
    return;
  config.vocabSize = 1;
  config.contextLength = image.tokens();
}

static void readVitSizes(JsonObject &object, ModelConfig &config) {
  readSizes(object, config, /*specialTokens=*/1);
}

static void readIjepaSizes(JsonObject &object, ModelConfig &config) {
  readSizes(object, config, /*specialTokens=*/0);
}

static void readDeitSizes(JsonObject &object, ModelConfig &config) {
  readSizes(object, config, /*specialTokens=*/2);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.attentionBias = object.boolean("qkv_bias").value_or(true);
  // Both count where the checkpoint has a pooler.
  config.poolerSize = object.integer("pooler_output_size").value_or(0);
  config.poolerActivation = activationNamed(object.string("pooler_act").value_or("tanh"));
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  TensorHandle normed = b.layerNorm(x, "layernorm_before");
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(normed, std::string("attention.attention.") + name), b.config().numHeads);
  };
  TensorHandle attended = b.attention(heads("query"), heads("key"), heads("value"));
  x = b.add(b.linear(b.mergeHeads(attended), "attention.output.dense"), x);
  TensorHandle wide = b.activation(b.linear(b.layerNorm(x, "layernorm_after"), "intermediate.dense"));
  return b.add(b.linear(wide, "output.dense"), x);
}

// Each token is a patch, projected, or a learned vector: what tells which it is stands behind the numbers of patches, as the input of a
// linear layer whose one column is that vector, or the projection's bias.
static TensorHandle embedImage(ModelBuilder &b, const std::string &scope, const std::vector<std::string> &tokens) {
  const ImageConfig &image = b.config().image;
  TensorHandle rows = b.patches();
  int64_t kind = image.patchWidth();
  TensorHandle x = b.linear(b.columns(rows, 0, kind), scope + "patch_embeddings.projection.weight", "");
  for (const std::string &token : tokens) {
    x = b.add(x, b.linear(b.columns(rows, kind, kind + 1), scope + token, ""));
    ++kind;
  }
  return b.add(x, b.embedPositions(scope + "position_embeddings"));
}

static void buildVit(ModelBuilder &b) {
  std::string prefix = prefixOf(b.config());
  std::vector<std::string> tokens;
  if (b.config().image.specialTokens > 0)
    tokens.push_back("cls_token");
  if (b.config().image.specialTokens > 1)
    tokens.push_back("distillation_token");
  tokens.push_back("patch_embeddings.projection.bias");
  TensorHandle x = embedImage(b, prefix + "embeddings.", tokens);
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x); });
  x = b.layerNorm(x, prefix + "layernorm");
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled = b.activation(b.linear(b.firstTokens(x), prefix + "pooler.dense"), *b.config().poolerActivation);
  finishEncoder(b, x, pooled);
}

static void buildImageClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(b.firstTokens(x), "classifier"));
}

static void buildMeanClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(b.meanToken(x), "classifier"));
}

// Of a DeiT that was distilled: its two special tokens have a classifier each, and the answer is their mean.
static void buildTwoClassifiers(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle own = b.linear(b.firstTokens(x), "cls_classifier");
  TensorHandle distilled = b.linear(b.tokensAt(x, 1), "distillation_classifier");
  b.output("logits", b.scale(b.add(own, distilled), 0.5));
  b.output("cls_logits", own);
  b.output("distillation_logits", distilled);
}

static constexpr TensorRule twoClassifiersRules[] = {HEDDLE_LINEAR_RULES("cls_classifier", Labels, Hidden),
                                                     HEDDLE_LINEAR_RULES("distillation_classifier", Labels, Hidden)};

static constexpr Head vitHeads[] = {
    {"ViTForImageClassification", classifierRules, buildImageClassifier, HeadTask::Classify}};
static constexpr Head deitHeads[] = {
    {"DeiTForImageClassification", classifierRules, buildImageClassifier, HeadTask::Classify},
    {"DeiTForImageClassificationWithTeacher", twoClassifiersRules, buildTwoClassifiers, HeadTask::Classify}};

// What masks patches in pre-training, and heads that are not compiled.
static constexpr UnreadTensor vitUnread[] = {
    {"vit.embeddings.mask_token"}, {"classifier.*", /*isLoss=*/true}, {"decoder.*", /*isLoss=*/true}};
static constexpr UnreadTensor deitUnread[] = {{"deit.embeddings.mask_token"},
                                              {"classifier.*", /*isLoss=*/true},
                                              {"cls_classifier.*", /*isLoss=*/true},
                                              {"distillation_classifier.*", /*isLoss=*/true},
                                              {"decoder.*", /*isLoss=*/true}};

static constexpr Family describeVit() {
  Family row;
  row.modelType = "vit";
  row.isEncoder = true;
  row.pooler = "vit.pooler.dense.weight";
  row.heads = vitHeads;
  row.imageProcessor = "ViTImageProcessor";
  row.embedding = "vit.embeddings.cls_token";
  row.rules = {vitRules};
  row.unread = vitUnread;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 1; // which readSizes says, as it does the context
  row.defaults.normEps = 1e-12;
  row.defaults.activation = Activation::Gelu;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readVitSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = buildVit;
  return row;
}
const Family family::vit = describeVit();

static constexpr Family describeDeit() {
  Family row = describeVit();
  row.modelType = "deit";
  row.pooler = "deit.pooler.dense.weight";
  row.heads = deitHeads;
  row.imageProcessor = "DeiTImageProcessor";
  row.embedding = "deit.embeddings.cls_token";
  row.rules = {deitRules};
  row.unread = deitUnread;
  row.readers.huggingFaceSizes = readDeitSizes;
  return row;
}
const Family family::deit = describeDeit();

static constexpr Head msnHeads[] = {
    {"ViTMSNForImageClassification", classifierRules, buildImageClassifier, HeadTask::Classify}};
static constexpr Head ijepaHeads[] = {
    {"IJepaForImageClassification", classifierRules, buildMeanClassifier, HeadTask::Classify}};
static constexpr UnreadTensor ijepaUnread[] = {{"ijepa.embeddings.mask_token"}, {"classifier.*", /*isLoss=*/true}};

static constexpr Family describeMsn() {
  Family row = describeVit();
  row.modelType = "vit_msn";
  row.pooler = nullptr;
  row.heads = msnHeads;
  row.defaults.normEps = 1e-6;
  return row;
}
const Family family::vitMsn = describeMsn();

static constexpr Family describeIjepa() {
  Family row = describeVit();
  row.modelType = "ijepa";
  row.pooler = "ijepa.pooler.dense.weight";
  row.heads = ijepaHeads;
  row.embedding = "ijepa.embeddings.position_embeddings";
  row.rules = {ijepaRules};
  row.unread = ijepaUnread;
  row.readers.huggingFaceSizes = readIjepaSizes;
  return row;
}
const Family family::iJepa = describeIjepa();

} // namespace heddle
