// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/families/Towers.h"

#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

JsonObject towerOf(JsonObject &object, const std::string &part) {
  std::string older = part + "_dict";
  return object.object((object.has(older.c_str()) ? older : part).c_str());
}

void adoptTower(JsonObject &object, JsonObject &tower, const ModelConfig &config) {
  refuseUnread(tower, config);
  object.adopt(tower);
}

int64_t readBounded(JsonObject &tower, const char *key, int64_t fallback, int64_t high) {
  return tower.bounded(key, tower.integer(key).value_or(fallback), 1, high);
}

int64_t readPatchSide(JsonObject &tower, const char *key, int64_t fallback) {
  std::vector<int64_t> sides = tower.integers(key);
  if (sides.size() > 2 || (sides.size() == 2 && sides[0] != sides[1]))
    tower.unsupported(key, "has sides that differ, which is not supported: expected a square");
  return tower.bounded(key, sides.empty() ? fallback : sides[0], 1, 1 << 10);
}

void readPlaceRotation(JsonObject &tower, ModelConfig &config) {
  bool isOlder = tower.has("rope_scaling") && !tower.isNull("rope_scaling");
  JsonObject rope = tower.object(isOlder ? "rope_scaling" : "rope_parameters");
  config.seen.theta = rope.number("rope_theta").value_or(tower.number("rope_theta").value_or(10000.0));
  if (!(config.seen.theta > 0) || !std::isfinite(config.seen.theta))
    tower.fail("rope_theta", "is not a number above 0");
  if (std::string type = rope.string("rope_type").value_or("axial"); type != "axial" && type != "default")
    tower.unsupported("rope_parameters", "has rope_type '" + printable(type, 64) + "', expected axial");
  tower.adopt(rope);
}

Activation readTowerActivation(JsonObject &tower, const TowerDefaults &defaults) {
  std::string name = tower.string("hidden_act").value_or(defaults.activation);
  std::optional<Activation> activation = activationNamed(name);
  if (!activation)
    tower.fail("hidden_act", "is '" + printable(name, 64) + "', an unknown activation; known: " + knownActivations());
  return activation.value_or(Activation::QuickGelu);
}

void readTowerStack(JsonObject &tower, EncoderConfig &stack, const TowerDefaults &defaults) {
  stack.hiddenSize = readBounded(tower, "hidden_size", defaults.hiddenSize, 1 << 20);
  stack.intermediateSize = readBounded(tower, "intermediate_size", defaults.intermediateSize, 1 << 24);
  stack.numLayers = readBounded(tower, "num_hidden_layers", defaults.numLayers, 4096);
  stack.numHeads = readBounded(tower, "num_attention_heads", defaults.numHeads, 1 << 16);
  stack.activation = readTowerActivation(tower, defaults);
  stack.normEps = tower.number("layer_norm_eps").value_or(defaults.normEps);
  if (!(stack.normEps > 0 && stack.normEps < 1))
    tower.fail("layer_norm_eps", "is not above 0 and below 1");
  if (tower.status().isOk() && stack.hiddenSize % stack.numHeads != 0)
    tower.fail("hidden_size", "(" + std::to_string(stack.hiddenSize) + ") must be a multiple of num_attention_heads (" +
                                  std::to_string(stack.numHeads) + ")");
}

void adoptStack(ModelConfig &config, const EncoderConfig &stack) {
  config.hiddenSize = stack.hiddenSize;
  config.intermediateSize = stack.intermediateSize;
  config.numHiddenLayers = stack.numLayers;
  config.numHeads = config.numKvHeads = stack.numHeads;
  config.headDim = stack.hiddenSize / std::max<int64_t>(stack.numHeads, 1);
  config.normEps = stack.normEps;
}

void readTextTower(JsonObject &text, ModelConfig &config, const TowerDefaults &defaults) {
  EncoderConfig stack;
  readTowerStack(text, stack, defaults);
  adoptStack(config, stack);
  config.vocabSize = readBounded(text, "vocab_size", defaults.vocabSize, 1 << 24);
  config.contextLength = readBounded(text, "max_position_embeddings", defaults.context, 1 << 20);
}

void readVisionTower(JsonObject &vision, ModelConfig &config, const TowerDefaults &defaults) {
  readTowerStack(vision, config.encoder, defaults);
  readImage(vision, config.image, defaults.patch);
  config.image.specialTokens = defaults.specialTokens;
  if (vision.status().isOk())
    config.encoder.contextLength = config.image.tokens();
}

void readVisionAlone(JsonObject &vision, ModelConfig &config, const TowerDefaults &defaults) {
  readVisionTower(vision, config, defaults);
  adoptVision(config);
}

void adoptVision(ModelConfig &config) {
  adoptStack(config, config.encoder);
  config.vocabSize = 1; // there are no words
  config.contextLength = std::max<int64_t>(config.encoder.contextLength, 1);
}

// A layer of either tower.
static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x, int64_t heads, double eps, Activation activation,
                               const AttentionTerms &terms) {
  TensorHandle normed = b.layerNorm(x, "layer_norm1", eps);
  auto split = [&](const char *name) {
    return b.splitHeads(b.linear(normed, std::string("self_attn.") + name), heads);
  };
  TensorHandle attended = b.attention(split("q_proj"), split("k_proj"), split("v_proj"), terms);
  x = b.add(b.linear(b.mergeHeads(attended), "self_attn.out_proj"), x);
  TensorHandle wide = b.activation(b.linear(b.layerNorm(x, "layer_norm2", eps), "mlp.fc1"), activation);
  return b.add(b.linear(wide, "mlp.fc2"), x);
}

TensorHandle textStates(ModelBuilder &b, bool causal) {
  const ModelConfig &c = b.config();
  TensorHandle x = b.embedTokens("text_model.embeddings.token_embedding.weight");
  x = b.addTable(x, "text_model.embeddings.position_embedding.weight");
  AttentionTerms terms;
  terms.causal = causal;
  terms.bias = b.keyMask();
  for (int64_t i = 0; i < c.numHiddenLayers; ++i)
    x = b.layer(i, "text_model.encoder.layers." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x, c.numHeads, c.normEps, c.activation, terms); });
  return b.layerNorm(x, "text_model.final_layer_norm", c.normEps);
}

std::vector<TensorHandle> visionHiddenStates(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms) {
  const EncoderConfig &stack = b.config().encoder;
  std::vector<TensorHandle> states = {x};
  for (int64_t i = 0; i < stack.numLayers; ++i)
    states.push_back(
        b.layer(i, "vision_model.encoder.layers." + std::to_string(i) + ".", states.back(), [&](TensorHandle x) {
          return buildLayer(b, x, stack.numHeads, stack.normEps, stack.activation, terms);
        }));
  return states;
}

void finishTower(ModelBuilder &b, const std::string &tower, TensorHandle states, TensorHandle projected,
                 const char *embeds) {
  b.output(embeds, b.unitRows(projected));
  b.output(tower + "_model_output.last_hidden_state", states);
  b.output(tower + "_model_output.pooler_output", projected);
}

void buildComparison(ModelBuilder &b, const std::string &bias) {
  b.beginEntry("similarity", "");
  TensorHandle texts = b.rows("text_embeds", "texts", b.config().projectionSize);
  TensorHandle images = b.rows("image_embeds", "images", b.config().projectionSize);
  b.output("logits_per_image", b.similarities(images, texts, "logit_scale", bias));
  b.output("logits_per_text", b.similarities(texts, images, "logit_scale", bias));
}

} // namespace heddle
