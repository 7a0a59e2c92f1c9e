// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What T5 and its kin share: everything but the feed-forward blocks of their layers.
#ifndef HEDDLE_FRONTENDS_FAMILIES_T5_H
#define HEDDLE_FRONTENDS_FAMILIES_T5_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"

namespace heddle {

// Behind the name of a stack's layer: what its scores get for distances. Layers that have none read that of the first.
#define HEDDLE_T5_DISTANCES ".layer.0.SelfAttention.relative_attention_bias.weight"
inline constexpr TensorRule t5DistanceRules[] = {
    {"encoder.block.0" HEDDLE_T5_DISTANCES, "enc.blk.0.attn_rel_b.weight", ConfigDim::Buckets, ConfigDim::Heads},
    {"decoder.block.0" HEDDLE_T5_DISTANCES, "dec.blk.0.attn_rel_b.weight", ConfigDim::Buckets, ConfigDim::Heads},
};

// A stack's layers but for their feed-forward blocks, and what stands before and behind them.
inline constexpr TensorRule t5StackRules[] = {
    {"shared.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"encoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::OwnEmbeddings},
    {"decoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::OwnEmbeddings},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"encoder.block.%.layer.0.SelfAttention.q.weight", "enc.blk.%.attn_q.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.k.weight", "enc.blk.%.attn_k.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.v.weight", "enc.blk.%.attn_v.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"encoder.block.%.layer.0.SelfAttention.o.weight", "enc.blk.%.attn_o.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"encoder.block.%.layer.0.layer_norm.weight", "enc.blk.%.attn_norm.weight", ConfigDim::Hidden},
    {"encoder.block.%.layer.1.layer_norm.weight", "enc.blk.%.ffn_norm.weight", ConfigDim::Hidden},
    {"encoder.final_layer_norm.weight", "enc.output_norm.weight", ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.q.weight", "dec.blk.#.attn_q.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.k.weight", "dec.blk.#.attn_k.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.v.weight", "dec.blk.#.attn_v.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.0.SelfAttention.o.weight", "dec.blk.#.attn_o.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"decoder.block.#.layer.0.layer_norm.weight", "dec.blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.q.weight", "dec.blk.#.cross_attn_q.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.k.weight", "dec.blk.#.cross_attn_k.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.v.weight", "dec.blk.#.cross_attn_v.weight", ConfigDim::Queries,
     ConfigDim::Hidden},
    {"decoder.block.#.layer.1.EncDecAttention.o.weight", "dec.blk.#.cross_attn_o.weight", ConfigDim::Hidden,
     ConfigDim::Queries},
    {"decoder.block.#.layer.1.layer_norm.weight", "dec.blk.#.cross_attn_norm.weight", ConfigDim::Hidden},
    {"decoder.block.#.layer.2.layer_norm.weight", "dec.blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"decoder.final_layer_norm.weight", "dec.output_norm.weight", ConfigDim::Hidden},
};

inline constexpr const char *t5EmbeddingCopies[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

// A table of the first T5 files that its attention to the source never reads.
inline constexpr UnreadTensor t5Unread[] = {{"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
                                            {"dec.blk.#.cross_attn_rel_b.weight"}};

inline constexpr KeyName t5KeyNames[] = {
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

inline constexpr KeyAlias t5Aliases[] = {{"hidden_size", "d_model"},
                                         {"num_attention_heads", "num_heads"},
                                         {"num_hidden_layers", "num_layers"},
                                         {"head_dim", "d_kv"}};

void readT5Sizes(JsonObject &object, ModelConfig &config);
// What scores are made of, and what is refused: a decoder alone.
void readT5Attention(JsonObject &object, ModelConfig &config);
// Logits are those of hidden states times hidden_size ^ -0.5.
void scaleT5Logits(ModelConfig &config);

// The feed-forward block of a layer, under `scope`, behind its norm.
using T5FeedForward =
    std::function<TensorHandle(TensorHandle x, const std::string &scope, int64_t layer, bool isDecoder)>;
void buildT5(ModelBuilder &b, const T5FeedForward &feedForward);

// What rows of these families have in common; rules[2] are those of feed-forward blocks.
constexpr Family describeT5(const char *modelType) {
  Family row;
  row.modelType = modelType;
  row.isEncoderDecoder = true;
  row.embedding = "shared.weight";
  row.embeddingCopies = t5EmbeddingCopies;
  row.rules = {TensorRules(t5StackRules), TensorRules(t5DistanceRules)};
  row.unread = t5Unread;
  row.keyNames = t5KeyNames;
  row.aliases = t5Aliases;
  row.activationKey = "dense_act_fn";
  row.defaults.layersOfEncoder = true;
  row.defaults.activation = Activation::Relu;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readT5Sizes;
  row.readers.huggingFaceRest = readT5Attention;
  return row;
}

} // namespace heddle

#endif
