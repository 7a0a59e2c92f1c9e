// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ModernBERT (Warner et al. 2024, arXiv:2412.13663): an encoder with rotary positions, LayerNorm before each block, GeGLU, and layers that in
// turn see all tokens or those within a window on both sides, each kind with rotary embeddings of its own base. Its decoder (Ettin, arXiv:2507.11412)
// has matrices of their own for queries, keys and values, half as wide a window, of tokens before, and the head of the masked model.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define LINEAR(name, gguf, out, in, bias)                                                                              \
  {name ".weight", gguf ".weight", ConfigDim::out, ConfigDim::in}, {                                                   \
    name ".bias", gguf ".bias", ConfigDim::out, ConfigDim::None, When::bias                                            \
  }
#define NORM(name, gguf, there, withBias)                                                                              \
  {name ".weight", gguf ".weight", ConfigDim::Hidden, ConfigDim::None, When::there}, {                                 \
    name ".bias", gguf ".bias", ConfigDim::Hidden, ConfigDim::None, When::withBias                                     \
  }
#define HEAD_RULES                                                                                                     \
  LINEAR("head.dense", "cls", Hidden, Hidden, HeadBias), NORM("head.norm", "cls.norm", Always, NormBias)

static constexpr TensorRule tensorRules[] = {
    {"model.embeddings.tok_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    NORM("model.embeddings.norm", "token_embd_norm", Always, NormBias),
    NORM("model.layers.#.attn_norm", "blk.#.attn_norm", BehindFirst, NormBiasBehindFirst),
    LINEAR("model.layers.#.attn.Wqkv", "blk.#.attn_qkv", QueriesKeysValues, Hidden, AttentionBias),
    LINEAR("model.layers.#.attn.Wo", "blk.#.attn_output", Hidden, Queries, OutputBias),
    NORM("model.layers.#.mlp_norm", "blk.#.ffn_norm", Always, NormBias),
    LINEAR("model.layers.#.mlp.Wi", "blk.#.ffn_up", GateAndUp, Hidden, MlpBias),
    LINEAR("model.layers.#.mlp.Wo", "blk.#.ffn_down", Hidden, Intermediate, MlpBias),
    NORM("model.final_norm", "output_norm", Always, NormBias),
};
static constexpr TensorRule maskedRules[] = {
    HEAD_RULES,
    {"decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::LogitsBias},
};
static constexpr TensorRule labelRules[] = {HEAD_RULES, HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};
static constexpr TensorRule spanRules[] = {HEAD_RULES, HEDDLE_LINEAR_RULES("classifier", Two, Hidden)};

// Of heads that are not compiled.
static constexpr UnreadTensor unread[] = {{"head.*", /*isLoss=*/true},
                                          {"decoder.*", /*isLoss=*/true},
                                          {"classifier.*", /*isLoss=*/true},
                                          {"cls.*", /*isLoss=*/true}};

static constexpr KeyName keyNames[] = {{"num_key_value_heads", "num_attention_heads"},
                                       {"head_dim", "hidden_size"},
                                       {"rms_norm_eps", "norm_eps", "attention.layer_norm_epsilon"}};

// layer_types, or, in older files, every how many layers one sees all tokens, the first among them. A window is local_attention tokens wide, or
// twice sliding_window, where that is said.
static void readWindows(JsonObject &object, ModelConfig &config, bool isDecoder) {
  constexpr int64_t most = 1 << 24;
  bool isHalf = object.has("sliding_window");
  const char *key = isHalf ? "sliding_window" : "local_attention";
  int64_t width = object.bounded(key, object.integer(key).value_or(128), 0, isHalf ? most / 2 : most);
  if (isHalf)
    width *= 2;
  int64_t period = object.integer("global_attn_every_n_layers").value_or(3);
  if (period < 1)
    return object.fail("global_attn_every_n_layers", "is " + std::to_string(period) + ", expected at least 1");
  std::vector<std::string> types = object.strings("layer_types"); // as many as there are layers
  for (size_t layer = 0; layer < config.layerWindow.size(); ++layer) {
    bool slides = layer % size_t(period) != 0;
    if (layer < types.size()) {
      slides = types[layer] == "sliding_attention";
      if (!slides && types[layer] != "full_attention")
        return object.fail("layer_types",
                           "holds '" + printable(types[layer], 64) + "', expected full_attention or sliding_attention");
    }
    // The token itself, and half of it on each side; of a decoder as many tokens as half of it, this one among them.
    config.layerWindow[layer] = slides ? width / 2 + !isDecoder : 0;
    if (slides && config.layerWindow[layer] < 1)
      return object.fail(key, "is " + std::to_string(width) + ", expected at least " + (isHalf ? "1" : "2"));
    config.layerRope[layer] = slides;
  }
}

static void readRopesOf(JsonObject &object, ModelConfig &config) {
  double full = object.number("global_rope_theta").value_or(160000.0);
  double sliding = object.number("local_rope_theta").value_or(10000.0);
  readRopesByType(object, config, full, sliding, /*scalesBoth=*/true);
}

static void readBothRopes(JsonObject &object, ModelConfig &config) {
  readWindows(object, config, /*isDecoder=*/false);
  readRopesOf(object, config);
}

static void readDecoderRopes(JsonObject &object, ModelConfig &config) {
  readWindows(object, config, /*isDecoder=*/true);
  readRopesOf(object, config);
}

static void readHeadTerms(JsonObject &object, ModelConfig &config) {
  config.hasNormBias = object.boolean("norm_bias").value_or(false);
  config.hasHeadBias = object.boolean("classifier_bias").value_or(false);
  config.hasLogitsBias = object.boolean("decoder_bias").value_or(true);
  std::string activation = object.string("classifier_activation").value_or("gelu");
  if (std::optional<Activation> known = activationNamed(activation))
    config.headActivation = *known;
  else
    object.fail("classifier_activation",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readHeadTerms(object, config);
  std::string pooling = object.string("classifier_pooling").value_or("cls");
  if (pooling != "cls" && pooling != "mean")
    object.fail("classifier_pooling", "is '" + printable(pooling, 64) + "', expected cls or mean");
  config.pooledBy = pooling == "mean" ? ClassifierPooling::Mean : ClassifierPooling::First;
}

// As many tokens on each side as half of the window, and this one.
static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  for (int64_t &window : config.layerWindow)
    window = window > 0 ? window / 2 + 1 : 0;
  RopeConfig sliding = config.ropes.at(0);
  sliding.theta = keys.number("rope.freq_base_swa", sliding.theta);
  config.ropes.push_back(sliding);
  rotateWindowsApart(config);
}

// x + the gated block that reads its norm.
static TensorHandle feedForwardBehind(ModelBuilder &b, TensorHandle x) {
  int64_t width = b.config().intermediateSize;
  TensorHandle both = b.linear(b.layerNorm(x, "mlp_norm"), "mlp.Wi");
  TensorHandle gated = b.glu(b.columns(both, 0, width), b.columns(both, width, 2 * width));
  return b.add(x, b.linear(gated, "mlp.Wo"));
}

static TensorHandle buildLayer(ModelBuilder &b, int64_t layer, TensorHandle x) {
  TensorHandle normed = layer == 0 ? x : b.layerNorm(x, "attn_norm"); // the first reads embeddings, normed already
  x = b.add(x, fusedSelfAttention(b, normed, "attn.Wqkv", "attn.Wo"));
  return feedForwardBehind(b, x);
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.layerNorm(b.embedTokens(b.config().family->embedding), "model.embeddings.norm");
  x = decoderLayers(b, "model.layers.", x, [&](int64_t layer, TensorHandle x) { return buildLayer(b, layer, x); });
  finishEncoder(b, b.layerNorm(x, "model.final_norm"), TensorHandle());
}

// What stands before the last layer of every head.
static TensorHandle headRows(ModelBuilder &b, TensorHandle x, const std::string &head = "head.") {
  return b.layerNorm(b.activation(b.linear(x, head + "dense"), b.config().headActivation), head + "norm");
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  std::string bias = b.config().hasLogitsBias ? "decoder.bias" : "";
  b.output("logits", vocabularyLogits(b, headRows(b, x), "decoder", bias));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle pooled = b.config().pooledBy == ClassifierPooling::Mean ? b.meanToken(x) : b.firstTokens(x);
  b.output("logits", b.linear(headRows(b, pooled), "classifier"));
}

static void buildTokens(ModelBuilder &b, TensorHandle x, TensorHandle pooled) {
  buildTokenClassifier(b, headRows(b, x), pooled);
}

static void buildSpan(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = headRows(b, x);
  b.output("start_logits", b.linear(x, "classifier.weight", "classifier.bias", 0, 1), /*squeezed=*/true);
  b.output("end_logits", b.linear(x, "classifier.weight", "classifier.bias", 1, 1), /*squeezed=*/true);
}

static constexpr Head heads[] = {
    {"ModernBertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"ModernBertForSequenceClassification", labelRules, buildSequenceClassifier, HeadTask::Classify},
    {"ModernBertForTokenClassification", labelRules, buildTokens, HeadTask::ClassifyTokens},
    {"ModernBertForQuestionAnswering", spanRules, buildSpan, HeadTask::Answer},
};

static constexpr Family describe() {
  Family row;
  row.modelType = "modernbert";
  row.gguf = "modern-bert";
  row.windows.ggufFullEvery = 3;
  row.windows.ggufFullFirst = true;
  row.isEncoder = true;
  row.heads = heads;
  row.embedding = "model.embeddings.tok_embeddings.weight";
  row.head = "decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.activationKey = "hidden_activation";
  row.plainHeads = true;
  row.defaults.vocabSize = 50368;
  row.defaults.numHeads = 12;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.readers.huggingFaceRopes = readBothRopes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::modernBert = describe();

static constexpr TensorRule decoderRules[] = {
    {"model.embeddings.tok_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    NORM("model.embeddings.norm", "token_embd_norm", Always, NormBias),
    NORM("model.layers.#.attn_norm", "blk.#.attn_norm", BehindFirst, NormBiasBehindFirst),
    LINEAR("model.layers.#.attn.q_proj", "blk.#.attn_q", Queries, Hidden, AttentionBias),
    LINEAR("model.layers.#.attn.k_proj", "blk.#.attn_k", KeyValues, Hidden, AttentionBias),
    LINEAR("model.layers.#.attn.v_proj", "blk.#.attn_v", KeyValues, Hidden, AttentionBias),
    LINEAR("model.layers.#.attn.Wo", "blk.#.attn_output", Hidden, Queries, OutputBias),
    NORM("model.layers.#.mlp_norm", "blk.#.ffn_norm", Always, NormBias),
    LINEAR("model.layers.#.mlp.Wi", "blk.#.ffn_up", GateAndUp, Hidden, MlpBias),
    LINEAR("model.layers.#.mlp.Wo", "blk.#.ffn_down", Hidden, Intermediate, MlpBias),
    NORM("model.final_norm", "output_norm", Always, NormBias),
    LINEAR("lm_head.dense", "cls", Hidden, Hidden, HeadBias),
    NORM("lm_head.norm", "cls.norm", Always, NormBias),
    {"decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::LogitsBias},
};

static void buildDecoderModel(ModelBuilder &b) {
  const Family &family = *b.config().family;
  TensorHandle x = b.layerNorm(b.embedTokens(family.embedding), "model.embeddings.norm");
  x = decoderLayers(b, "model.layers.", x, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, selfAttention(b, layer == 0 ? x : b.layerNorm(x, "attn_norm")));
    return feedForwardBehind(b, x);
  });
  x = b.layerNorm(x, "model.final_norm");
  if (b.config().embedsTexts)
    return b.output("last_hidden_state", x);
  b.finish(headRows(b, x, "lm_head."), b.config().tieWordEmbeddings ? family.embedding : family.head, "decoder.bias");
}

static constexpr Family describeDecoder() {
  Family row = describe();
  row.modelType = "modernbert-decoder";
  row.gguf = nullptr;
  row.isEncoder = false;
  row.heads = {};
  row.rules = {decoderRules};
  row.unread = {};
  row.attention = {"attn.", "q_proj", "k_proj", "v_proj", "Wo"};
  row.readers.huggingFaceRopes = readDecoderRopes;
  row.readers.huggingFaceRest = readHeadTerms;
  row.readers.ggufRest = nullptr;
  row.build = buildDecoderModel;
  return row;
}
const Family family::modernBertDecoder = describeDecoder();

} // namespace heddle
