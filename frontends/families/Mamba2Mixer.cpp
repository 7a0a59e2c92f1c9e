// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// As Python's json writes it, as transformers does, and as there is no other in JSON.
static bool isInfinity(JsonValue value) {
  return value.raw() == "Infinity" || value.find("__float__").equals("Infinity") || value.is(JsonKind::Null);
}

// Steps have no bounds but 0, which none reaches: the reference applies others to prompts alone.
static void checkStepLimit(JsonObject &object) {
  JsonValue limit = object.find("time_step_limit");
  bool isBounded = limit && !limit.is(JsonKind::Array);
  int64_t place = 0;
  for (JsonItems items(limit); items.next(); ++place) {
    double number = 0;
    isBounded |= place == 0 ? !items.value.number(number) || number > 0 : !isInfinity(items.value);
  }
  if (isBounded)
    object.unsupported("time_step_limit", "bounds steps, which is not supported; expected 0 and infinity");
}

// The width of all heads, and whether heads have it together.
static void readWidth(JsonObject &object, ModelConfig &config, const Mamba2Keys &keys) {
  RecurrentConfig &state = config.recurrent;
  std::string heads = fieldName(config, "linear_num_value_heads"), dim = fieldName(config, "linear_value_head_dim");
  state.numValueHeads = object.integer(heads.c_str()).value_or(keys.heads);
  bool isAuto = object.find(dim.c_str()).equals("auto") || (!object.has(dim.c_str()) && !keys.headDim);
  if (!keys.expand) {
    state.valueDim = object.integer(dim.c_str()).value_or(keys.headDim);
    return;
  }
  bool isStated = keys.width && !object.isNull(keys.width);
  constexpr int64_t widest = 1 << 24;
  int64_t expand = object.bounded(keys.expand, object.integer(keys.expand).value_or(2), 1, 1 << 10);
  int64_t width = isStated ? object.bounded(keys.width, object.integer(keys.width).value_or(1024), 1, widest)
                           : expand * config.hiddenSize;
  state.valueDim = state.numValueHeads > 0 ? width / state.numValueHeads : 0;
  int64_t stated = isAuto ? state.valueDim : object.integer(dim.c_str()).value_or(keys.headDim);
  if (stated != state.valueDim || state.values() != width)
    object.fail(heads.c_str(), "(" + std::to_string(state.numValueHeads) + ") by " + dim + " is not " +
                                   (isStated ? keys.width : keys.expand + std::string(" by hidden_size")) + " (" +
                                   std::to_string(width) + ")");
}

void readMamba2(JsonObject &object, ModelConfig &config, const Mamba2Keys &keys) {
  RecurrentConfig &state = config.recurrent;
  auto read = [&](const char *name, int64_t fallback) {
    return object.integer(fieldName(config, name).c_str()).value_or(fallback);
  };
  state.isLinear = state.ratesAreLogs = true;
  state.activation = config.activation;
  state.convWidth = read("conv_L_cache", 4);
  state.numKeyHeads = read("linear_num_key_heads", keys.groups);
  state.keyDim = read("linear_key_head_dim", keys.stateSize);
  state.hasBias = object.flag(keys.convBias, true);
  state.hasProjectionBias = object.flag(keys.inputBias, false);
  state.hasOutputBias = object.flag(keys.outputBias, false);
  readWidth(object, config, keys);
  checkStepLimit(object);
  if (!config.hasStates()) // whatever their sizes
    state = RecurrentConfig();
}

void readGgufStateSizes(GgufKeys &keys, ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  state.isLinear = true;
  state.convWidth = keys.integer("ssm.conv_kernel");
  state.keyDim = keys.integer("ssm.state_size");
  state.numKeyHeads = keys.integer("ssm.group_count");
  state.numValueHeads = keys.integer("ssm.time_step_rank");
  int64_t width = keys.integer("ssm.inner_size");
  if (state.numValueHeads < 1 || width % state.numValueHeads != 0)
    return keys.fail(keys.full("ssm.inner_size") + " (" + std::to_string(width) + ") must be a multiple of " +
                     keys.full("ssm.time_step_rank") + " (" + std::to_string(state.numValueHeads) + ")");
  state.valueDim = width / state.numValueHeads;
}

bool hasGgufStatePart(GgufKeys &keys, const ModelConfig &config, const char *part) {
  int64_t layer = 0;
  while (!config.isRecurrent(layer) && layer < config.numHiddenLayers)
    ++layer;
  return keys.source().tensors().find("blk." + std::to_string(layer) + "." + part) != nullptr;
}

void readGgufStateBiases(GgufKeys &keys, ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  state.hasBias = hasGgufStatePart(keys, config, "ssm_conv1d.bias");
  state.hasProjectionBias = hasGgufStatePart(keys, config, "ssm_in.bias");
  state.hasOutputBias = hasGgufStatePart(keys, config, "ssm_out.bias");
}

void readGgufMamba2(GgufKeys &keys, ModelConfig &config) {
  readGgufStateSizes(keys, config);
  readGgufStateBiases(keys, config);
  bool hasNorm = hasGgufStatePart(keys, config, "ssm_norm.weight");
  config.recurrent.norm = hasNorm ? StateNorm::BehindGate : StateNorm::None;
}

// What is read of the states, normed by groups of heads and gated in the order that the model has.
static TensorHandle gated(ModelBuilder &b, TensorHandle read, TensorHandle gates, const std::string &block) {
  const RecurrentConfig &state = b.config().recurrent;
  auto normed = [&](StateNorm place, TensorHandle x) {
    if (state.norm != place)
      return x;
    TensorHandle groups = b.mergeHeads(b.rmsNorm(b.splitHeads(x, state.numKeyHeads), block + "groups"));
    return b.scaleColumns(groups, block + "norm.weight");
  };
  return normed(StateNorm::BehindGate, b.glu(gates, normed(StateNorm::BeforeGate, read), Activation::Silu));
}

// Of each group of heads S = e^decay S + k (x) step v, read by q, plus D v.
TensorHandle mamba2Mixer(ModelBuilder &b, TensorHandle x, const std::string &block) {
  const RecurrentConfig &state = b.config().recurrent;
  int64_t values = state.values(), keys = state.numKeyHeads * state.keyDim, channels = state.channels();
  TensorHandle all = b.linear(x, block + "in_proj");
  if (state.isScaled())
    all = b.scaleColumns(all, block + "mup_vector");
  bool isFused = state.activation == Activation::Silu; // by the convolution; others act on its parts
  std::optional<Activation> fused = isFused ? std::optional(Activation::Silu) : std::nullopt;
  TensorHandle mixed = b.causalConv(b.columns(all, values, values + channels), block + "conv1d", fused);
  auto part = [&](int64_t begin, int64_t end) {
    TensorHandle x = b.columns(mixed, begin, end);
    return isFused ? x : b.activation(x, state.activation);
  };
  TensorHandle steps = b.softplus(b.columns(all, values + channels, state.inputs()), block + "dt_bias");
  TensorHandle v = part(0, values), k = part(values, values + keys), q = part(values + keys, channels);
  LinearAttentionTerms terms;
  terms.keyHeads = state.numKeyHeads;
  terms.valueHeads = state.numValueHeads;
  terms.decay = b.decay(steps, block + "A_log");
  TensorHandle read = b.linearAttention(q, k, b.scaleHeads(v, steps), terms);
  read = b.add(read, b.scaleHeads(v, block + "D"));
  return b.linear(gated(b, read, b.columns(all, 0, values), block), block + "out_proj");
}

} // namespace heddle
