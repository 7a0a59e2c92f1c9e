// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CLIP (Radford et al. 2021, arXiv:2103.00020): a tower that reads texts and one that sees images, whose unit vectors are compared. Texts attend
// causally, and their end stands for them; a class token stands for an image. The text tower is what the config says of the model, the
// vision tower its second stack.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/families/Images.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// A layer of a tower of `width` and `wide`, those of its feed-forward block.
#define LAYER_RULES(layer, width, wide)                                                                                \
  HEDDLE_NORM_RULES(layer "layer_norm1", width), HEDDLE_LINEAR_RULES(layer "self_attn.q_proj", width, width),          \
      HEDDLE_LINEAR_RULES(layer "self_attn.k_proj", width, width),                                                     \
      HEDDLE_LINEAR_RULES(layer "self_attn.v_proj", width, width),                                                     \
      HEDDLE_LINEAR_RULES(layer "self_attn.out_proj", width, width), HEDDLE_NORM_RULES(layer "layer_norm2", width),    \
      HEDDLE_LINEAR_RULES(layer "mlp.fc1", wide, width), HEDDLE_LINEAR_RULES(layer "mlp.fc2", width, wide)

static constexpr TensorRule textRules[] = {
    {"text_model.embeddings.token_embedding.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"text_model.embeddings.position_embedding.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    LAYER_RULES("text_model.encoder.layers.#.", Hidden, Intermediate),
    HEDDLE_NORM_RULES("text_model.final_layer_norm", Hidden),
    {"text_projection.weight", nullptr, ConfigDim::Projection, ConfigDim::Hidden},
};
static constexpr TensorRule visionRules[] = {
    {"vision_model.embeddings.class_embedding", nullptr, ConfigDim::EncoderHidden},
    {"vision_model.embeddings.patch_embedding.weight", nullptr, ConfigDim::EncoderHidden, ConfigDim::PatchWidth,
     When::Always, StoredOrder::Flattened},
    {"vision_model.embeddings.position_embedding.weight", nullptr, ConfigDim::EncoderPositions,
     ConfigDim::EncoderHidden},
    HEDDLE_NORM_RULES("vision_model.pre_layrnorm", EncoderHidden), // as the files spell it
    LAYER_RULES("vision_model.encoder.layers.%.", EncoderHidden, EncoderIntermediate),
    HEDDLE_NORM_RULES("vision_model.post_layernorm", EncoderHidden),
    {"visual_projection.weight", nullptr, ConfigDim::Projection, ConfigDim::EncoderHidden},
    {"logit_scale", nullptr, ConfigDim::One, ConfigDim::None, When::Always, StoredOrder::Flattened},
};

// The part of a tower. What text_config_dict and vision_config_dict hold, in older files, counts instead.
static JsonObject towerOf(JsonObject &object, const std::string &part) {
  std::string older = part + "_dict";
  return object.object((object.has(older.c_str()) ? older : part).c_str());
}

// The value of `key`, within a stack's limits, which bound what is allocated by it.
static int64_t readBounded(JsonObject &tower, const char *key, int64_t fallback, int64_t high) {
  int64_t value = tower.integer(key).value_or(fallback);
  if (value < 1 || value > high)
    tower.fail(key, "is " + std::to_string(value) + ", expected 1 to " + std::to_string(high));
  return value;
}

static Activation readAct(JsonObject &tower) {
  std::string name = tower.string("hidden_act").value_or("quick_gelu");
  std::optional<Activation> activation = activationNamed(name);
  if (!activation)
    tower.fail("hidden_act", "is '" + printable(name, 64) + "', an unknown activation; known: " + knownActivations());
  return activation.value_or(Activation::QuickGelu);
}

static void readStack(JsonObject &tower, EncoderConfig &stack, const EncoderConfig &defaults) {
  stack.hiddenSize = readBounded(tower, "hidden_size", defaults.hiddenSize, 1 << 20);
  stack.intermediateSize = readBounded(tower, "intermediate_size", defaults.intermediateSize, 1 << 24);
  stack.numLayers = readBounded(tower, "num_hidden_layers", defaults.numLayers, 4096);
  stack.numHeads = readBounded(tower, "num_attention_heads", defaults.numHeads, 1 << 16);
  stack.activation = readAct(tower);
  stack.normEps = tower.number("layer_norm_eps").value_or(1e-5);
  if (!(stack.normEps > 0 && stack.normEps < 1))
    tower.fail("layer_norm_eps", "is not above 0 and below 1");
  if (tower.status().isOk() && stack.hiddenSize % stack.numHeads != 0)
    tower.fail("hidden_size", "(" + std::to_string(stack.hiddenSize) + ") must be a multiple of num_attention_heads (" +
                                  std::to_string(stack.numHeads) + ")");
}

static void readText(JsonObject &text, ModelConfig &config) {
  EncoderConfig stack, defaults;
  defaults.hiddenSize = 512, defaults.intermediateSize = 2048, defaults.numLayers = 12, defaults.numHeads = 8;
  readStack(text, stack, defaults);
  config.hiddenSize = stack.hiddenSize;
  config.intermediateSize = stack.intermediateSize;
  config.numHiddenLayers = stack.numLayers;
  config.numHeads = config.numKvHeads = stack.numHeads;
  config.headDim = stack.hiddenSize / std::max<int64_t>(stack.numHeads, 1);
  config.normEps = stack.normEps;
  config.vocabSize = readBounded(text, "vocab_size", 49408, 1 << 24);
  config.contextLength = readBounded(text, "max_position_embeddings", 77, 1 << 20);
  std::vector<int64_t> ends = text.integers("eos_token_id");
  if (ends.size() > 1)
    text.unsupported("eos_token_id", "has several tokens, which is not supported: a text has one end");
  // A model whose config has this number was trained with another: its end is the largest of all ids.
  constexpr int64_t largestId = 2;
  int64_t end = ends.empty() ? 49407 : ends[0];
  if (end < 0 || end >= config.vocabSize)
    text.fail("eos_token_id", "is " + std::to_string(end) + ", expected a token below vocab_size (" +
                                  std::to_string(config.vocabSize) + ")");
  if (end != largestId)
    config.endOfText = end;
}

static void readVision(JsonObject &vision, ModelConfig &config) {
  EncoderConfig defaults;
  defaults.hiddenSize = 768, defaults.intermediateSize = 3072, defaults.numLayers = 12, defaults.numHeads = 12;
  readStack(vision, config.encoder, defaults);
  readImage(vision, config.image, /*patch=*/32);
  requireWholePatches(vision, config.image);
  config.image.specialTokens = 1;
  if (vision.status().isOk())
    config.encoder.contextLength = config.image.tokens();
}

static void readClipSizes(JsonObject &object, ModelConfig &config) {
  JsonObject text = towerOf(object, "text_config"), vision = towerOf(object, "vision_config");
  readText(text, config);
  readVision(vision, config);
  object.adopt(text);
  object.adopt(vision);
  config.projectionSize = readBounded(object, "projection_dim", 512, 1 << 20);
}

// The text tower's, which no key of the whole config says.
static void readTextActivation(JsonObject &object, ModelConfig &config) {
  JsonObject text = towerOf(object, "text_config");
  config.activation = readAct(text);
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

// What stands for a text or an image, and what it is compared by. `tower`: what transformers calls what the tower gives.
static void finishTower(ModelBuilder &b, const std::string &tower, TensorHandle states, TensorHandle projected,
                        const char *embeds) {
  b.output(embeds, b.unitRows(projected));
  b.output(tower + "_model_output.last_hidden_state", states);
  b.output(tower + "_model_output.pooler_output", projected);
}

static void buildText(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  b.beginEntry("text", "texts");
  TensorHandle x = b.embedTokens("text_model.embeddings.token_embedding.weight");
  x = b.addTable(x, "text_model.embeddings.position_embedding.weight");
  AttentionTerms terms;
  terms.causal = true;
  terms.bias = b.keyMask();
  for (int64_t i = 0; i < c.numHiddenLayers; ++i)
    x = b.layer(i, "text_model.encoder.layers." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x, c.numHeads, c.normEps, c.activation, terms); });
  x = b.layerNorm(x, "text_model.final_layer_norm", c.normEps);
  finishTower(b, "text", x, b.linear(b.endToken(x, c.endOfText), "text_projection"), "text_embeds");
}

