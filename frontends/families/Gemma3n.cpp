// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gemma 3n text. A token is several streams of hidden_size (AltUp, arXiv:2301.13310): a layer predicts all of them by a mixture whose coefficients
// the active one gives, computes attention and feed-forward of the active one, and corrects all by what that changed. Beside attention there is a
// residual of low rank (LAuReL, arXiv:2411.07501); each layer gets an embedding of its own for each token; gates of the first layers keep what lies far
// above their mean; the last layers attend to keys and values of earlier ones. What GGUF has no keys for is that of the published models.

#include "frontends/families/Families.h"
#include "frontends/families/GemmaLayers.h"

#include <algorithm>
#include <cmath>

namespace heddle {

static constexpr TensorRule streamRules[] = {
    {"model.altup_projections.@.weight", "altup_proj.weight", ConfigDim::Hidden, ConfigDim::Hidden, When::Always,
     StoredOrder::Plain, ConfigDim::OtherStreams},
    {"model.altup_unembed_projections.@.weight", "altup_unembd_proj.weight", ConfigDim::Hidden, ConfigDim::Hidden,
     When::Always, StoredOrder::Plain, ConfigDim::OtherStreams},
    {"model.layers.#.altup.router_norm.weight", "blk.#.altup_router_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.altup.modality_router.weight", "blk.#.altup_router.weight", ConfigDim::Streams, ConfigDim::Hidden},
    {"model.layers.#.altup.prediction_coefs.weight", "blk.#.altup_predict_coef.weight", ConfigDim::StreamPairs,
     ConfigDim::Streams},
    {"model.layers.#.altup.correction_coefs.weight", "blk.#.altup_correct_coef.weight", ConfigDim::Streams,
     ConfigDim::Streams},
    {"model.layers.#.altup.correct_output_scale", "blk.#.altup_correct_scale.weight", ConfigDim::Hidden},
    {"model.layers.#.laurel.linear_left.weight", "blk.#.laurel_l.weight", ConfigDim::LaurelRank, ConfigDim::Hidden},
    {"model.layers.#.laurel.linear_right.weight", "blk.#.laurel_r.weight", ConfigDim::Hidden, ConfigDim::LaurelRank},
    {"model.layers.#.laurel.post_laurel_norm.weight", "blk.#.laurel_post_norm.weight", ConfigDim::Hidden},
};

static constexpr int64_t mostStreams = 64;

// intermediate_size may name that of each layer.
static void readSizes(JsonObject &object, ModelConfig &config) {
  const ConfigDefaults &defaults = config.family->defaults;
  std::vector<int64_t> widths = object.integers("intermediate_size");
  config.intermediateSize = widths.empty() ? defaults.intermediateSize : widths.front();
  if (widths.size() > 1 && widths.size() != static_cast<size_t>(config.numHiddenLayers))
    object.fail("intermediate_size", "has " + std::to_string(widths.size()) + " entries, expected num_hidden_layers (" +
                                         std::to_string(config.numHiddenLayers) + ")");
  config.normEps = object.number("rms_norm_eps").value_or(defaults.normEps);
  config.numKvHeads = object.integer("num_key_value_heads").value_or(defaults.numKvHeads);
  config.headDim = object.integer("head_dim").value_or(defaults.headDim);
  checkEvenHeads(object, config);
  for (int64_t width : widths) {
    if (width < 1 || width > 1 << 24)
      return object.fail("intermediate_size", "holds " + std::to_string(width) + ", expected 1 to 2^24");
    config.layerShapes.push_back({config.numKvHeads, config.headDim, width});
  }
  if (std::all_of(widths.begin(), widths.end(), [&](int64_t width) { return width == config.intermediateSize; }))
    config.layerShapes.clear();
}

// How many standard deviations above its mean a normal variable is with probability 1 - share.
static double deviationsAbove(double share) {
  double low = -40.0, high = 40.0;
  for (int step = 0; step < 200; ++step) {
    double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

static void readSparsity(JsonObject &object, ModelConfig &config) {
  constexpr int64_t sparseLayers = 10; // the first ones, of a model that says nothing and has more
  size_t layers = static_cast<size_t>(config.numHiddenLayers);
  std::vector<double> shares = object.numbers("activation_sparsity_pattern");
  if (!object.has("activation_sparsity_pattern") || object.isNull("activation_sparsity_pattern")) {
    shares.assign(layers, 0.0);
    std::fill_n(shares.begin(), config.numHiddenLayers > sparseLayers ? sparseLayers : 0, 0.95);
  }
  if (shares.size() != layers)
    object.fail("activation_sparsity_pattern", "has " + std::to_string(shares.size()) +
                                                   " entries, expected num_hidden_layers (" + std::to_string(layers) +
                                                   ")");
  for (double share : shares) {
    if (!(share < 1.0))
      return object.fail("activation_sparsity_pattern",
                         "holds " + std::to_string(share) + ", expected numbers below 1");
    // The reference keeps a share as f32.
    config.gateCutoffs.push_back(share > 0.0 ? std::optional<double>(deviationsAbove(double(float(share))))
                                             : std::nullopt);
  }
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  config.attentionScale = 1.0;
  config.finalSoftcap = readSoftcap(object, "final_logit_softcapping", config.family->defaults.finalSoftcap);
  StreamConfig &streams = config.streams;
  streams.count = readWithin(object, "altup_num_inputs", 4, 1, mostStreams);
  streams.active = readWithin(object, "altup_active_idx", 0, 0, streams.count - 1);
  streams.scalesCorrected = object.boolean("altup_correct_scale").value_or(true);
  streams.laurelRank = readWithin(object, "laurel_rank", 64, 1, 1 << 16);
  config.layerInputs.vocabSize = readWithin(object, "vocab_size_per_layer_input", 262144, 1, 1 << 24);
  config.layerInputs.size = readWithin(object, "hidden_size_per_layer_input", 256, 1, 1 << 12);
  readSharedKeys(object, config, "num_kv_shared_layers", 15);
  readSparsity(object, config);
}

constexpr int64_t publishedSparseLayers = 10, publishedKeyLayers = 20;
constexpr double publishedCutoff = 1.6448533535003662; // of a share of 0.95

// Cutoffs are in the file, -infinity for none.
static void readGgufSparsity(GgufKeys &keys, ModelConfig &config, const GgufCount &layers) {
  std::vector<float> cutoffs(static_cast<size_t>(layers.number), -INFINITY);
  std::fill_n(cutoffs.begin(), std::min(layers.number, publishedSparseLayers), publishedCutoff);
  const char *key = "activation_sparsity_scale";
  if (keys.has(key)) {
    Expected<std::vector<float>> stored = keys.source().floats(keys.full(key), layers);
    keys.adopt(stored.status());
    if (stored)
      cutoffs = *stored;
  }
  for (float cutoff : cutoffs) {
    if (!(cutoff < INFINITY))
      return keys.fail(keys.full(key) + " holds " + std::to_string(cutoff) + ", expected numbers, or -inf for none");
    config.gateCutoffs.push_back(cutoff > -INFINITY ? std::optional<double>(cutoff) : std::nullopt);
  }
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  const Checkpoint &tensors = keys.source().tensors();
  GgufCount layers{config.numHiddenLayers, "layers", keys.full("block_count")};
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  config.attentionScale = config.attentionScale ? config.attentionScale : 1.0;
  RopeConfig local; // never scaled
  local.theta = keys.number("rope.freq_base_swa", 10000.0);
  local.rotaryDim = config.headDim;
  config.ropes.push_back(local);
  rotateWindowsApart(config);
  StreamConfig &streams = config.streams;
  streams.count = readWithin(keys, "altup.num_inputs", 4, 1, mostStreams);
  streams.active = readWithin(keys, "altup.active_idx", 0, 0, std::max<int64_t>(1, streams.count) - 1);
  streams.laurelRank = rowsOf(tensors, "blk.0.laurel_l.weight");
  config.layerInputs.vocabSize = rowsOf(tensors, "per_layer_token_embd.weight");
  config.layerInputs.size = readWithin(keys, "embedding_length_per_layer_input", 256, 1, 1 << 12);
  int64_t fewer = std::max<int64_t>(0, config.numHiddenLayers - publishedKeyLayers);
  readSharedKeys(keys, config, "attention.shared_kv_layers", fewer);
  if (!keys.status().isOk())
    return;
  readGgufSparsity(keys, config, layers);
}

// What a stream says of how the streams mix: (batch, sequence, number of streams).
static TensorHandle routing(ModelBuilder &b, TensorHandle x) {
  TensorHandle normed = b.scale(b.rmsNorm(x, "altup.router_norm"), 1.0 / static_cast<double>(b.config().hiddenSize));
  return b.activation(b.linear(normed, "altup.modality_router"), Activation::Tanh);
}

static LayerValues predict(ModelBuilder &b, const LayerValues &streams) {
  const StreamConfig &c = b.config().streams;
  TensorHandle weights = b.linear(routing(b, streams[c.active]), "altup.prediction_coefs");
  LayerValues predicted;
  for (int64_t i = 0; i < c.count; ++i)
    predicted.push_back(b.add(streams[i], b.weightedSum(streams, weights, i * c.count)));
  return predicted;
}

static LayerValues correct(ModelBuilder &b, const LayerValues &predicted, TensorHandle activated) {
  const StreamConfig &c = b.config().streams;
  TensorHandle weights = b.linear(routing(b, activated), "altup.correction_coefs");
  TensorHandle innovation = b.add(activated, b.scale(predicted[c.active], -1.0));
  LayerValues corrected;
  for (int64_t i = 0; i < c.count; ++i)
    corrected.push_back(b.add(b.add(predicted[i], innovation), b.weightedSum({innovation}, weights, i)));
  return corrected;
}

static TensorHandle feedForward(ModelBuilder &b, int64_t layer, TensorHandle x) {
  TensorHandle gate = b.linear(x, "mlp.gate_proj");
  if (std::optional<double> cutoff = b.config().gateCutoffs[layer])
    gate = b.aboveCutoff(gate, *cutoff);
  return b.linear(b.glu(gate, b.linear(x, "mlp.up_proj")), "mlp.down_proj");
}

// What attention and feed-forward make of the active stream.
static TensorHandle activate(ModelBuilder &b, int64_t layer, TensorHandle x, LayerValues &heads) {
  TensorHandle normed = b.rmsNorm(x, "input_layernorm");
  TensorHandle narrow = b.linear(b.linear(normed, "laurel.linear_left"), "laurel.linear_right");
  TensorHandle laurel = b.add(normed, b.rmsNorm(narrow, "laurel.post_laurel_norm"));
  x = b.add(x, b.rmsNorm(keySharingAttention(b, layer, normed, heads), "post_attention_layernorm"));
  x = b.scale(b.add(x, laurel), std::sqrt(0.5));
  TensorHandle fed = feedForward(b, layer, b.rmsNorm(x, "pre_feedforward_layernorm"));
  return b.add(x, b.rmsNorm(fed, "post_feedforward_layernorm"));
}

static LayerValues layer3n(ModelBuilder &b, int64_t layer, const LayerValues &streams, TensorHandle layerInput,
                           LayerValues &heads) {
  const StreamConfig &c = b.config().streams;
  LayerValues predicted = predict(b, streams);
  LayerValues corrected = correct(b, predicted, activate(b, layer, predicted[c.active], heads));
  TensorHandle active = corrected[c.active];
  if (c.scalesCorrected)
    active = b.scaleColumns(active, "altup.correct_output_scale");
  TensorHandle given = ofLayerInput(b, active, layerInput);
  for (int64_t i = 1; i < c.count; ++i)
    corrected[i] = b.add(corrected[i], given);
  return corrected;
}

static constexpr double leastMeanSquare = 1e-5;

static void build(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle embedded = b.embedTokens(c.family->embedding);
  LayerValues inputs = layerInputs(b, embedded), streams = {embedded};
  for (int64_t i = 0; i + 1 < c.streams.count; ++i) {
    TensorHandle other = b.linear(embedded, "model.altup_projections." + std::to_string(i));
    streams.push_back(b.withMagnitudeOf(other, embedded, leastMeanSquare));
  }
  streams = keySharingLayers(b, streams, inputs, [&](int64_t layer, const LayerValues &values, LayerValues &heads) {
    return layer3n(b, layer, LayerValues(values.begin(), values.end() - 1), values.back(), heads);
  });
  // A function of its own, so that what begins the logits is the head.
  TensorHandle x = b.layer(c.numHiddenLayers, "model.", streams, [&](const LayerValues &streams) {
    TensorHandle sum = streams[0];
    for (size_t i = 1; i < streams.size(); ++i) {
      TensorHandle other = b.linear(streams[i], "altup_unembed_projections." + std::to_string(i - 1));
      sum = b.add(sum, b.withMagnitudeOf(other, streams[0], leastMeanSquare));
    }
    return LayerValues{b.rmsNorm(b.scale(sum, 1.0 / static_cast<double>(streams.size())), "norm")};
  })[0];
  finishDecoder(b, x);
}

static constexpr Family describeGemma3n() {
  Family row = describeKeySharing("gemma3n_text", "gemma3n");
  row.rules = {embeddingRules,   attentionNormRules, keySharingAttentionRules, sandwichNormRules,
               feedForwardRules, streamRules,        layerInputRules};
  row.defaults.vocabSize = 262400;
  row.defaults.hiddenSize = 2048;
  row.defaults.intermediateSize = 16384;
  row.defaults.numLayers = 35;
  row.defaults.numKvHeads = 2;
  row.defaults.context = 32768;
  row.defaults.finalSoftcap = 30.0;
  row.windows.fullEvery = 5;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRopes = readGlobalAndLocalRopes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::gemma3nText = describeGemma3n();

} // namespace heddle
