// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Transformer of the paper (Vaswani et al. 2017, arXiv:1706.03762): sinusoidal positions, a sine beside its cosine, embeddings times
// sqrt(d_model), ReLU. Its norms stand behind residuals or, with norm_first, before what is added, and then behind the stacks too.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "num_decoder_layers"},
    {"hidden_size", "d_model"},
    {"num_attention_heads", "nhead"},
    {"num_key_value_heads", "nhead"},
    {"head_dim", "d_model"},
    {"intermediate_size", "dim_feedforward"},
    {"rms_norm_eps", "layer_norm_eps"},
    {"encoder_layers", "num_encoder_layers"},
    {"encoder_attention_heads", "nhead"},
    {"encoder_ffn_dim", "dim_feedforward"},
    {"max_source_positions", "max_position_embeddings"},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.normsBefore = config.hasFinalNorm = object.boolean("norm_first").value_or(false);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderScales(object, config);
  config.attentionBias = object.boolean("attention_bias").value_or(true);
  if (!object.boolean("share_embeddings").value_or(true))
    object.unsupported("share_embeddings", "is false, which is not supported; expected true");
  std::string positions = object.string("position_embedding_type").value_or("sinusoidal_interleaved");
  if (positions != "sinusoidal_interleaved")
    object.fail("position_embedding_type", "is '" + printable(positions, 64) + "', expected sinusoidal_interleaved");
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, sinusoidalPositions, sinusoidalPositions);
}

static constexpr Family describeTransformer() {
  Family row = describeEncoderDecoder("transformer");
  row.keyNames = keyNames;
  row.aliases = {};
  row.activationKey = "activation";
  row.defaults.activation = Activation::Relu;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addSinusoids<Sinusoids::Pairs>;
  row.build = build;
  return row;
}
const Family family::transformer = describeTransformer();

} // namespace heddle
