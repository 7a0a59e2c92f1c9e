// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama's layers, whose tokens see all of their text. UltraBERT (DMIS 2026): two of three layers see a
// window on both sides, with a rotation of their own.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule outerRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", "output_norm.weight", ConfigDim::Hidden},
};
static constexpr TensorRule maskedRules[] = {
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::MlpBias},
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled.
static constexpr UnreadTensor unread[] = {
    {"lm_head.*", /*isLoss=*/true}, {"dense.*", /*isLoss=*/true}, {"classifier.*", /*isLoss=*/true}};

static void readRest(JsonObject &object, ModelConfig &config) {
  std::string pooling = object.string("classifier_pooling").value_or("late");
  if (pooling != "bos" && pooling != "mean" && pooling != "late")
    object.fail("classifier_pooling", "is '" + printable(pooling, 64) + "', expected bos, mean or late");
  config.pooledBy = pooling == "bos"    ? ClassifierPooling::First
                    : pooling == "mean" ? ClassifierPooling::Mean
                                        : ClassifierPooling::Late;
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "model.layers.", x, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x); });
  finishEncoder(b, norm(b, x, b.config().family->finalNorm), TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", vocabularyLogits(b, x, "lm_head", b.config().mlpBias ? "lm_head.bias" : ""));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  ClassifierPooling pooling = b.config().pooledBy;
  if (pooling != ClassifierPooling::Late)
    x = pooling == ClassifierPooling::Mean ? b.meanToken(x) : b.firstTokens(x);
  x = b.activation(b.linear(x, "dense"), Activation::Gelu);
  if (pooling == ClassifierPooling::Late) // the mean of logits is the logits of the mean
    x = b.meanToken(x);
  b.output("logits", b.linear(x, "classifier"));
}

