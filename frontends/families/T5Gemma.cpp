// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// T5Gemma (Zhang et al. 2025, arXiv:2504.06225): two stacks of Gemma 2's layers, of which the decoder also attends to the source; each stack has a table
// of tokens, and the decoder's makes logits. Programs are made for texts that fit into a window, where no layer sees less than all.

#include "frontends/families/Families.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

#define VECTOR(name) {name ".weight", nullptr, ConfigDim::Hidden}
#define MATRIX(name, out, in) {name ".weight", nullptr, ConfigDim::out, ConfigDim::in}
#define BLOCK_RULES(block)                                                                                             \
  MATRIX(block ".q_proj", Queries, Hidden), MATRIX(block ".k_proj", KeyValues, Hidden),                                \
      MATRIX(block ".v_proj", KeyValues, Hidden), MATRIX(block ".o_proj", Hidden, Queries)
#define LAYER_RULES(layer, width)                                                                                      \
  VECTOR(layer "pre_self_attn_layernorm"), BLOCK_RULES(layer "self_attn"), VECTOR(layer "post_self_attn_layernorm"),   \
      VECTOR(layer "pre_feedforward_layernorm"), MATRIX(layer "mlp.gate_proj", width, Hidden),                         \
      MATRIX(layer "mlp.up_proj", width, Hidden), MATRIX(layer "mlp.down_proj", Hidden, width),                        \
      VECTOR(layer "post_feedforward_layernorm")

static constexpr TensorRule tensorRules[] = {
    MATRIX("model.encoder.embed_tokens", Vocab, Hidden),
    MATRIX("model.decoder.embed_tokens", Vocab, Hidden),
    {"lm_head.out_proj.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    LAYER_RULES("model.encoder.layers.%.", EncoderIntermediate),
    VECTOR("model.encoder.norm"),
    LAYER_RULES("model.decoder.layers.#.", Intermediate),
    VECTOR("model.decoder.layers.#.pre_cross_attn_layernorm"),
    BLOCK_RULES("model.decoder.layers.#.cross_attn"),
    VECTOR("model.decoder.layers.#.post_cross_attn_layernorm"),
    VECTOR("model.decoder.norm"),
};

// What either stack says of itself.
struct StackConfig {
  int64_t vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize, context;
  double normEps, scalar, softcap;
};

static StackConfig readStack(JsonObject &part) {
  auto size = [&](const char *key, int64_t absent) { return part.integer(key).value_or(absent); };
  StackConfig stack{size("vocab_size", 256000),
                    size("hidden_size", 2304),
                    size("num_hidden_layers", 26),
                    size("num_attention_heads", 8),
                    size("num_key_value_heads", 4),
                    size("head_dim", 256),
                    size("intermediate_size", 9216),
                    size("max_position_embeddings", 8192),
                    part.number("rms_norm_eps").value_or(1e-6),
                    part.number("query_pre_attn_scalar").value_or(256.0),
                    readSoftcap(part, "attn_logit_softcapping", 50.0)};
  std::vector<std::string> types = part.strings("layer_types");
  bool slides = !part.has("layer_types");
  for (const std::string &type : types) {
    slides |= type == "sliding_attention";
    if (type != "sliding_attention" && type != "full_attention")
      part.fail("layer_types", "holds '" + printable(type, 64) + "', expected full_attention or sliding_attention");
  }
  const char *window = "sliding_window";
  if (slides && !part.isNull(window))
    stack.context = std::min(stack.context, part.bounded(window, size(window, 4096), 1, 1 << 30));
  if (part.boolean("attention_bias").value_or(false))
    part.unsupported("attention_bias", "is true, which is not supported; expected false");
  return stack;
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  JsonObject parts[] = {object.object("encoder"), object.object("decoder")};
  StackConfig encoder = readStack(parts[0]), decoder = readStack(parts[1]);
  auto same = [&](const char *key, double ofEncoder, double ofDecoder) {
    if (ofEncoder != ofDecoder)
      parts[0].unsupported(key, "is not that of the decoder, which is not supported");
  };
  same("vocab_size", double(encoder.vocabSize), double(decoder.vocabSize));
  same("hidden_size", double(encoder.hiddenSize), double(decoder.hiddenSize));
  same("num_attention_heads", double(encoder.heads), double(decoder.heads));
  same("num_key_value_heads", double(encoder.kvHeads), double(decoder.kvHeads));
  same("head_dim", double(encoder.headDim), double(decoder.headDim));
  same("rms_norm_eps", encoder.normEps, decoder.normEps);
  same("query_pre_attn_scalar", encoder.scalar, decoder.scalar);
  same("attn_logit_softcapping", encoder.softcap, decoder.softcap);
  if (encoder.layers > decoder.layers)
    parts[0].unsupported("num_hidden_layers", "is more than that of the decoder, which is not supported");
  config.vocabSize = decoder.vocabSize;
  config.hiddenSize = decoder.hiddenSize;
  config.numHiddenLayers = decoder.layers;
  config.numHeads = decoder.heads;
  config.numKvHeads = decoder.kvHeads;
  config.headDim = decoder.headDim;
  config.intermediateSize = decoder.intermediateSize;
  config.contextLength = decoder.context;
  config.normEps = decoder.normEps;
  config.attentionSoftcap = decoder.softcap;
  config.attentionScale = decoder.scalar > 0 ? 1.0 / std::sqrt(decoder.scalar) : -1.0;
  config.encoder.numLayers = encoder.layers;
  config.encoder.numHeads = encoder.heads;
  config.encoder.intermediateSize = encoder.intermediateSize;
  config.encoder.contextLength = encoder.context;
  for (const JsonObject &part : parts)
    object.adopt(part);
}

static void readRopesOf(JsonObject &object, ModelConfig &config) {
  for (const char *name : {"decoder", "encoder"}) {
    JsonObject part = object.object(name), rope = part.object(ropeKey(part));
    RopeConfig read = readRope(rope, part, config, part.number("rope_theta").value_or(10000.0));
    if (config.ropes.empty())
      config.ropes = {read};
    if (read.theta != config.ropes[0].theta)
      part.unsupported(ropeKey(part), "is not that of the decoder, which is not supported");
    if (read.scaling != RopeScalingKind::None)
      part.unsupported(ropeKey(part), "is scaled, which is not supported for t5gemma; expected rope_type default");
    part.adopt(rope);
    object.adopt(part);
  }
}

static void readRest(JsonObject &object, ModelConfig &config) {
  if (!object.boolean("is_encoder_decoder").value_or(true))
    object.unsupported("is_encoder_decoder",
                       "is false, which is not supported: the model is compiled with its encoder");
  config.embeddingScale = std::sqrt(double(config.hiddenSize));
  config.tokenTypes = 1;
  std::string activations[2];
  for (bool isDecoder : {false, true}) {
    JsonObject part = object.object(isDecoder ? "decoder" : "encoder");
    activations[isDecoder] = part.string("hidden_activation").value_or("gelu_pytorch_tanh");
    std::optional<Activation> known = activationNamed(activations[isDecoder]);
    if (!known)
      part.fail("hidden_activation", "is '" + printable(activations[isDecoder], 64) +
                                         "', an unknown activation; known: " + knownActivations());
    else if (isDecoder && activations[0] != activations[1])
      part.unsupported("hidden_activation", "is not that of the encoder, which is not supported");
    config.activation = known.value_or(config.activation);
    if (isDecoder)
      config.finalSoftcap = readSoftcap(part, "final_logit_softcapping", 30.0);
    for (const char *key :
         {"attention_bias", "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"})
      part.pass(key);
    refuseUnread(part, config);
    object.adopt(part);
  }
}

static TensorHandle selfAttention(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name, int64_t count) { return b.splitHeads(b.linear(x, name), count); };
  TensorHandle q = b.rope(heads("self_attn.q_proj", b.config().numHeads));
  TensorHandle k = b.rope(heads("self_attn.k_proj", b.config().numKvHeads));
  TensorHandle v = heads("self_attn.v_proj", b.config().numKvHeads);
  return b.linear(b.mergeHeads(b.attention(q, k, v)), "self_attn.o_proj");
}

