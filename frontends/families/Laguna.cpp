// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Laguna (Poolside 2026): norms of query and key heads, a softplus of the layer's input that multiplies heads, layers whose numbers of heads differ, with
// rotations by type of layer; and experts as DeepSeek-V3 has them. MiMo-V2-Flash (Xiaomi 2025, arXiv:2601.02780): layers with a window have twice the heads of keys, and a
// logit of each head that takes part in its sum alone; heads of values are narrower than those of keys.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cstring>

namespace heddle {

static constexpr TensorRule gateRules[] = {
    {"model.layers.#.self_attn.g_proj.weight", "blk.#.attn_gate.weight", ConfigDim::Heads, ConfigDim::Hidden,
     When::HeadGates},
    {"model.layers.#.self_attn.g_proj.weight", "blk.#.attn_gate.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::ElementGates},
    {"model.layers.#.mlp.experts.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts,
     ConfigDim::None, When::Correction},
};

static constexpr TensorRule sharedRules[] = {
    {"model.layers.#.mlp.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
};

static RopeConfig rotation(const ModelConfig &config, double theta, double share) {
  RopeConfig rope;
  rope.theta = theta;
  rope.rotaryDim = static_cast<int64_t>(static_cast<double>(config.headDim) * share);
  return rope;
}

static void readLagunaRopes(JsonObject &object, ModelConfig &config) {
  readTypedRopes(object, config, rotation(config, 500000.0, 0.5), rotation(config, 10000.0, 1.0), 1.0);
  rotateWindowsApart(config);
}

// Heads of queries of each layer.
static void readLayerHeads(JsonObject &object, ModelConfig &config) {
  const char *key = "num_attention_heads_per_layer";
  std::vector<int64_t> heads = object.integers(key);
  if (!object.has(key))
    return;
  if (heads.size() != config.layerWindow.size())
    return object.fail(key, "has " + std::to_string(heads.size()) + " entries, expected num_hidden_layers (" +
                                std::to_string(config.layerWindow.size()) + ")");
  for (int64_t count : heads) {
    LayerShape shape = config.shapeOf(-1);
    shape.numHeads = object.bounded(key, count, 1, 1 << 16);
    config.layerShapes.push_back(shape);
  }
}

static void readLaguna(JsonObject &object, ModelConfig &config) {
  readLayerHeads(object, config);
  JsonValue gating = object.find("gating");
  bool isTrue = gating.is(JsonKind::Bool) && object.boolean("gating").value_or(false);
  config.gatesElements = gating && !isTrue && !gating.equals("per-head");
  // What is neither is "per-element" to the reference.
  if (config.gatesElements && !gating.equals("per-element"))
    object.fail("gating", "is " + printable(gating.raw(), 64) + ", expected true, \"per-head\" or \"per-element\"");
  if (object.boolean("moe_apply_router_weight_on_input").value_or(false))
    object.unsupported("moe_apply_router_weight_on_input", "is true, which is not supported; expected false");
  if (double cap = object.number("moe_router_logit_softcapping").value_or(0.0); cap > 0)
    object.unsupported("moe_router_logit_softcapping",
                       "is " + std::to_string(cap) + ", which is not supported; expected 0");
  readExpertCounts(object, config, /*numExperts=*/256, /*expertsPerToken=*/8);
  readSparseLayersButFirst(object, config);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = moe.normTopkProb = true;
  moe.intermediateSize = object.integer("moe_intermediate_size").value_or(512);
  moe.routedScale = object.number("moe_routed_scaling_factor").value_or(1.0);
  const char *shared = "shared_expert_intermediate_size";
  moe.sharedIntermediateSize = object.bounded(shared, object.integer(shared).value_or(512), 1, 1 << 24);
}

// Layers with a window rotate by a base and a share of their own, and not stretched.
static void readGgufWindowRope(GgufKeys &keys, ModelConfig &config) {
  RopeConfig sliding;
  sliding.theta = keys.number("rope.freq_base_swa", config.ropes.at(0).theta);
  sliding.rotaryDim = keys.integer("rope.dimension_count_swa", config.ropes.at(0).rotaryDim);
  config.ropes.push_back(sliding);
  rotateWindowsApart(config);
}

static void readGgufLaguna(GgufKeys &keys, ModelConfig &config) {
  readGgufWindowRope(keys, config);
  readGgufSigmoidExperts(keys, config);
  readGgufSharedWidth(keys, config);
  config.moe.hasCorrection = true;
  const TensorInfo *gate = keys.source().tensors().find("blk.0.attn_gate.weight");
  config.gatesElements = gate && gate->shape.front() != config.headsOf(0);
}

static void buildLaguna(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, selfAttentionOf(b, layer, normed, {}, [&](TensorHandle heads) {
                TensorHandle gates = b.softplus(b.linear(normed, "self_attn.g_proj"), /*bias=*/"");
                return b.config().gatesElements ? b.multiply(heads, gates) : b.scaleHeads(heads, gates);
              }));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr KeyName lagunaNames[] = {{"num_local_experts", "num_experts"}};
static constexpr KeyAlias lagunaAliases[] = {{"num_local_experts", "num_experts"}};

static constexpr Family describeLaguna() {
  Family row;
  row.modelType = row.gguf = "laguna";
  row.hasExperts = row.layersDiffer = true;
  row.rules = {embeddingRules,   attentionNormRules, attentionRules, queryKeyNormRules, feedForwardNormRules,
               feedForwardRules, expertRules,        gateRules,      sharedRules};
  row.keyNames = lagunaNames;
  row.aliases = lagunaAliases;
  row.defaults.vocabSize = 100352;
  row.defaults.numHeads = 48;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.slidingWindow = 512;
  row.biases.attentionKey = "attention_bias";
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 1; // only layer_types gives a layer a window
  row.windows.ggufFullEvery = 4;
  row.windows.ggufFullFirst = true;
  row.rope.partial = true;
  row.experts.shared = "shared_expert";
  row.experts.correction = "experts.e_score_correction_bias";
  row.readers.huggingFaceRopes = readLagunaRopes;
  row.readers.huggingFaceRest = readLaguna;
  row.readers.ggufRest = readGgufLaguna;
  row.build = buildLaguna;
  return row;
}
const Family family::laguna = describeLaguna();

static constexpr TensorRule mimoRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::Values, ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::HeadValues},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::Values, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.attention_sink_bias", "blk.#.attn_sinks.weight", ConfigDim::Heads, ConfigDim::None,
     When::Windowed},
};

