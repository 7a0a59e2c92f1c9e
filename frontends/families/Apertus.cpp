// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Apertus (Swiss AI 2025, arXiv:2509.14233): Llama with norms of query and key heads and a feed-forward block without a gate, whose activation is
// xIELU (arXiv:2411.13010) with numbers that each layer has learned. A folder holds them as tensors, a GGUF file as keys.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>
#include <cstring>

namespace heddle {

static constexpr TensorRule normRules[] = {
    {"model.layers.#.attention_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.feedforward_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
};

static constexpr const char *termNames[] = {"alpha_p", "alpha_n", "beta", "eps"};

static constexpr TensorRule activationRules[] = {
    {"model.layers.#.mlp.act_fn.alpha_p", nullptr, ConfigDim::One, ConfigDim::None, When::ActivationTensors,
     StoredOrder::Flattened},
    {"model.layers.#.mlp.act_fn.alpha_n", nullptr, ConfigDim::One, ConfigDim::None, When::ActivationTensors,
     StoredOrder::Flattened},
    {"model.layers.#.mlp.act_fn.beta", nullptr, ConfigDim::One, ConfigDim::None, When::ActivationTensors,
     StoredOrder::Flattened},
    {"model.layers.#.mlp.act_fn.eps", nullptr, ConfigDim::One, ConfigDim::None, When::ActivationTensors,
     StoredOrder::Flattened},
};

static void readRest(JsonObject &object, ModelConfig &config) {
  std::string name = object.string("hidden_act").value_or("xielu");
  config.hasActivationTensors = name == "xielu";
  if (std::optional<Activation> other = activationNamed(name))
    config.activation = *other;
  else if (!config.hasActivationTensors)
    object.fail("hidden_act",
                "is '" + printable(name, 64) + "', an unknown activation; known: xielu, " + knownActivations());
  // A config that says nothing of its rotation has that of the published models, whatever base stands outside.
  if (object.has(ropeKey(object)) || config.ropes.empty())
    return;
  RopeConfig &rope = config.ropes.front();
  rope.theta = config.family->defaults.ropeTheta;
  rope.scaling = RopeScalingKind::Llama3;
  rope.factor = 8.0;
  rope.originalContext = 8192;
}

// One number for all layers, or one for each.
static void readGgufTerms(GgufKeys &keys, ModelConfig &config) {
  GgufCount layers{config.numHiddenLayers, "layers", keys.full("block_count")};
  config.activationTerms.resize(static_cast<size_t>(config.numHiddenLayers));
  for (size_t term = 0; term < std::size(termNames); ++term) {
    std::string key = std::string("xielu.") + termNames[term];
    const GgufFile &file = keys.source();
    if (Expected<double> number = file.number(key)) {
      for (ActivationTerms &terms : config.activationTerms)
        terms[term] = static_cast<float>(*number);
      continue;
    }
    Expected<std::vector<float>> numbers = file.floats(key, layers);
    keys.adopt(numbers.status());
    for (size_t layer = 0; numbers && layer < config.activationTerms.size(); ++layer)
      config.activationTerms[layer][term] = (*numbers)[layer];
  }
}

static float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

// The numbers of each layer as the graph reads them, in one tensor: behind their softplus, and beta in alpha_n.
static Status addTerms(Model &model) {
  ModelConfig &config = model.config;
  Checkpoint &checkpoint = model.checkpoint;
  if (config.hasActivationTensors)
    config.activationTerms.resize(static_cast<size_t>(config.numHiddenLayers));
  for (size_t layer = 0; layer < config.activationTerms.size(); ++layer) {
    std::string name = "model.layers." + std::to_string(layer) + ".mlp.act_fn.";
    ActivationTerms &terms = config.activationTerms[layer];
    for (size_t term = 0; config.hasActivationTensors && term < terms.size(); ++term) {
      auto stored = checkpoint.tensors.extract(name + termNames[term]);
      dequantize(stored.mapped().type, checkpoint.data(stored.mapped()), 1, &terms[term]);
    }
    for (float number : terms)
      if (!std::isfinite(number))
        return errorIn(model.sourcePath, "layer " + std::to_string(layer) + " has a number of its activation that is " +
                                             std::to_string(number) + ", expected finite ones");
    terms = {softplus(terms[0]), terms[2] + softplus(terms[1]), terms[2], terms[3]};
    HEDDLE_RETURN_IF_ERROR(addTensor(
        model, name + "terms", TensorInfo{TensorType::F32, {1, int64_t(terms.size())}}, "numbers of activations",
        [&](std::vector<char> &row, int64_t) { memcpy(row.data(), terms.data(), row.size()); }));
  }
  config.hasActivationTensors = false;
  return Status();
}

static void buildApertus(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "attention_layernorm")));
    TensorHandle up = b.linear(b.rmsNorm(x, "feedforward_layernorm"), "mlp.up_proj");
    up = b.config().activationTerms.empty() ? b.activation(up) : b.xielu(up, "mlp.act_fn.terms");
    return b.add(x, b.linear(up, "mlp.down_proj"));
  });
}

static constexpr Family describeApertus() {
  Family row;
  row.modelType = "apertus";
  row.gguf = "apertus";
  row.rules = {embeddingRules, normRules, attentionRules, queryKeyNormRules, ungatedFeedForwardRules, activationRules};
  row.defaults.context = 65536;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 12e6;
  row.activationKey = nullptr;
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufTerms;
  row.addTensors = addTerms;
  row.build = buildApertus;
  return row;
}
const Family family::apertus = describeApertus();

} // namespace heddle
