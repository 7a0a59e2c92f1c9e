// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// T5 (Raffel et al. 2019, arXiv:1910.10683), T5 1.1 and what follows it (Flan, UL2), mT5 (arXiv:2010.11934): no positions but what scores get for the distance of a key,
// by a table that all layers of a stack share; RMSNorm, no biases, unscaled scores; ReLU, or a gated activation.

#include "frontends/families/Families.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr const char *encoderTable = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
static constexpr const char *decoderTable = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

// A stack's layers but for their feed-forward blocks, and what stands before and behind them.
static constexpr TensorRule stackRules[] = {
    {"shared.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {encoderTable, nullptr, ConfigDim::Buckets, ConfigDim::Heads},
    {"encoder.block.%.layer.0.SelfAttention.q.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.k.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.v.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.o.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"encoder.block.%.layer.0.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"encoder.block.%.layer.1.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"encoder.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {decoderTable, nullptr, ConfigDim::Buckets, ConfigDim::Heads},
    {"decoder.block.#.layer.0.SelfAttention.q.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.k.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.v.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.o.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"decoder.block.#.layer.0.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.q.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.k.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.v.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.o.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"decoder.block.#.layer.1.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"decoder.block.#.layer.2.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"decoder.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
};

static constexpr TensorRule feedForwardRules[] = {
    {"encoder.block.%.layer.1.DenseReluDense.wi.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Ungated},
    {"encoder.block.%.layer.1.DenseReluDense.wi_0.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Gated},
    {"encoder.block.%.layer.1.DenseReluDense.wi_1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Gated},
    {"encoder.block.%.layer.1.DenseReluDense.wo.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"decoder.block.#.layer.2.DenseReluDense.wi.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Ungated},
    {"decoder.block.#.layer.2.DenseReluDense.wi_0.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Gated},
    {"decoder.block.#.layer.2.DenseReluDense.wi_1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Gated},
    {"decoder.block.#.layer.2.DenseReluDense.wo.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
};

static constexpr const char *embeddingCopies[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

// A table of the first T5 files that its attention to the source never reads.
static constexpr UnreadTensor unread[] = {{"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "num_decoder_layers"},
    {"hidden_size", "d_model"},
    {"num_attention_heads", "num_heads"},
    {"num_key_value_heads", "num_heads"},
    {"head_dim", "d_kv"},
    {"intermediate_size", "d_ff"},
    {"rms_norm_eps", "layer_norm_epsilon"},
    {"encoder_layers", "num_layers"},
    {"encoder_attention_heads", "num_heads"},
    {"encoder_ffn_dim", "d_ff"},
};

// Distances have no end: n_positions of older files is what a model was trained on, which nothing reads.
static constexpr int64_t longestSequence = 1 << 20;

static void readSizes(JsonObject &object, ModelConfig &config) {
  EncoderConfig &encoder = config.encoder;
  config.numKvHeads = encoder.numHeads = config.numHeads;
  config.headDim = readSize(object, config, "head_dim", 64);
  config.intermediateSize = encoder.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  encoder.numLayers = readSize(object, config, "encoder_layers");
  config.contextLength = encoder.contextLength = longestSequence;
  config.relativeBuckets = object.integer("relative_attention_num_buckets").value_or(32);
  config.relativeDistance = object.integer("relative_attention_max_distance").value_or(128);
}

// Both stacks look up distances, the encoder's in two halves of its table.
static void checkBuckets(JsonObject &object, const ModelConfig &config) {
  int64_t buckets = config.relativeBuckets, distance = config.relativeDistance;
  if (buckets < 4 || buckets > 1 << 12)
    object.fail("relative_attention_num_buckets", "is " + std::to_string(buckets) + ", expected 4 to 4096");
  else if (distance <= buckets / 2 || distance > DistanceBias::maxDistance)
    object.fail("relative_attention_max_distance",
                "is " + std::to_string(distance) + ", expected a number above half of the " + std::to_string(buckets) +
                    " buckets, at most " + std::to_string(DistanceBias::maxDistance));
}

// feed_forward_proj is ACTIVATION, or gated-ACTIVATION; newer files say both apart, which then count.
static void readFeedForward(JsonObject &object, ModelConfig &config, const char *usual) {
  std::string form = object.string("feed_forward_proj").value_or(usual), name = form;
  bool isGated = form.compare(0, 6, "gated-") == 0;
  if (isGated)
    name = form == "gated-gelu" ? "gelu_new" : form.substr(6);
  config.gatesFeedForward = object.boolean("is_gated_act").value_or(isGated);
  if (object.has(config.family->activationKey))
    return;
  if (std::optional<Activation> activation = activationNamed(name))
    config.activation = *activation;
  else
    object.fail("feed_forward_proj",
                "is '" + printable(form, 64) + "', expected ACTIVATION or gated-ACTIVATION, of " + knownActivations());
}

// `usual`: feed_forward_proj where config.json does not say it.
static void readCommon(JsonObject &object, ModelConfig &config, const char *usual) {
  if (!object.boolean("is_encoder_decoder").value_or(true))
    object.unsupported("is_encoder_decoder",
                       "is false, which is not supported: the model is compiled with its encoder");
  readFeedForward(object, config, usual);
  checkBuckets(object, config);
  config.attentionScale = 1.0;
  config.tokenTypes = 1;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readCommon(object, config, "relu");
  // Files of T5 1.1 say that the head is its own, and mean that logits are not scaled.
  bool isTied = object.boolean("tie_word_embeddings").value_or(true);
  if (object.boolean("scale_decoder_outputs").value_or(isTied))
    config.logitScale = 1.0 / std::sqrt(double(config.hiddenSize));
}

static void readMt5Rest(JsonObject &object, ModelConfig &config) {
  readCommon(object, config, "gated-gelu");
}

// Attention under `name` to the tokens of the stack, or of the source.
static TensorHandle attention(ModelBuilder &b, TensorHandle x, const std::string &name, const AttentionTerms &terms,
                              bool isCross) {
  auto project = [&](const char *part) {
    return [&b, projection = name + part](TensorHandle x) {
      return b.splitHeads(b.linear(x, projection), b.config().numHeads);
    };
  };
  auto seen = [&](const char *part) { return isCross ? b.ofSource(project(part)) : project(part)(x); };
  TensorHandle query = project(".q")(x), key = seen(".k"), value = seen(".v");
  return b.linear(b.mergeHeads(b.attention(query, key, value, terms)), name + ".o");
}

static TensorHandle feedForward(ModelBuilder &b, TensorHandle x, const std::string &name) {
  if (!b.config().gatesFeedForward)
    return b.linear(b.activation(b.linear(x, name + ".wi")), name + ".wo");
  TensorHandle gate = b.linear(x, name + ".wi_0"), up = b.linear(x, name + ".wi_1");
  return b.linear(b.glu(gate, up), name + ".wo");
}

// "encoder." or "decoder.", with its embeddings and the norm behind it.
static TensorHandle buildStack(ModelBuilder &b, const std::string &scope, bool isDecoder) {
  const ModelConfig &config = b.config();
  AttentionTerms distances;
  distances.positions = relativeBuckets(isDecoder ? decoderTable : encoderTable, /*bidirectional=*/!isDecoder,
                                        config.relativeBuckets, config.relativeDistance);
  TensorHandle x = b.embedTokens(config.family->embedding);
  int64_t layers = isDecoder ? config.numHiddenLayers : config.encoder.numLayers;
  for (int64_t i = 0; i < layers; ++i)
    x = b.layer(i, scope + "block." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      x = b.add(x, attention(b, b.rmsNorm(x, "layer.0.layer_norm"), "layer.0.SelfAttention", distances, false));
      if (isDecoder)
        x = b.add(x, attention(b, b.rmsNorm(x, "layer.1.layer_norm"), "layer.1.EncDecAttention", {}, true));
      std::string last = isDecoder ? "layer.2." : "layer.1.";
      return b.add(x, feedForward(b, b.rmsNorm(x, last + "layer_norm"), last + "DenseReluDense"));
    });
  return b.rmsNorm(x, scope + "final_layer_norm");
}

static void build(ModelBuilder &b) {
  const Family &family = *b.config().family;
  b.beginDecoder(buildStack(b, "encoder.", /*isDecoder=*/false));
  TensorHandle x = buildStack(b, "decoder.", /*isDecoder=*/true);
  b.finish(x, b.config().tieWordEmbeddings ? family.embedding : family.head);
}

static constexpr Family describeT5(const char *modelType, void (*readRest)(JsonObject &, ModelConfig &)) {
  Family row;
  row.modelType = modelType;
  row.isEncoderDecoder = true;
  row.embedding = "shared.weight";
  row.embeddingCopies = embeddingCopies;
  row.headIfStored = true;
  row.rules = {TensorRules(stackRules), TensorRules(feedForwardRules)};
  row.unread = unread;
  row.keyNames = keyNames;
  row.activationKey = "dense_act_fn";
  row.defaults.layersOfEncoder = true;
  row.defaults.activation = Activation::Relu;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::t5 = describeT5("t5", readRest);
const Family family::mt5 = describeT5("mt5", readMt5Rest);

} // namespace heddle