// Layers that predict further tokens.
static constexpr UnreadTensor mimoPrediction[] = {{"model.mtp.*"}};

// Where nothing says it, the first layer sees all tokens as well. A window may be said by the tokens before this one.
static void readMimoWindows(JsonObject &object, ModelConfig &config) {
  if (!object.has("layer_types"))
    config.layerWindow.front() = 0;
  const char *key = "sliding_window_size";
  int64_t before = object.bounded(key, object.integer(key).value_or(1), 1, 1 << 24);
  for (int64_t &window : config.layerWindow)
    if (window > 0 && object.has(key))
      window = before + 1;
}

static void readMimoRopes(JsonObject &object, ModelConfig &config) {
  readMimoWindows(object, config);
  readTypedRopes(object, config, rotation(config, 5e6, 0.334), rotation(config, 10000.0, 0.334), 0.334);
  rotateWindowsApart(config);
}

static void readMimo(JsonObject &object, ModelConfig &config) {
  const char *key = "v_head_dim";
  config.valueDim = object.bounded(key, object.integer(key).value_or(128), 1, 1 << 16);
  if (config.valueDim > config.headDim)
    object.unsupported(key, "is " + std::to_string(config.valueDim) +
                                ", which is not supported; expected at most head_dim (" +
                                std::to_string(config.headDim) + ")");
  for (int64_t window : config.layerWindow) {
    LayerShape shape = config.shapeOf(-1);
    shape.numKvHeads *= window > 0 ? 2 : 1;
    config.layerShapes.push_back(shape);
  }
  config.partScales.attentionOutput =
      object.isNull("attention_value_scale") ? 1.0 : object.number("attention_value_scale").value_or(0.707);
  RoutedDefaults defaults;
  defaults.numExperts = 256;
  defaults.perToken = 8;
  defaults.width = 2048;
  defaults.normTopkProb = true;
  readRoutedExperts(object, config, defaults);
  readSparseLayersButFirst(object, config);
  MoeConfig &moe = config.moe;
  moe.sharedIntermediateSize = 0;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
}

static void readGgufMimoSizes(GgufKeys &keys, ModelConfig &config) {
  config.headDim = keys.integer("attention.key_length", config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0);
  config.valueDim = keys.integer("attention.value_length", config.headDim);
  if (config.valueDim < 1 || config.valueDim > config.headDim)
    keys.unsupported(keys.full("attention.value_length") + " is " + std::to_string(config.valueDim) +
                     ", which is not supported; expected 1 to " + keys.full("attention.key_length") + " (" +
                     std::to_string(config.headDim) + ")");
  for (LayerShape &shape : config.layerShapes)
    shape.headDim = config.headDim;
}

