// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoders of Llama's layers that Hugging Face's library does not know: their folders bring code of their own, and their GGUF files are read alone. InternLM2
// (arXiv:2403.17297) and XVERSE; Orion-14B (arXiv:2401.12246) with LayerNorm; MiniCPM (arXiv:2404.06395) with multipliers; Maincoder with norms of rotated heads; openPangu
// with biases of attention; Qwen (arXiv:2309.16609) with one matrix for queries, keys and values, ChatGLM (arXiv:2406.12793) with one for gate and up as well, and half a head
// that rotates; PLaMo, whose two blocks read one norm, and PLaMo 3, with norms around both, of heads, and windows; OpenELM (arXiv:2404.14619), whose layers have heads of their
// own number, and Nemotron (arXiv:2411.19146), some of whose layers do not attend; Baichuan (arXiv:2309.10305), the larger of which has slopes in the place of rotations, as Refact and Jais (arXiv:2308.16149)
// do, the latter with LayerNorm; CodeShell (arXiv:2403.15747) with it and a block without gates.

#include "frontends/families/Decoder.h"
#include "frontends/families/DistanceBias.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"

namespace heddle {

static constexpr TensorRule fusedRules[] = {
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.qkv_proj.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

static constexpr TensorRule gateUpRules[] = {
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static constexpr KeyName layerNormNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr Family describeKin(const char *name) {
  Family row;
  row.modelType = row.gguf = name;
  row.isGgufOnly = true;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.windows.inGguf = false;
  row.build = buildPreNormDecoder;
  return row;
}

// Of pairs.
static constexpr Family describePairs(const char *name) {
  Family row = describeKin(name);
  row.rope.interleavedInGguf = true;
  return row;
}
const Family family::internLm2 = describePairs("internlm2");
const Family family::xverse = describePairs("xverse");
const Family family::panguEmbedded = describeKin("pangu-embedded");

static constexpr Family describeOrion() {
  Family row = describeKin("orion");
  row.rules[5] = normBiasRules;
  row.keyNames = layerNormNames;
  row.norm = NormKind::Layer;
  return row;
}
const Family family::orion = describeOrion();

static constexpr Family describeMaincoder() {
  Family row = describePairs("maincoder");
  row.rules[5] = queryKeyNormRules;
  row.headNorms = HeadNorms::Rotated;
  return row;
}
const Family family::maincoder = describeMaincoder();

// Files from before the keys are of models whose multipliers llama.cpp guesses; what it makes of logits there is not what they were trained with.
static void readMultipliers(GgufKeys &keys, ModelConfig &config) {
  auto positive = [&](const char *key) {
    double number = keys.number(key, 0.0);
    if (!(number > 0.0))
      keys.fail(keys.full(key) + " is " + std::to_string(number) + ", expected a positive number");
    return number;
  };
  config.embeddingScale = positive("embedding_scale");
  config.residualScale = positive("residual_scale");
  config.logitScale = 1.0 / positive("logit_scale");
}

static constexpr Family describeMiniCpm() {
  Family row = describePairs("minicpm");
  row.readers.ggufRest = readMultipliers;
  return row;
}
const Family family::miniCpm = describeMiniCpm();

static constexpr Family describePlamo() {
  Family row = describeKin("plamo");
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardRules};
  row.parallelResidual = true;
  return row;
}
const Family family::plamo = describePlamo();

static void buildFused(ModelBuilder &b) {
  bool fusesGate = b.has("model.layers.0.mlp.gate_up_proj.weight");
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.rmsNorm(x, "input_layernorm"), "self_attn.qkv_proj", "self_attn.o_proj"));
    TensorHandle normed = b.rmsNorm(x, "post_attention_layernorm");
    return b.add(x, fusesGate ? fusedFeedForward(b, normed) : feedForward(b, normed));
  });
}

// The key counts gate and up.
static void readQwenWidth(GgufKeys &, ModelConfig &config) {
  config.intermediateSize /= 2;
}

static constexpr Family describeQwen1() {
  Family row = describeKin("qwen");
  row.rules = {embeddingRules, attentionNormRules, fusedRules, feedForwardNormRules, feedForwardRules};
  row.readers.ggufRest = readQwenWidth;
  row.build = buildFused;
  return row;
}
const Family family::qwen1 = describeQwen1();

static constexpr Family describeChatGlm() {
  Family row = describePairs("chatglm");
  row.rules = {embeddingRules, attentionNormRules, fusedRules, feedForwardNormRules, gateUpRules};
  row.build = buildFused;
  return row;
}
const Family family::chatGlm = describeChatGlm();

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm", ConfigDim::Hidden},
    {"model.layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm", ConfigDim::Hidden},
};

static void readPlamo3(GgufKeys &keys, ModelConfig &config) {
  RopeConfig sliding = config.ropes.at(0);
  sliding.theta = keys.number("rope.freq_base_swa", sliding.theta);
  config.ropes.push_back(sliding);
  rotateWindowsApart(config);
}