static void buildVision(ModelBuilder &b) {
  const EncoderConfig &stack = b.config().encoder;
  b.beginEntry("image", "images");
  TensorHandle patches = b.linear(b.pixelPatches(), "vision_model.embeddings.patch_embedding");
  std::vector<int32_t> tokens; // the class token, then all patches
  tokens.reserve(size_t(stack.contextLength));
  for (int64_t token = 0; token < stack.contextLength; ++token)
    tokens.push_back(int32_t(token - 1));
  TensorHandle x = b.gatherTokens(patches, tokens, /*group=*/1, "vision_model.embeddings.class_embedding");
  x = b.addTable(x, "vision_model.embeddings.position_embedding.weight");
  x = b.layerNorm(x, "vision_model.pre_layrnorm", stack.normEps);
  for (int64_t i = 0; i < stack.numLayers; ++i)
    x = b.layer(i, "vision_model.encoder.layers." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x, stack.numHeads, stack.normEps, stack.activation, {}); });
  TensorHandle pooled = b.layerNorm(b.firstTokens(x), "vision_model.post_layernorm", stack.normEps);
  finishTower(b, "vision", x, b.linear(pooled, "visual_projection"), "image_embeds");
}

static void buildClip(ModelBuilder &b) {
  buildText(b);
  buildVision(b);
  b.beginEntry("similarity", "");
  TensorHandle texts = b.rows("text_embeds", "texts", b.config().projectionSize);
  TensorHandle images = b.rows("image_embeds", "images", b.config().projectionSize);
  b.output("logits_per_image", b.similarities(images, texts, "logit_scale"));
  b.output("logits_per_text", b.similarities(texts, images, "logit_scale"));
}

// 0, 1, …, which older releases saved.
static constexpr UnreadTensor unread[] = {{"text_model.embeddings.position_ids"},
                                          {"vision_model.embeddings.position_ids"}};

static constexpr Family describeClip() {
  Family row;
  row.modelType = "clip";
  row.isGraph = true;
  row.imageProcessor = "CLIPImageProcessor";
  row.embedding = "text_model.embeddings.token_embedding.weight";
  row.rules = {textRules, visionRules};
  row.unread = unread;
  row.activationKey = nullptr;
  row.rope.hasRope = false;
  row.readers.huggingFaceAllSizes = readClipSizes;
  row.readers.huggingFaceRest = readTextActivation;
  row.build = buildClip;
  return row;
}
const Family family::clip = describeClip();

} // namespace heddle
