// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text part of Llama 4 (Meta 2025): most layers rotate pairs (2i, 2i + 1), norm what they rotated, and see keys of their token's chunk
// alone. The others do not rotate, see all tokens, and multiply queries by what grows with the context (arXiv:2501.19399). Every so many
// layers have experts, each of which reads its tokens times the sigmoid of their logits, beside one that every token passes. Hugging
// Face stores gate and up of an expert as one matrix (in, out), the gate's columns first; GGUF has two.

#include "bytes/Text.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.feed_forward.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Dense},
    {"model.layers.#.feed_forward.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate, When::Dense},
    {"model.layers.#.feed_forward.router.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.feed_forward.experts.@.gate_up_proj.weight", nullptr, ConfigDim::ExpertGateAndUp,
     ConfigDim::Hidden, When::FusedGates, StoredOrder::Conv1d},
    {"model.layers.#.feed_forward.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight",
     ConfigDim::ExpertIntermediate, ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.feed_forward.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.feed_forward.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse, StoredOrder::Conv1d},
    {"model.layers.#.feed_forward.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.feed_forward.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.feed_forward.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
};

// With images, "llama4" keeps the text part in its text_config, and these beside it.
static constexpr UnreadTensor imageTensors[] = {
    {"vision_model.*", /*isLoss=*/true},
    {"multi_modal_projector.*", /*isLoss=*/true},
};

// Values of the class in transformers, which are the published models'.
static constexpr int64_t publishedChunk = 8192, publishedFloor = 8192, publishedInterval = 4;
static constexpr double publishedGrowth = 0.1;

// Layers that do not rotate have a table of their own, which multiplies and turns nothing.
static void growQueries(ModelConfig &config, double growth, int64_t floor) {
  RopeConfig still;
  still.rotaryDim = config.headDim;
  still.interleaved = config.ropes.front().interleaved;
  still.stated.assign(static_cast<size_t>(config.headDim / 2), 0.0f);
  still.growth = growth;
  still.floor = floor;
  for (uint8_t &rope : config.layerRope)
    if (rope == noRope)
      rope = 1;
  config.ropes.push_back(std::move(still));
}

static void setRouting(MoeConfig &moe) {
  moe.sigmoidScores = moe.scalesInput = true;
  moe.normTopkProb = false;
  moe.sharedIntermediateSize = moe.intermediateSize;
}

// A flag that the first files gave as a number.
static bool readTuning(JsonObject &object) {
  const char *key = "attn_temperature_tuning";
  double number;
  if (!object.find(key).number(number))
    return object.boolean(key).value_or(true);
  object.pass(key);
  return number != 0.0;
}

static void readGrowth(JsonObject &object, ModelConfig &config) {
  if (!readTuning(object) || config.ropes.empty())
    return;
  int64_t floor = object.integer("floor_scale").value_or(publishedFloor);
  double growth = object.number("attn_scale").value_or(publishedGrowth);
  if (floor < 1 || floor > 1 << 30)
    return object.fail("floor_scale", "is " + std::to_string(floor) + ", expected 1 to 1073741824");
  if (!(growth >= 0.0) || !std::isfinite(growth))
    return object.fail("attn_scale", "is " + std::to_string(growth) + ", expected a number from 0");
  growQueries(config, growth, floor);
}

// Layers that rotate see chunks where layer_types does not say otherwise.
static void readChunks(JsonObject &object, ModelConfig &config) {
  int64_t chunk =
      object.isNull("attention_chunk_size") ? 0 : object.integer("attention_chunk_size").value_or(publishedChunk);
  if (chunk < (object.isNull("attention_chunk_size") ? 0 : 1))
    return object.fail("attention_chunk_size",
                       "is " + std::to_string(chunk) + ", expected at least 1, or null for none");
  std::vector<std::string> types = object.strings("layer_types");
  for (size_t layer = 0; layer < config.layerWindow.size(); ++layer) {
    bool isChunked = layer < types.size() ? types[layer] == "chunked_attention" : config.layerRope[layer] != noRope;
    if (layer < types.size() && !isChunked && types[layer] != "full_attention")
      return object.fail("layer_types",
                         "holds '" + printable(types[layer], 64) + "', expected full_attention or chunked_attention");
    if (layer < types.size() && isChunked && !chunk)
      return object.fail("layer_types", "holds chunked_attention, but attention_chunk_size is null");
    config.layerWindow[layer] = isChunked ? chunk : 0;
  }
}

// Those of moe_layers, or every interleave_moe_layer_step-th.
static void readSparseLayers(JsonObject &object, ModelConfig &config) {
  std::vector<bool> &isMoe = config.moe.layerIsMoe;
  if (object.has("moe_layers")) {
    object.pass("interleave_moe_layer_step");
    for (int64_t layer : object.integers("moe_layers")) {
      if (layer < 0 || layer >= config.numHiddenLayers)
        return object.fail("moe_layers",
                           "holds " + std::to_string(layer) + ", expected layers below num_hidden_layers");
      isMoe[layer] = true;
    }
    return;
  }
  int64_t step = object.integer("interleave_moe_layer_step").value_or(1);
  if (step < 1)
    return object.fail("interleave_moe_layer_step", "is " + std::to_string(step) + ", expected at least 1");
  for (int64_t layer = step - 1; layer < config.numHiddenLayers; layer += step)
    isMoe[layer] = true;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.windowsAreChunks = true;
  readNoRopeLayers(object, config, /*emptyIsAbsent=*/true);
  readChunks(object, config);
  readGrowth(object, config);
  config.normsHeads = object.boolean("use_qk_norm").value_or(true);
  MoeConfig &moe = config.moe;
  readSparseLayers(object, config);
  readExpertCounts(object, config, /*numExperts=*/16, /*expertsPerToken=*/1);
  moe.intermediateSize = object.integer("intermediate_size").value_or(8192);
  if (std::find(moe.layerIsMoe.begin(), moe.layerIsMoe.end(), true) == moe.layerIsMoe.end())
    moe.numExperts = 0;
  setRouting(moe);
}

// The format has no keys for what llama.cpp knows of the published models: a window of 0 says that every layer rotates and sees all
// tokens, 128 experts that nothing is normed.
static void readGguf(GgufKeys &keys, ModelConfig &config) {
  config.windowsAreChunks = true;
  MoeConfig &moe = config.moe;
  int64_t step = keys.integer("interleave_moe_layer_step", 1), window = keys.integer("attention.sliding_window", -1);
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    if (moe.layerIsMoe[layer] != (moe.numExperts > 0 && step > 0 && (layer + 1) % step == 0))
      return keys.fail(keys.full("interleave_moe_layer_step") + " is " + std::to_string(step) + ", but layer " +
                       std::to_string(layer) + (moe.layerIsMoe[layer] ? " has" : " has no") + " experts");
  if (int64_t gating = keys.integer("expert_gating_func", 2); gating != 2)
    return keys.unsupported(keys.full("expert_gating_func") + " is " + std::to_string(gating) +
                            ", expected 2 (sigmoid)");
  moe.splitGates = true;
  setRouting(moe);
  config.normsHeads = moe.numExperts != 128;
  config.layerWindow.assign(config.layerWindow.size(), 0);
  int64_t chunk = keys.integer("attention.chunk_size", publishedChunk);
  if (window == 0 || config.ropes.empty())
    return;
  if (chunk < 1 || (window > 0 && window != chunk))
    return keys.unsupported(keys.full("attention.sliding_window") + " is " + std::to_string(window) +
                            ", expected 0 or a chunk of " + std::to_string(chunk) + " tokens");
  rotateButEvery(config, publishedInterval);
  for (size_t layer = 0; layer < config.layerWindow.size(); ++layer)
    config.layerWindow[layer] = config.layerRope[layer] == noRope ? 0 : chunk;
  growQueries(config, publishedGrowth, publishedFloor);
}

static TensorHandle attend(ModelBuilder &b, int64_t layer, TensorHandle x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *name, int64_t count) {
    return b.splitHeads(b.linear(x, std::string("self_attn.") + name), count);
  };
  TensorHandle q = b.rope(heads("q_proj", c.numHeads)), k = heads("k_proj", c.numKvHeads);
  if (c.layerRope[layer] == 0) {
    k = b.rope(k);
    if (c.normsHeads) {
      q = b.rmsNorm(q, "self_attn.qk_norm");
      k = b.rmsNorm(k, "self_attn.qk_norm");
    }
  }
  return b.linear(b.mergeHeads(b.attention(q, k, heads("v_proj", c.numKvHeads))), "self_attn.o_proj");
}

static void buildLlama4(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, attend(b, layer, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr KeyName keyNames[] = {
    {"intermediate_size", "intermediate_size_mlp"},
    {"sliding_window", "attention_chunk_size", "attention.chunk_size"},
};

static constexpr Family describeLlama4() {
  Family row;
  row.modelType = "llama4_text";
  row.wrapper = "llama4";
  row.gguf = "llama4";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, layerRules};
  row.unread = imageTensors;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 202048;
  row.defaults.numHeads = 40;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 500000.0;
  row.feedForward.block = row.experts.block = "feed_forward.";
  row.biases.attentionKey = "attention_bias";
  row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.experts.router = "router";
  row.experts.gateAndUp = "gate_up_proj";
  row.experts.gateThenUp = true;
  row.experts.shared = "shared_expert";
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGguf;
  row.build = buildLlama4;
  return row;
}
const Family family::llama4 = describeLlama4();

} // namespace heddle
