// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bamba (IBM 2024): some layers attend as Llama's do, half of each head rotating, and the others have Mamba 2's mixer in the place of attention.
// Falcon-H1 (TII 2025, arXiv:2507.22448): each layer has both side by side, and multipliers of what its parts read and give; in GGUF files these are in
// the weights.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>
#include <cstring>

namespace heddle {

static constexpr TensorRule modelRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.final_layernorm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

// The norm has no "weight" behind its name in GGUF files.
static constexpr TensorRule blockRules[] = {
    {"model.layers.#.pre_ff_layernorm.weight", "blk.#.ffn_norm", ConfigDim::Hidden},
    {"model.layers.#.feed_forward.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden},
    {"model.layers.#.feed_forward.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.feed_forward.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate},
    {"model.layers.#.feed_forward.gate_proj.bias", "blk.#.ffn_gate.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::MlpBias},
    {"model.layers.#.feed_forward.up_proj.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::MlpBias},
    {"model.layers.#.feed_forward.down_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None,
     When::MlpBias},
};

static constexpr KeyName keyNames[] = {HEDDLE_MAMBA_KEY_NAMES};

static void readRest(JsonObject &object, ModelConfig &config) {
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  for (int64_t layer : object.integers("attn_layer_indices"))
    if (layer >= 0 && layer < config.numHiddenLayers)
      config.recurrent.layers[static_cast<size_t>(layer)] = false;
  readMamba2(object, config);
}

static void build(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, b.config().isRecurrent(layer) ? mamba2Mixer(b, normed, "mamba.") : selfAttention(b, normed));
    return b.add(x, feedForward(b, b.rmsNorm(x, "pre_ff_layernorm")));
  });
}

static constexpr Family describeBamba() {
  Family row;
  row.modelType = "bamba";
  row.rules = {modelRules, attentionNormRules, attentionRules, blockRules, mambaRules};
  row.keyNames = keyNames;
  row.defaults.vocabSize = 128000;
  row.defaults.numHeads = 32;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 262144;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.5;
  row.finalNorm = "model.final_layernorm";
  row.feedForward.block = "feed_forward.";
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.rope.partial = true;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::bamba = describeBamba();

static double readMultiplier(JsonObject &object, const char *key) {
  double number = object.number(key).value_or(1.0);
  if (!(number > 0.0 && std::isfinite(number)))
    object.fail(key, "is " + std::to_string(number) + ", expected a positive number");
  return number;
}

// A list of so many; all 1 without the key.
static std::vector<double> readMultipliers(JsonObject &object, const char *key, size_t count) {
  std::vector<double> numbers = object.numbers(key);
  if (!object.has(key))
    return std::vector<double>(count, 1.0);
  if (numbers.size() != count)
    object.fail(key, "has " + std::to_string(numbers.size()) + " entries, expected " + std::to_string(count));
  for (double number : numbers)
    if (!(number > 0.0 && std::isfinite(number)))
      object.fail(key, "holds " + std::to_string(number) + ", expected positive numbers");
  numbers.resize(count, 1.0);
  return numbers;
}

static void readScales(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = readMultiplier(object, "embedding_multiplier");
  config.logitScale = readMultiplier(object, "lm_head_multiplier");
  // Of keys, and so of scores.
  config.attentionScale = readMultiplier(object, "key_multiplier") / std::sqrt(double(config.headDim));
  PartScales &scales = config.partScales;
  scales.attentionInput = readMultiplier(object, "attention_in_multiplier");
  scales.attentionOutput = readMultiplier(object, "attention_out_multiplier");
  scales.stateInput = readMultiplier(object, "ssm_in_multiplier");
  scales.stateOutput = readMultiplier(object, "ssm_out_multiplier");
  std::vector<double> feedForward = readMultipliers(object, "mlp_multipliers", 2),
                      state = readMultipliers(object, "ssm_multipliers", config.recurrent.scales.size());
  scales.gate = feedForward[0];
  scales.down = feedForward[1];
  std::copy(state.begin(), state.end(), config.recurrent.scales.begin());
}

// Every layer attends and keeps a state.
static void haveBoth(ModelConfig &config) {
  config.attending.assign(config.layerWindow.size(), true);
  config.recurrent.layers = config.attending;
}

static void readFalconH1(JsonObject &object, ModelConfig &config) {
  haveBoth(config);
  Mamba2Keys keys;
  keys.width = "mamba_d_ssm";
  keys.outputBias = "projectors_bias";
  readMamba2(object, config, keys);
  bool isFirst = object.flag("mamba_norm_before_gate", true);
  config.recurrent.norm = !object.flag("mamba_rms_norm", false) ? StateNorm::None
                          : isFirst                             ? StateNorm::BeforeGate
                                                                : StateNorm::BehindGate;
  readScales(object, config);
}

static void readGgufFalconH1(GgufKeys &keys, ModelConfig &config) {
  haveBoth(config);
  readGgufMamba2(keys, config);
}

// RecurrentConfig::scales, column by column: the same numbers for all layers.
static Status addStateScales(Model &model) {
  const RecurrentConfig &state = model.config.recurrent;
  if (!state.isScaled())
    return Status();
  std::vector<float> columns;
  int64_t keys = state.numKeyHeads * state.keyDim;
  size_t part = 0;
  for (int64_t width : {state.values(), state.values(), keys, keys, state.numValueHeads})
    columns.insert(columns.end(), size_t(width), float(state.scales[part++]));
  auto nameOf = [](int64_t layer) { return "model.layers." + std::to_string(layer) + ".mamba.mup_vector"; };
  HEDDLE_RETURN_IF_ERROR(
      addTensor(model, nameOf(0), TensorInfo{TensorType::F32, {state.inputs()}}, "multipliers of states",
                [&](std::vector<char> &row, int64_t) { memcpy(row.data(), columns.data(), row.size()); }));
  for (int64_t layer = 1; layer < model.config.numHiddenLayers; ++layer)
    model.checkpoint.tensors[nameOf(layer)] = model.checkpoint.tensors[nameOf(0)];
  return Status();
}

static void buildFalconH1(ModelBuilder &b) {
  const PartScales &scales = b.config().partScales;
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    TensorHandle state = mamba2Mixer(b, b.scale(normed, scales.stateInput), "mamba.");
    TensorHandle attention = selfAttention(b, b.scale(normed, scales.attentionInput));
    x = b.add(x, b.add(b.scale(state, scales.stateOutput), b.scale(attention, scales.attentionOutput)));
    normed = b.rmsNorm(x, "pre_ff_layernorm");
    TensorHandle gate = b.scale(b.linear(normed, "feed_forward.gate_proj"), scales.gate);
    TensorHandle up = b.linear(normed, "feed_forward.up_proj");
    return b.add(x, b.scale(b.linear(b.glu(gate, up), "feed_forward.down_proj"), scales.down));
  });
}

static constexpr Family describeFalconH1() {
  Family row = describeBamba();
  row.modelType = "falcon_h1";
  row.gguf = "falcon-h1";
  row.defaults.context = 8192;
  row.defaults.partialRotary = 1.0;
  row.rope.partial = false;
  row.readers.huggingFaceRest = readFalconH1;
  row.readers.ggufRest = readGgufFalconH1;
  row.addTensors = addStateScales;
  row.build = buildFalconH1;
  return row;
}
const Family family::falconH1 = describeFalconH1();

} // namespace heddle