static void readGgufMimo(GgufKeys &keys, ModelConfig &config) {
  readGgufWindowRope(keys, config);
  config.ropes.at(1).rotaryDim = config.ropes.at(0).rotaryDim;
  config.partScales.attentionOutput = keys.number("attention.value_scale", 1.0);
  readGgufSigmoidExperts(keys, config);
  config.moe.normTopkProb = true;
}

// A matrix whose rows are heads of `own` numbers each as one whose heads have `wide`: zeros stand behind them. Blocks that a head fills keep their type.
static Status widenColumns(Model &model, const std::string &name, int64_t heads, int64_t own, int64_t wide) {
  const TensorInfo stored = *model.checkpoint.find(name);
  const TensorTypeInfo &type = tensorTypeInfo(stored.type);
  std::shared_ptr<MappedFile> file = model.checkpoint.files[stored.file];
  const uint8_t *begin = file->data() + stored.offset;
  bool isWhole = own % type.blockValues == 0 && wide % type.blockValues == 0;
  auto bytesOf = [&](int64_t count) {
    return isWhole ? size_t(count) / type.blockValues * type.blockBytes : size_t(count) * sizeof(float);
  };
  TensorInfo widened = stored;
  widened.shape.back() = heads * wide;
  widened.type = isWhole ? stored.type : TensorType::F32;
  std::vector<float> numbers(static_cast<size_t>(heads * own));
  return addTensor(model, name, widened, "columns of a weight", [&](std::vector<char> &row, int64_t index) {
    const uint8_t *from = begin + size_t(index) * (numbers.size() / type.blockValues * type.blockBytes);
    if (!isWhole)
      dequantize(stored.type, from, numbers.size(), numbers.data());
    const uint8_t *values = isWhole ? from : reinterpret_cast<const uint8_t *>(numbers.data());
    row.assign(bytesOf(wide) * size_t(heads), 0);
    for (int64_t head = 0; head < heads; ++head)
      memcpy(&row[size_t(head) * bytesOf(wide)], values + size_t(head) * bytesOf(own), bytesOf(own));
  });
}

// Keys and values of a cache have one width.
static Status widenValues(Model &model) {
  const ModelConfig &config = model.config;
  int64_t own = config.valueDim, wide = config.headDim;
  auto widened = [&](int64_t row) { return row % wide < own ? row / wide * own + row % wide : -1; };
  for (int64_t layer = 0; own < wide && layer < config.numHiddenLayers; ++layer) {
    std::string block = "model.layers." + std::to_string(layer) + ".self_attn.";
    int64_t rows = config.shapeOf(layer).numKvHeads * wide;
    HEDDLE_RETURN_IF_ERROR(pickRows(model, block + "v_proj.weight", rows, widened));
    if (config.attentionBias)
      HEDDLE_RETURN_IF_ERROR(pickRows(model, block + "v_proj.bias", rows, widened));
    HEDDLE_RETURN_IF_ERROR(widenColumns(model, block + "o_proj.weight", config.numHeads, own, wide));
  }
  return Status();
}

static void buildMimo(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    AttentionTerms terms;
    if (c.layerWindow[size_t(layer)] > 0)
      terms.sinks = "self_attn.attention_sink_bias";
    auto scaled = [&](TensorHandle heads) { return b.scale(heads, c.partScales.attentionOutput); };
    x = b.add(x, selfAttentionOf(b, layer, b.rmsNorm(x, "input_layernorm"), terms, scaled));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr KeyAlias mimoAliases[] = {{"num_local_experts", "n_routed_experts"}};

static constexpr Family describeMimo() {
  Family row;
  row.modelType = "mimo_v2_flash";
  row.gguf = "mimo2";
  row.hasExperts = row.layersDiffer = true;
  row.rules = {embeddingRules,   attentionNormRules, mimoRules,      feedForwardNormRules,
               feedForwardRules, expertRules,        correctionRules};
  row.unread = mimoPrediction;
  row.aliases = mimoAliases;
  row.defaults.vocabSize = 152576;
  row.defaults.numHeads = 64;
  row.defaults.numKvHeads = 4;
  row.defaults.headDim = 192;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 129;
  row.biases.attentionKey = "attention_bias";
  row.biases.inOutput = false;
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 6;
  row.rope.partial = true;
  row.readers.huggingFaceRopes = readMimoRopes;
  row.readers.huggingFaceRest = readMimo;
  row.readers.ggufSizes = readGgufMimoSizes;
  row.readers.ggufRest = readGgufMimo;
  row.addTensors = widenValues;
  row.build = buildMimo;
  return row;
}
const Family family::mimoV2Flash = describeMimo();

} // namespace heddle
