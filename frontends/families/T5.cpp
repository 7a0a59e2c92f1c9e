// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// T5 (Raffel et al. 2019, arXiv:1910.10683), T5 1.1 and what follows it (Flan, UL2), mT5 (Xue et al. 2020, arXiv:2010.11934): no positions but
// what scores get for the distance of a key, by a table that all layers of a stack share; RMSNorm, no biases, unscaled scores; ReLU, or a gated
// activation. UMT5 (Chung et al. 2023, arXiv:2304.09151) has a table of each layer.

#include "frontends/families/T5.h"
#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule feedForwardRules[] = {
    {"encoder.block.%.layer.1.DenseReluDense.wi.weight", "enc.blk.%.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Ungated},
    {"encoder.block.%.layer.1.DenseReluDense.wi_0.weight", "enc.blk.%.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"encoder.block.%.layer.1.DenseReluDense.wi_1.weight", "enc.blk.%.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"encoder.block.%.layer.1.DenseReluDense.wo.weight", "enc.blk.%.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate},
    {"decoder.block.#.layer.2.DenseReluDense.wi.weight", "dec.blk.#.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Ungated},
    {"decoder.block.#.layer.2.DenseReluDense.wi_0.weight", "dec.blk.#.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"decoder.block.#.layer.2.DenseReluDense.wi_1.weight", "dec.blk.#.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"decoder.block.#.layer.2.DenseReluDense.wo.weight", "dec.blk.#.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate},
};

// Distances have no end: n_positions of older files is what a model was trained on, which nothing reads.
static constexpr int64_t longestSequence = 1 << 20;

void readT5Sizes(JsonObject &object, ModelConfig &config) {
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

void scaleT5Logits(ModelConfig &config) {
  config.logitScale = 1.0 / std::sqrt(double(config.hiddenSize));
}

// feed_forward_proj is ACTIVATION, or gated-ACTIVATION, `usual` where config.json has none; newer files say both apart, which then count.
static void readFeedForward(JsonObject &object, ModelConfig &config, const char *usual) {
  std::string form = object.string("feed_forward_proj").value_or(usual), name = form;
  bool isGated = form.compare(0, 6, "gated-") == 0;
  if (isGated)
    name = form == "gated-gelu" ? "gelu_new" : form.substr(6);
  config.gatesFeedForward = object.flag("is_gated_act", isGated);
  if (object.has(config.family->activationKey))
    return;
  if (std::optional<Activation> activation = activationNamed(name))
    config.activation = *activation;
  else
    object.fail("feed_forward_proj",
                "is '" + printable(form, 64) + "', expected ACTIVATION or gated-ACTIVATION, of " + knownActivations());
}

void readT5Attention(JsonObject &object, ModelConfig &config) {
  if (!object.boolean("is_encoder_decoder").value_or(true))
    object.unsupported("is_encoder_decoder",
                       "is false, which is not supported: the model is compiled with its encoder");
  checkBuckets(object, config);
  config.attentionScale = 1.0;
  config.tokenTypes = 1;
}

// The file counts the encoder's layers, and those of the decoder where they are more or fewer.
static void readGgufSizes(GgufKeys &keys, ModelConfig &config) {
  EncoderConfig &encoder = config.encoder;
  encoder.numLayers = config.numHiddenLayers;
  config.numHiddenLayers = keys.integer("decoder_block_count", encoder.numLayers);
  config.numKvHeads = encoder.numHeads = config.numHeads;
  config.headDim = keys.integer("attention.key_length", config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0);
  encoder.intermediateSize = config.intermediateSize;
  config.contextLength = encoder.contextLength = longestSequence;
  config.relativeBuckets = keys.integer("attention.relative_buckets_count");
  config.relativeDistance = 128; // for which the format has no key
  config.gatesFeedForward = keys.source().tensors().find("enc.blk.0.ffn_gate.weight") != nullptr;
  config.activation = config.gatesFeedForward ? Activation::GeluTanh : Activation::Relu;
}

static void checkGgufBuckets(GgufKeys &keys, const ModelConfig &config) {
  if (config.relativeBuckets < 4 || config.relativeBuckets >= 2 * config.relativeDistance)
    keys.fail(keys.full("attention.relative_buckets_count") + " is " + std::to_string(config.relativeBuckets) +
              ", expected 4 to less than " + std::to_string(2 * config.relativeDistance));
}

// Logits of a tied model are scaled, as those of the first T5 are, whose files hold no head.
static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  checkGgufBuckets(keys, config);
  config.attentionScale = 1.0;
  config.tokenTypes = 1;
  if (!keys.source().tensors().find("output.weight"))
    scaleT5Logits(config);
  config.decoderStartId = keys.integer("decoder_start_token_id", 0);
}

static constexpr TensorRule distancesOfLayers[] = {
    {"encoder.block.%" HEDDLE_T5_DISTANCES, "enc.blk.%.attn_rel_b.weight", ConfigDim::Buckets, ConfigDim::Heads},
    {"decoder.block.#" HEDDLE_T5_DISTANCES, "dec.blk.#.attn_rel_b.weight", ConfigDim::Buckets, ConfigDim::Heads},
};

static void readRestOf(JsonObject &object, ModelConfig &config, const char *feedForward) {
  readT5Attention(object, config);
  readFeedForward(object, config, feedForward);
  // Files of T5 1.1 say that the head is its own, and mean that logits are not scaled.
  if (object.flag("scale_decoder_outputs", config.tieWordEmbeddings))
    scaleT5Logits(config);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readRestOf(object, config, "relu");
}

static void readUmt5Rest(JsonObject &object, ModelConfig &config) {
  readRestOf(object, config, "gated-gelu");
}

static void readMt5Rest(JsonObject &object, ModelConfig &config) {
  readT5Attention(object, config);
  readFeedForward(object, config, "gated-gelu");
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

// "encoder." or "decoder.", with its embeddings and the norm behind it.
static TensorHandle buildStack(ModelBuilder &b, const std::string &scope, bool isDecoder,
                               const T5FeedForward &feedForward) {
  const ModelConfig &config = b.config();
  AttentionTerms distances;
  distances.positions = relativeBuckets(scope + "block.0" HEDDLE_T5_DISTANCES, /*bidirectional=*/!isDecoder,
                                        config.relativeBuckets, config.relativeDistance);
  TensorHandle x = b.embedTokens(embeddingOf(config, isDecoder));
  int64_t layers = isDecoder ? config.numHiddenLayers : config.encoder.numLayers;
  for (int64_t i = 0; i < layers; ++i) {
    std::string block = scope + "block." + std::to_string(i);
    if (b.has(block + HEDDLE_T5_DISTANCES))
      distances.positions.table = block + HEDDLE_T5_DISTANCES;
    x = b.layer(i, block + ".", x, [&](TensorHandle x) {
      x = b.add(x, attention(b, b.rmsNorm(x, "layer.0.layer_norm"), "layer.0.SelfAttention", distances, false));
      if (isDecoder)
        x = b.add(x, attention(b, b.rmsNorm(x, "layer.1.layer_norm"), "layer.1.EncDecAttention", {}, true));
      std::string last = isDecoder ? "layer.2." : "layer.1.";
      return b.add(x, feedForward(b.rmsNorm(x, last + "layer_norm"), last, i, isDecoder));
    });
  }
  return b.rmsNorm(x, scope + "final_layer_norm");
}

void buildT5(ModelBuilder &b, const T5FeedForward &feedForward) {
  const Family &family = *b.config().family;
  b.beginDecoder(buildStack(b, "encoder.", /*isDecoder=*/false, feedForward));
  TensorHandle x = buildStack(b, "decoder.", /*isDecoder=*/true, feedForward);
  b.finish(x, b.config().tieWordEmbeddings ? family.embedding : family.head);
}

static T5FeedForward denseBlocks(ModelBuilder &b) {
  return [&b](TensorHandle x, const std::string &scope, int64_t, bool) {
    std::string block = scope + "DenseReluDense.";
    if (!b.config().gatesFeedForward)
      return b.linear(b.activation(b.linear(x, block + "wi")), block + "wo");
    TensorHandle gate = b.linear(x, block + "wi_0"), up = b.linear(x, block + "wi_1");
    return b.linear(b.glu(gate, up), block + "wo");
  };
}

static void build(ModelBuilder &b) {
  buildT5(b, denseBlocks(b));
}

static constexpr Family describe(const char *modelType, void (*readRest)(JsonObject &, ModelConfig &)) {
  Family row = describeT5(modelType);
  row.rules[2] = feedForwardRules;
  row.headIfStored = true;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
static constexpr Family describeT5WithFiles() {
  Family row = describe("t5", readRest);
  row.gguf = "t5";
  row.readers.ggufSizes = readGgufSizes;
  row.readers.ggufRest = readGgufRest;
  return row;
}
const Family family::t5 = describeT5WithFiles();
const Family family::mt5 = describe("mt5", readMt5Rest);

// The encoder alone, as models that draw what a text says have it.
static constexpr TensorRule encoderRules[] = {
    {"shared.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"encoder.block.0" HEDDLE_T5_DISTANCES, "enc.blk.0.attn_rel_b.weight", ConfigDim::Buckets, ConfigDim::Heads},
    {"encoder.block.#.layer.0.SelfAttention.q.weight", "enc.blk.#.attn_q.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.#.layer.0.SelfAttention.k.weight", "enc.blk.#.attn_k.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.#.layer.0.SelfAttention.v.weight", "enc.blk.#.attn_v.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.#.layer.0.SelfAttention.o.weight", "enc.blk.#.attn_o.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"encoder.block.#.layer.0.layer_norm.weight", "enc.blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"encoder.block.#.layer.1.layer_norm.weight", "enc.blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"encoder.block.#.layer.1.DenseReluDense.wi.weight", "enc.blk.#.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Ungated},
    {"encoder.block.#.layer.1.DenseReluDense.wi_0.weight", "enc.blk.#.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"encoder.block.#.layer.1.DenseReluDense.wi_1.weight", "enc.blk.#.ffn_up.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Gated},
    {"encoder.block.#.layer.1.DenseReluDense.wo.weight", "enc.blk.#.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate},
    {"encoder.final_layer_norm.weight", "enc.output_norm.weight", ConfigDim::Hidden},
};
static constexpr UnreadTensor encoderUnread[] = {{"output.weight"}};

// A text is as long as the file says, which ends here, where the encoder of two stacks reads any.
static void readEncoderSizes(GgufKeys &keys, ModelConfig &config) {
  int64_t context = config.contextLength;
  readGgufSizes(keys, config);
  config.contextLength = context;
}

static void readEncoderRest(GgufKeys &keys, ModelConfig &config) {
  checkGgufBuckets(keys, config);
  config.attentionScale = 1.0;
}

static void buildEncoder(ModelBuilder &b) {
  finishEncoder(b, buildStack(b, "encoder.", /*isDecoder=*/false, denseBlocks(b)), TensorHandle());
}

static constexpr Family describeEncoder() {
  Family row = describeT5("t5encoder");
  row.gguf = "t5encoder";
  row.isGgufOnly = row.isEncoder = true;
  row.isEncoderDecoder = false;
  row.embeddingCopies = {};
  row.rules = {encoderRules};
  row.unread = encoderUnread;
  row.readers.huggingFaceSizes = nullptr;
  row.readers.huggingFaceRest = nullptr;
  row.readers.ggufSizes = readEncoderSizes;
  row.readers.ggufRest = readEncoderRest;
  row.build = buildEncoder;
  return row;
}
const Family family::t5Encoder = describeEncoder();

static constexpr Family describeUmt5() {
  Family row = describeT5WithFiles();
  row.modelType = "umt5";
  row.ggufMark = "enc.blk.1.attn_rel_b.weight";
  row.rules[1] = distancesOfLayers;
  row.readers.huggingFaceRest = readUmt5Rest;
  return row;
}
const Family family::umt5 = describeUmt5();

} // namespace heddle