static void buildPlamo3(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    TensorHandle attended = fusedSelfAttention(b, normed, "self_attn.qkv_proj", "self_attn.o_proj");
    x = b.add(x, b.rmsNorm(attended, "post_attention_layernorm"));
    TensorHandle fed = fusedFeedForward(b, b.rmsNorm(x, "pre_feedforward_layernorm"));
    return b.add(x, b.rmsNorm(fed, "post_feedforward_layernorm"));
  });
}

static constexpr Family describePlamo3() {
  Family row = describeKin("plamo3");
  row.rules = {embeddingRules, attentionNormRules, fusedRules, headNormRules, gateUpRules};
  row.windows.inGguf = true;
  row.windows.ggufFullEvery = 8;
  row.readers.ggufRest = readPlamo3;
  row.build = buildPlamo3;
  return row;
}
const Family family::plamo3 = describePlamo3();

static void buildOpenElm(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, fusedSelfAttention(b, normed, "self_attn.qkv_proj", "self_attn.o_proj", {}, layer));
    return b.add(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeOpenElm() {
  Family row = describeKin("openelm");
  row.rules = {embeddingRules,    attentionNormRules,   fusedRules,
               queryKeyNormRules, feedForwardNormRules, feedForwardRules};
  row.layersDiffer = true;
  row.build = buildOpenElm;
  return row;
}
const Family family::openElm = describeOpenElm();

static constexpr TensorRule attendingNormRules[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden, ConfigDim::None,
     When::Attends},
};

static void buildDeci(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    if (b.config().attends(layer))
      x = b.add(x, selfAttentionOf(b, layer, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeDeci() {
  Family row = describePairs("deci");
  row.rules[1] = attendingNormRules;
  row.layersDiffer = row.layersMayNotAttend = true;
  row.build = buildDeci;
  return row;
}
const Family family::deci = describeDeci();

static AttentionTerms slopes(const ModelConfig &config) {
  AttentionTerms terms;
  if (config.ropes.empty())
    terms.positions.slopes = alibiSlopes(config.numHeads, config.alibiMaxBias);
  return terms;
}

static void buildSloped(ModelBuilder &b) {
  AttentionTerms terms = slopes(b.config());
  buildDecoder(b, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x, terms); });
}

static void readSlopes(GgufKeys &keys, ModelConfig &config) {
  constexpr double usual = 8.0;
  config.alibiMaxBias = keys.number("attention.max_alibi_bias", usual);
  if (!(config.alibiMaxBias > 0.0))
    keys.fail(keys.full("attention.max_alibi_bias") + " is " + std::to_string(config.alibiMaxBias) +
              ", expected a positive number");
}

// The format has no key for what stands for positions: the number of layers tells the models apart.
static void readBaichuan(GgufKeys &keys, ModelConfig &config) {
  readSlopes(keys, config);
  constexpr int64_t rotating = 32, sloped = 40;
  if (config.numHiddenLayers == sloped)
    config.ropes.clear();
  else if (config.numHiddenLayers != rotating)
    keys.unsupported(keys.full("block_count") + " is " + std::to_string(config.numHiddenLayers) +
                     ", which is not supported for " + config.architecture + "; expected 32 or 40");
}

static constexpr Family describeBaichuan() {
  Family row = describePairs("baichuan");
  row.readers.ggufRest = readBaichuan;
  row.build = buildSloped;
  return row;
}
const Family family::baichuan = describeBaichuan();

static constexpr Family describeRefact() {
  Family row = describeKin("refact");
  row.rope.hasRope = false;
  row.readers.ggufRest = readSlopes;
  row.build = buildSloped;
  return row;
}
const Family family::refact = describeRefact();

static void readJais(GgufKeys &keys, ModelConfig &config) {
  readSlopes(keys, config);
  config.attentionScale = 1.0 / static_cast<double>(config.headDim);
}

static void buildFusedLayerNorm(ModelBuilder &b) {
  AttentionTerms terms;
  if (!b.config().family->rope.hasRope)
    terms = slopes(b.config());
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "input_layernorm");
    x = b.add(x, fusedSelfAttention(b, normed, "self_attn.qkv_proj", "self_attn.o_proj", terms));
    return b.add(x, feedForward(b, b.layerNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeJais() {
  Family row = describeKin("jais");
  row.rules = {embeddingRules, attentionNormRules, fusedRules, feedForwardNormRules, feedForwardRules, normBiasRules};
  row.keyNames = layerNormNames;
  row.norm = NormKind::Layer;
  row.rope.hasRope = false;
  row.biases.mlpInGguf = true;
  row.readers.ggufRest = readJais;
  row.build = buildFusedLayerNorm;
  return row;
}
const Family family::jais = describeJais();

static constexpr Family describeCodeShell() {
  Family row = describeJais();
  row.modelType = row.gguf = "codeshell";
  row.rules[4] = ungatedFeedForwardRules;
  row.feedForward.gate = nullptr;
  row.rope.hasRope = true;
  row.defaults.activation = Activation::GeluTanh;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::codeShell = describeCodeShell();

} // namespace heddle
