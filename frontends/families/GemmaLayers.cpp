// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/GemmaLayers.h"

#include <algorithm>
#include <cmath>

namespace heddle {

int64_t readWithin(JsonObject &object, const char *key, int64_t fallback, int64_t low, int64_t high) {
  return object.bounded(key, object.integer(key).value_or(fallback), low, high);
}

int64_t readWithin(GgufKeys &keys, const char *key, int64_t fallback, int64_t low, int64_t high) {
  int64_t value = keys.integer(key, fallback);
  if (value < low || value > high)
    keys.fail(keys.full(key) + " is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
              std::to_string(high));
  return value;
}

int64_t rowsOf(const Checkpoint &tensors, const char *name) {
  const TensorInfo *tensor = tensors.find(name);
  return tensor && tensor->shape.size() == 2 ? tensor->shape[0] : 0;
}

// Gives the first layer that has no other to attend to, or -1.
static int64_t shareKeys(ModelConfig &config, int64_t shared) {
  int64_t layers = config.numHiddenLayers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    int64_t from = layer;
    if (layer >= layers - shared) {
      from = layers - shared - 1;
      while (from >= 0 && (config.layerWindow[from] > 0) != (config.layerWindow[layer] > 0))
        --from;
      if (from < 0)
        return layer;
    }
    config.keyLayers.push_back(from);
  }
  return -1;
}

static std::string noneBefore(int64_t shared, int64_t layer) {
  return "is " + std::to_string(shared) + ": no layer before the last " + std::to_string(shared) +
         " is of the kind of layer " + std::to_string(layer);
}

void readSharedKeys(JsonObject &object, ModelConfig &config, const char *key, int64_t fallback) {
  int64_t shared = readWithin(object, key, fallback, 0, config.numHiddenLayers - 1);
  if (!object.status().isOk())
    return;
  if (int64_t layer = shareKeys(config, shared); layer >= 0)
    object.fail(key, noneBefore(shared, layer));
}

void readSharedKeys(GgufKeys &keys, ModelConfig &config, const char *key, int64_t fallback) {
  int64_t shared = readWithin(keys, key, fallback, 0, config.numHiddenLayers - 1);
  if (!keys.status().isOk())
    return;
  if (int64_t layer = shareKeys(config, shared); layer >= 0)
    keys.fail(keys.full(key) + " " + noneBefore(shared, layer));
}

LayerValues layerInputs(ModelBuilder &b, TensorHandle embedded) {
  const ModelConfig &c = b.config();
  int64_t width = c.layerInputs.size;
  TensorHandle tokens = b.embedIds("model.embed_tokens_per_layer.weight", std::sqrt(static_cast<double>(width)));
  TensorHandle projected = b.scale(b.linear(embedded, "model.per_layer_model_projection"),
                                   1.0 / std::sqrt(static_cast<double>(c.hiddenSize)));
  TensorHandle normed = b.rmsNorm(b.splitHeads(projected, c.numHiddenLayers), "model.per_layer_projection_norm");
  TensorHandle all = b.add(b.mergeHeads(normed), tokens);
  LayerValues inputs;
  for (int64_t layer = 0; layer < c.numHiddenLayers; ++layer)
    inputs.push_back(b.scale(b.columns(all, layer * width, (layer + 1) * width), std::sqrt(0.5)));
  return inputs;
}

TensorHandle ofLayerInput(ModelBuilder &b, TensorHandle x, TensorHandle layerInput) {
  TensorHandle gated = b.glu(b.linear(x, "per_layer_input_gate"), layerInput);
  return b.rmsNorm(b.linear(gated, "per_layer_projection"), "post_per_layer_input_norm");
}

TensorHandle keySharingAttention(ModelBuilder &b, int64_t layer, TensorHandle x, LayerValues &heads) {
  LayerShape shape = b.config().shapeOf(layer);
  auto project = [&](const char *name, int64_t count) { return b.splitHeads(b.linear(x, name), count); };
  TensorHandle q = b.rope(b.rmsNorm(project("self_attn.q_proj", b.config().numHeads), "self_attn.q_norm"));
  if (heads.empty()) {
    TensorHandle k = project("self_attn.k_proj", shape.numKvHeads);
    TensorHandle v = shape.keysAreValues ? k : project("self_attn.v_proj", shape.numKvHeads);
    heads = {b.rope(b.rmsNorm(k, "self_attn.k_norm")), b.rmsNorm(v, "self_attn.v_norm")};
  }
  return b.linear(b.mergeHeads(b.attention(q, heads[0], heads[1])), "self_attn.o_proj");
}

LayerValues keySharingLayers(ModelBuilder &b, LayerValues values, const LayerValues &inputs,
                             const KeySharingLayer &body) {
  const ModelConfig &c = b.config();
  auto count = static_cast<ptrdiff_t>(values.size() + (inputs.empty() ? 0 : 1));
  std::vector<LayerValues> headsOf(static_cast<size_t>(c.numHiddenLayers)); // of each layer that others attend to
  for (int64_t layer = 0; layer < c.numHiddenLayers; ++layer) {
    int64_t from = c.keyLayers[layer];
    bool gives = from == layer && std::count(c.keyLayers.begin(), c.keyLayers.end(), layer) > 1;
    LayerValues taken = values;
    if (!inputs.empty())
      taken.push_back(inputs[layer]);
    if (from != layer)
      taken.insert(taken.end(), headsOf[from].begin(), headsOf[from].end());
    LayerValues given =
        b.layer(layer, "model.layers." + std::to_string(layer) + ".", taken, [&](const LayerValues &arguments) {
          LayerValues heads(arguments.begin() + count, arguments.end());
          LayerValues results = body(layer, LayerValues(arguments.begin(), arguments.begin() + count), heads);
          if (gives)
            results.insert(results.end(), heads.begin(), heads.end());
          return results;
        });
    auto rest = given.begin() + static_cast<ptrdiff_t>(values.size());
    headsOf[layer].assign(rest, given.end());
    values.assign(given.begin(), rest);
  }
  return values;
}

} // namespace heddle
