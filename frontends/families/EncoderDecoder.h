// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What encoder-decoders have in common whose files name their parts as BART's do: tensors, config keys, and the two stacks. Tensors of models
// that have no "model." before their names get it from the readers.
#ifndef HEDDLE_FRONTENDS_FAMILIES_ENCODERDECODER_H
#define HEDDLE_FRONTENDS_FAMILIES_ENCODERDECODER_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"

#include <functional>

namespace heddle {

// One table for the source's tokens, the answer's, and the head, or one for each.
inline constexpr TensorRule sharedEmbeddingRules[] = {
    {"model.shared.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.encoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::OwnEmbeddings},
    {"model.decoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::OwnEmbeddings},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"final_logits_bias", nullptr, ConfigDim::None, ConfigDim::Vocab, When::LogitsBias},
};

inline constexpr TensorRule learnedPositionRules[] = {
    {"model.encoder.embed_positions.weight", nullptr, ConfigDim::EncoderPositions, ConfigDim::Hidden},
    {"model.decoder.embed_positions.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
};

inline constexpr TensorRule encoderDecoderRules[] = {
    {"model.encoder.layers.%.self_attn.q_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden},
    {"model.encoder.layers.%.self_attn.k_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden},
    {"model.encoder.layers.%.self_attn.v_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden},
    {"model.encoder.layers.%.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden},
    {"model.encoder.layers.%.self_attn.q_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::AttentionBias},
    {"model.encoder.layers.%.self_attn.k_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::KeyBias},
    {"model.encoder.layers.%.self_attn.v_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::AttentionBias},
    {"model.encoder.layers.%.self_attn.out_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None,
     When::AttentionBias},
    {"model.encoder.layers.%.self_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.encoder.layers.%.self_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.encoder.layers.%.fc1.weight", nullptr, ConfigDim::EncoderIntermediate, ConfigDim::Hidden},
    {"model.encoder.layers.%.fc1.bias", nullptr, ConfigDim::EncoderIntermediate},
    {"model.encoder.layers.%.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::EncoderIntermediate},
    {"model.encoder.layers.%.fc2.bias", nullptr, ConfigDim::Hidden},
    {"model.encoder.layers.%.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.encoder.layers.%.final_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.k_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.v_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.decoder.layers.#.self_attn.q_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::AttentionBias},
    {"model.decoder.layers.#.self_attn.k_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::KeyBias},
    {"model.decoder.layers.#.self_attn.v_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::AttentionBias},
    {"model.decoder.layers.#.self_attn.out_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.self_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.encoder_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.encoder_attn.k_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.encoder_attn.v_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.encoder_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.decoder.layers.#.encoder_attn.q_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.encoder_attn.k_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::KeyBias},
    {"model.decoder.layers.#.encoder_attn.v_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.encoder_attn.out_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.encoder_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.encoder_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.fc1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.decoder.layers.#.fc1.bias", nullptr, ConfigDim::Intermediate},
    {"model.decoder.layers.#.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.decoder.layers.#.fc2.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.final_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.encoder.layernorm_embedding.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    {"model.encoder.layernorm_embedding.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    {"model.decoder.layernorm_embedding.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    {"model.decoder.layernorm_embedding.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    {"model.encoder.layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"model.encoder.layer_norm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"model.decoder.layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"model.decoder.layer_norm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
};

inline constexpr const char *sharedEmbeddingCopies[] = {"model.encoder.embed_tokens.weight",
                                                        "model.decoder.embed_tokens.weight"};

// BART's names for the common keys; those of the encoder, which the readers know by these names, have no others.
#define HEDDLE_ENCODER_DECODER_KEYS                                                                                    \
  {"num_hidden_layers", "decoder_layers"}, {"hidden_size", "d_model"},                                                 \
      {"num_attention_heads", "decoder_attention_heads"}, {"num_key_value_heads", "decoder_attention_heads"},          \
      {"head_dim", "d_model"}, {"intermediate_size", "decoder_ffn_dim"}
inline constexpr KeyName encoderDecoderKeys[] = {
    HEDDLE_ENCODER_DECODER_KEYS,
    {"rms_norm_eps", "layer_norm_eps"},
    {"max_source_positions", "max_position_embeddings"},
};

#define HEDDLE_ENCODER_DECODER_ALIASES                                                                                 \
  {"num_attention_heads", "encoder_attention_heads"}, {"hidden_size", "d_model"},                                      \
      {"num_hidden_layers", "encoder_layers"}
inline constexpr KeyAlias encoderDecoderAliases[] = {HEDDLE_ENCODER_DECODER_ALIASES};

// Sizes of both stacks, under the family's names.
void readEncoderDecoderSizes(JsonObject &object, ModelConfig &config);
// scale_embedding, and what is refused: a decoder alone.
void readEncoderDecoderScales(JsonObject &object, ModelConfig &config);

// Adds the matrix `tensor`, or the vector, which is one row, of which type and shape are said, to the checkpoint: its rows lie in a file that is in memory alone, since what packs
// weights reads files. `what` is the file's name in messages.
Status addTensor(Model &model, const std::string &name, TensorInfo tensor, const std::string &what,
                 const std::function<void(std::vector<char> &row, int64_t index)> &fillRow);

// Puts in place of the matrix `name` one of so many rows, or in place of the vector one of so many numbers: row i is row from(i) of the stored one, or
// zeros where that is -1.
Status pickRows(Model &model, const std::string &name, int64_t rows, const std::function<int64_t(int64_t row)> &from);

// Puts in place of a convolution's kernel, (out, in * taps), which lies tap by tap within each (out, in), a matrix of each tap, (taps * out, in). It has
// AudioConfig::taps of them.
Status splitTaps(Model &model, const std::string &name);

// How a row of a table of positions holds the sines and cosines of its angles, position / 10000^(2k / hidden_size) (Vaswani et al. 2017,
// arXiv:1706.03762).
enum class Sinusoids : uint8_t {
  Halves, // all sines, then all cosines
  Pairs,  // a sine, then its cosine
  // As halves, of angles position / 10000^(k / (hidden_size / 2 - 1)), whose last is 1 / 10000 of the first: those of tensor2tensor, which
  // are computed in f32.
  Tensor2Tensor,
};
// The name of that table, (max_position_embeddings and the rows before that of position 0, hidden_size), which addSinusoids() puts into the
// checkpoint.
inline constexpr const char *sinusoidalPositions = "sinusoidal_positions.weight";
template <Sinusoids kind> Status addSinusoids(Model &model);

// Both stacks, with their embeddings before them and the head behind. `encoderPositions`, `decoderPositions`: tables.
void buildEncoderDecoder(ModelBuilder &b, const char *encoderPositions, const char *decoderPositions);
// The same of a source that is no text: (batch, sequence, hidden_size), with its positions.
void buildEncoderDecoder(ModelBuilder &b, TensorHandle source, const char *decoderPositions);
// The same of what enters either stack; that of the decoder is made behind the encoder.
void buildEncoderDecoder(ModelBuilder &b, TensorHandle source, const std::function<TensorHandle()> &answer);
// Tokens of a text with their positions, and the norm behind these where the model has one.
TensorHandle embedText(ModelBuilder &b, const char *positions, bool isDecoder);

// What rows of these families have in common.
constexpr Family describeEncoderDecoder(const char *modelType) {
  Family row;
  row.modelType = modelType;
  row.isEncoderDecoder = true;
  row.embedding = "model.shared.weight";
  row.embeddingCopies = sharedEmbeddingCopies;
  row.logitsBias = "final_logits_bias";
  row.rules = {TensorRules(sharedEmbeddingRules), TensorRules(encoderDecoderRules)};
  row.keyNames = encoderDecoderKeys;
  row.aliases = encoderDecoderAliases;
  row.activationKey = "activation_function";
  row.defaults.context = 1024;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readEncoderDecoderSizes;
  row.readers.huggingFaceRest = readEncoderDecoderScales;
  return row;
}

} // namespace heddle

#endif