static constexpr Head heads[] = {
    {"EuroBertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"EuroBertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"EuroBertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr Family describe() {
  Family row;
  row.modelType = row.gguf = "eurobert";
  row.isEncoder = true;
  row.heads = heads;
  row.rules = {outerRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.unread = unread;
  row.defaults.vocabSize = 128256;
  row.defaults.numHeads = 12;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::euroBert = describe();

// NeoBERT (Le Breton et al. 2025, arXiv:2502.19587): the same with one matrix for q, k and v, one for gate and up, and pairs that rotate.
static constexpr TensorRule neoRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", "enc.output_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};
static constexpr UnreadTensor neoUnread[] = {{"cls.*", /*isLoss=*/true}};

static void buildNeo(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "model.layers.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.rmsNorm(x, "input_layernorm"), "self_attn.qkv_proj", "self_attn.o_proj"));
    return b.add(x, fusedFeedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
  finishEncoder(b, b.rmsNorm(x, b.config().family->finalNorm), TensorHandle());
}

static constexpr Family describeNeo() {
  Family row = describe();
  row.modelType = row.gguf = "neo-bert";
  row.isGgufOnly = true;
  row.heads = {};
  row.rules = {attentionNormRules, feedForwardNormRules, neoRules};
  row.unread = neoUnread;
  row.rope.interleavedInGguf = true;
  row.build = buildNeo;
  return row;
}
const Family family::neoBert = describeNeo();

#define ULTRA "ultrabert."
static constexpr TensorRule ultraRules[] = {
    {ULTRA "embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {ULTRA "norm.weight", nullptr, ConfigDim::Hidden},
    {ULTRA "layers.#.input_layernorm.weight", nullptr, ConfigDim::Hidden},
    {ULTRA "layers.#.self_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {ULTRA "layers.#.self_attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {ULTRA "layers.#.self_attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {ULTRA "layers.#.self_attn.o_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {ULTRA "layers.#.self_attn.q_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::AttentionBias},
    {ULTRA "layers.#.self_attn.k_proj.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None, When::AttentionBias},
    {ULTRA "layers.#.self_attn.v_proj.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None, When::AttentionBias},
    {ULTRA "layers.#.self_attn.o_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::OutputBias},
    {ULTRA "layers.#.post_attention_layernorm.weight", nullptr, ConfigDim::Hidden},
    {ULTRA "layers.#.mlp.gate_proj.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {ULTRA "layers.#.mlp.up_proj.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {ULTRA "layers.#.mlp.down_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {ULTRA "layers.#.mlp.gate_proj.bias", nullptr, ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {ULTRA "layers.#.mlp.up_proj.bias", nullptr, ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {ULTRA "layers.#.mlp.down_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};
static constexpr TensorRule ultraMaskedRules[] = {
    {"head.linear1.weight", nullptr, ConfigDim::HeadInput, ConfigDim::Hidden},
    {"head.linear2.weight", nullptr, ConfigDim::Hidden, ConfigDim::HeadInput},
    {"cls.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};
static constexpr UnreadTensor ultraUnread[] = {
    {"head.*", /*isLoss=*/true}, {"cls.*", /*isLoss=*/true}, {"classifier.*", /*isLoss=*/true}};

static void readUltraWindows(JsonObject &object, ModelConfig &config) {
  std::vector<int64_t> windows = object.integers("attention_windows");
  const char *key = "sliding_window";
  int64_t reach = object.integer(key).value_or(128);
  if (auto first = std::find_if(windows.begin(), windows.end(), [](int64_t window) { return window != 0; });
      first != windows.end())
    reach = *first;
  reach = object.bounded(key, reach, 1, 1 << 24);
  std::vector<std::string> types = object.strings("layer_types"); // as many as there are layers
  if (types.empty() && !windows.empty() && windows.size() != config.layerWindow.size())
    return object.fail("attention_windows", "has " + std::to_string(windows.size()) +
                                                " entries, expected num_hidden_layers (" +
                                                std::to_string(config.layerWindow.size()) + ")");
  for (size_t layer = 0; layer < config.layerWindow.size(); ++layer) {
    bool slides = !types.empty()     ? layer < types.size() && types[layer] == "sliding_attention"
                  : !windows.empty() ? windows[layer] != 0
                                     : (layer + 1) % 3 != 0;
    if (layer < types.size() && !slides && types[layer] != "full_attention")
      return object.fail("layer_types",
                         "holds '" + printable(types[layer], 64) + "', expected full_attention or sliding_attention");
    config.layerWindow[layer] = slides ? reach + 1 : 0; // the token itself, and so many on each side
  }
}

// Older files have the base of each layer.
static void readUltraRopes(JsonObject &object, ModelConfig &config) {
  readUltraWindows(object, config);
  double thetas[] = {2560000.0, 10000.0};
  bool isNew = object.has("rope_parameters");
  std::vector<double> bases = isNew ? std::vector<double>() : object.numbers("rope_theta");
  for (size_t layer = 0; layer < bases.size() && layer < config.layerWindow.size(); ++layer)
    thetas[config.layerWindow[layer] > 0] = bases[layer];
  object.pass("rope_theta");
  readRopesByType(object, config, thetas[0], thetas[1], /*scalesBoth=*/true);
  rotateWindowsApart(config);
}

static void readUltra(JsonObject &object, ModelConfig &config) {
  constexpr int64_t most = 1 << 20;
  config.headInput =
      object.bounded("prediction_head_size", object.integer("prediction_head_size").value_or(768), 1, most);
  std::string pooling = object.string("classifier_pooling").value_or("cls");
  if (pooling != "cls" && pooling != "mean")
    object.fail("classifier_pooling", "is '" + printable(pooling, 64) + "', expected cls or mean");
  config.pooledBy = pooling == "mean" ? ClassifierPooling::Mean : ClassifierPooling::First;
}

static void buildUltra(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, ULTRA "layers.", x, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x); });
  finishEncoder(b, norm(b, x, b.config().family->finalNorm), TensorHandle());
}

static void buildUltraMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  for (const char *layer : {"head.linear1", "head.linear2"})
    x = b.activation(b.linear(x, layer), Activation::GeluTanh);
  b.output("logits", vocabularyLogits(b, x, "cls", ""));
}

static void buildUltraClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.config().pooledBy == ClassifierPooling::Mean ? b.meanToken(x) : b.firstTokens(x);
  b.output("logits", b.linear(x, "classifier"));
}

static constexpr Head ultraHeads[] = {
    {"UltrabertForMaskedLM", ultraMaskedRules, buildUltraMasked, HeadTask::FillMask},
    {"UltrabertForSequenceClassification", classifierRules, buildUltraClassifier, HeadTask::Classify},
    {"UltrabertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr Family describeUltra() {
  Family row = describe();
  row.modelType = "ultrabert";
  row.gguf = nullptr;
  row.heads = ultraHeads;
  row.embedding = ULTRA "embed_tokens.weight";
  row.head = "cls.weight";
  row.finalNorm = ULTRA "norm";
  row.rules = {ultraRules};
  row.unread = ultraUnread;
  row.defaults.vocabSize = 32000;
  row.defaults.numHeads = 32;
  row.defaults.context = 32768;
  row.defaults.normEps = 1e-6;
  row.readers.huggingFaceRopes = readUltraRopes;
  row.readers.huggingFaceRest = readUltra;
  row.build = buildUltra;
  return row;
}
const Family family::ultraBert = describeUltra();

} // namespace heddle