static TensorHandle crossAttention(ModelBuilder &b, TensorHandle x) {
  auto ofSource = [&](const char *name) {
    return b.ofSource(
        [&b, name](TensorHandle source) { return b.splitHeads(b.linear(source, name), b.config().numKvHeads); });
  };
  TensorHandle q = b.splitHeads(b.linear(x, "cross_attn.q_proj"), b.config().numHeads);
  TensorHandle k = ofSource("cross_attn.k_proj"), v = ofSource("cross_attn.v_proj");
  return b.linear(b.mergeHeads(b.attention(q, k, v)), "cross_attn.o_proj");
}

static TensorHandle feedForward(ModelBuilder &b, TensorHandle x) {
  TensorHandle gate = b.linear(x, "mlp.gate_proj");
  return b.linear(b.glu(gate, b.linear(x, "mlp.up_proj")), "mlp.down_proj");
}

// x and, between two norms, what `body` computes of it.
static TensorHandle between(ModelBuilder &b, TensorHandle x, const std::string &block,
                            TensorHandle (*body)(ModelBuilder &, TensorHandle)) {
  TensorHandle computed = body(b, b.rmsNorm(x, "pre_" + block + "_layernorm"));
  return b.add(x, b.rmsNorm(computed, "post_" + block + "_layernorm"));
}

static TensorHandle buildStack(ModelBuilder &b, const std::string &scope, int64_t layers, bool isDecoder) {
  TensorHandle x = b.embedTokens(scope + "embed_tokens.weight");
  for (int64_t i = 0; i < layers; ++i)
    x = b.layer(i, scope + "layers." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      x = between(b, x, "self_attn", selfAttention);
      if (isDecoder)
        x = between(b, x, "cross_attn", crossAttention);
      return between(b, x, "feedforward", feedForward);
    });
  return b.rmsNorm(x, scope + "norm");
}

static void build(ModelBuilder &b) {
  const ModelConfig &config = b.config();
  b.beginDecoder(buildStack(b, "model.encoder.", config.encoder.numLayers, /*isDecoder=*/false));
  TensorHandle x = buildStack(b, "model.decoder.", config.numHiddenLayers, /*isDecoder=*/true);
  b.finish(x, config.tieWordEmbeddings ? config.family->embedding : config.family->head);
}

static constexpr Family describe() {
  Family row;
  row.modelType = "t5gemma";
  row.isEncoderDecoder = true;
  row.embedding = "model.decoder.embed_tokens.weight";
  row.head = "lm_head.out_proj.weight";
  row.rules = {tensorRules};
  row.activationKey = nullptr;
  row.positionsSkipMasked = true; // scores depend on distances alone
  row.normWeightOffset = 1.0;
  row.defaults.tied = true;
  row.readers.huggingFaceAllSizes = readSizes;
  row.readers.huggingFaceRopes = readRopesOf;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::t5Gemma = describe();

} // namespace heddle
