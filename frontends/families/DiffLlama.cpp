// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DiffLlama: Llama with differential attention (Ye et al. 2024, arXiv:2410.05258). A head of the second half is subtracted, times a learned number, from
// that of the first half that sees the same values, which are as wide as two heads; each difference is normed.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {

// Their sums of products are powers of what multiplies the heads that are subtracted.
static constexpr TensorRule lambdaRules[] = {
    {"model.layers.#.self_attn.lambda_q1", nullptr, ConfigDim::HeadDim},
    {"model.layers.#.self_attn.lambda_k1", nullptr, ConfigDim::HeadDim},
    {"model.layers.#.self_attn.lambda_q2", nullptr, ConfigDim::HeadDim},
    {"model.layers.#.self_attn.lambda_k2", nullptr, ConfigDim::HeadDim},
};

static void readHalves(JsonObject &object, ModelConfig &config) {
  config.valueDim = 2 * config.headDim;
  config.attentionScale = 1.0 / std::sqrt(static_cast<double>(config.headDim));
  if (config.numKvHeads % 2)
    object.fail("num_key_value_heads", "is " + std::to_string(config.numKvHeads) +
                                           ", expected an even number: heads see the values of two of them");
}

static double lambdaOfDepth(int64_t layer) {
  return 0.8 - 0.6 * std::exp(-0.3 * double(layer));
}

// Of each layer what multiplies a head that is subtracted, less than 0, and a normed difference, which depends on the layer's depth alone.
static Status addLambdas(Model &model) {
  const ModelConfig &config = model.config;
  Checkpoint &checkpoint = model.checkpoint;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    std::string block = "model.layers." + std::to_string(layer) + ".self_attn.";
    size_t width = static_cast<size_t>(config.headDim);
    auto numbers = [&](const char *name) {
      auto stored = checkpoint.tensors.extract(block + name);
      std::vector<float> values(width);
      dequantize(stored.mapped().type, checkpoint.data(stored.mapped()), width, values.data());
      return values;
    };
    auto power = [&](const char *query, const char *key) {
      std::vector<float> q = numbers(query), k = numbers(key);
      double sum = 0;
      for (size_t i = 0; i < width; ++i)
        sum += double(q[i]) * k[i];
      return std::exp(sum);
    };
    double lambda = power("lambda_q1", "lambda_k1") - power("lambda_q2", "lambda_k2") + lambdaOfDepth(layer);
    if (!std::isfinite(lambda))
      return errorIn(model.sourcePath, "layer " + std::to_string(layer) + " subtracts heads times " +
                                           std::to_string(lambda) + ", expected a finite number");
    auto fill = [](double number) {
      return [number](std::vector<char> &row, int64_t) {
        float value = static_cast<float>(number);
        for (size_t at = 0; at < row.size(); at += sizeof(value))
          memcpy(&row[at], &value, sizeof(value));
      };
    };
    TensorInfo heads{TensorType::F32, {config.numHeads / 2}};
    HEDDLE_RETURN_IF_ERROR(addTensor(model, block + "lambda", heads, "what multiplies heads", fill(-lambda)));
    HEDDLE_RETURN_IF_ERROR(
        addTensor(model, block + "left", heads, "what multiplies differences", fill(1 - lambdaOfDepth(layer))));
  }
  return Status();
}

// A cache has one width, and a head of values is as wide as two: behind rows of queries and keys stand as many of zeros, and a head of keys has the values
// of its own and of the one half of all heads behind it.
static Status widenHeads(Model &model) {
  const ModelConfig &config = model.config;
  int64_t dim = config.headDim, half = config.numKvHeads / 2;
  auto withZeros = [&](int64_t row) { return row % (2 * dim) < dim ? row / (2 * dim) * dim + row % (2 * dim) : -1; };
  auto ofBothHalves = [&](int64_t row) {
    int64_t head = row / (2 * dim) % half, column = row % (2 * dim);
    return (head + column / dim * half) * dim + column % dim;
  };
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    for (const char *end : {".weight", ".bias"}) {
      std::string block = "model.layers." + std::to_string(layer) + ".self_attn.";
      if (end[1] == 'b' && !config.attentionBias)
        continue;
      int64_t rows = 2 * dim * config.numKvHeads;
      HEDDLE_RETURN_IF_ERROR(pickRows(model, block + "q_proj" + end, 2 * dim * config.numHeads, withZeros));
      HEDDLE_RETURN_IF_ERROR(pickRows(model, block + "k_proj" + end, rows, withZeros));
      HEDDLE_RETURN_IF_ERROR(pickRows(model, block + "v_proj" + end, rows, ofBothHalves));
    }
  return addLambdas(model);
}

static TensorHandle differentialAttention(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *name, int64_t count) { return b.splitHeads(b.linear(x, name), count); };
  TensorHandle q = b.rope(heads("self_attn.q_proj", c.numHeads)), k = b.rope(heads("self_attn.k_proj", c.numKvHeads));
  TensorHandle attended = b.mergeHeads(b.attention(q, k, heads("self_attn.v_proj", c.numKvHeads)));
  int64_t width = c.numHeads * c.headDim; // of half of them
  TensorHandle less = b.scaleHeads(b.columns(attended, width, 2 * width), "self_attn.lambda");
  TensorHandle differences = b.splitHeads(b.add(b.columns(attended, 0, width), less), c.numHeads / 2);
  TensorHandle normed = b.mergeHeads(b.rmsNorm(differences, "self_attn.groupnorm"));
  return b.linear(b.scaleHeads(normed, "self_attn.left"), "self_attn.o_proj");
}

static void build(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, differentialAttention(b, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describe() {
  Family row;
  row.modelType = "diffllama";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, lambdaRules, feedForwardNormRules, feedForwardRules};
  row.defaults.vocabSize = 32000;
  row.defaults.numHeads = 32;
  row.defaults.normEps = 1e-5;
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readHalves;
  row.addTensors = widenHeads;
  row.build = build;
  return row;
}
const Family family::diffLlama = describe();

} // namespace heddle
