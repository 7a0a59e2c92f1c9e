// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What most decoders have in common: tensors with their names in both formats, and the blocks of a layer. A family takes what fits it.
#ifndef HEDDLE_FRONTENDS_FAMILIES_DECODER_H
#define HEDDLE_FRONTENDS_FAMILIES_DECODER_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"

namespace heddle {

inline constexpr TensorRule embeddingRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

inline constexpr TensorRule attentionNormRules[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
};

inline constexpr TensorRule attentionRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Attends},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

// Norms of query and key heads.
inline constexpr TensorRule queryKeyNormRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::Attends},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::Attends},
};

// Of all heads of a token at once.
inline constexpr TensorRule wideNormRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::Queries},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::KeyValues},
};

inline constexpr TensorRule feedForwardNormRules[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden, ConfigDim::None,
     When::Serial},
};

inline constexpr TensorRule feedForwardRules[] = {
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Dense},
    {"model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::MlpBias},
    {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};

// Of one without a gate.
inline constexpr TensorRule ungatedFeedForwardRules[] = {
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};

// Experts under the names that ExpertNames has of itself.
inline constexpr TensorRule expertRules[] = {
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

// The same under Mixtral's names, in every layer: w1 gates, w3 is "up", w2 is "down".
inline constexpr TensorRule blockSparseExpertRules[] = {
    {"model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.block_sparse_moe.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.block_sparse_moe.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate},
    {"model.layers.#.block_sparse_moe.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
};

// The biases of LayerNorm, where norms stand as Llama has them.
inline constexpr TensorRule normBiasRules[] = {
    {"model.norm.bias", "output_norm.bias", ConfigDim::Hidden},
    {"model.layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"model.layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden, ConfigDim::None,
     When::Serial},
};

inline constexpr TensorRule logitsBiasRules[] = {
    {"lm_head.bias", "output.bias", ConfigDim::Vocab, ConfigDim::None, When::LogitsBias},
};

// Norms behind attention and feed-forward.
inline constexpr TensorRule normsBehindRules[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
};

// Of config.layerRope: layers without a window do not rotate.
void rotateInWindowsOnly(ModelConfig &config);
// And of so many layers the last does not.
void rotateButEvery(ModelConfig &config, int64_t interval);
// Layers with a window rotate by the second embedding.
void rotateWindowsApart(ModelConfig &config);
// These, of rope_parameters by type of layer or under Gemma 3's older keys, where the embedding of windows is never scaled.
void readGlobalAndLocalRopes(JsonObject &object, ModelConfig &config);
// Of a GGUF file whose layers with a window have no rotation of their own: that it names no other base for them.
void refuseOtherWindowBase(GgufKeys &keys, const ModelConfig &config);
// Of a head the first pairs of so large a share rotate, all by the frequencies of the whole head.
void rotateShare(RopeConfig &rope, double share, const ModelConfig &config);
// These, of rope_parameters by type of layer alone, as families read them whose files have never said it otherwise; `full` and `sliding` where a file has
// none. `share`: of a head that rotates, where a rotation that is not scaled does not say it.
void readTypedRopes(JsonObject &object, ModelConfig &config, const RopeConfig &full, const RopeConfig &sliding,
                    double share);
// Which layers do not rotate: those that no_rope_layers names by 0, or without it (or where it is empty, and that means the same) every no_rope_layer_interval-th.
void readNoRopeLayers(JsonObject &object, ModelConfig &config, bool emptyIsAbsent);

// The family's kind of norm.
TensorHandle norm(ModelBuilder &b, TensorHandle x, const std::string &name);
// Projections of q, k and v with their biases and norms where the model has them, rotary embedding, attention, the output's projection.
// `behind`: what becomes of the heads, side by side, before that.
TensorHandle selfAttention(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms = {},
                           const ModelBuilder::LayerBody &behind = {});
// The same of a layer whose heads differ from those of others (ModelConfig::layerShapes).
TensorHandle selfAttentionOf(ModelBuilder &b, int64_t layer, TensorHandle x, const AttentionTerms &terms = {},
                             const ModelBuilder::LayerBody &behind = {});
// The same where one product gives q, k and v, one behind the other; `layer` is given where heads differ between layers.
TensorHandle fusedSelfAttention(ModelBuilder &b, TensorHandle x, const std::string &qkv, const std::string &output,
                                const AttentionTerms &terms = {}, int64_t layer = -1);
// What of that stands before the output's projection.
TensorHandle fusedAttention(ModelBuilder &b, TensorHandle x, const std::string &qkv, const AttentionTerms &terms = {},
                            int64_t layer = -1);
// activation(gate(x)) * up(x), or activation(up(x)) without a gate, then down.
TensorHandle feedForward(ModelBuilder &b, TensorHandle x);
// The gated one of gate_up_proj, which gives both.
TensorHandle fusedFeedForward(ModelBuilder &b, TensorHandle x);
// Of a layer: experts where it has them, and those that every token passes.
TensorHandle layerFeedForward(ModelBuilder &b, int64_t layer, TensorHandle x);
// activation(gate_proj(x)) * up_proj(x), then down_proj, under `scope`.
TensorHandle gatedFeedForward(ModelBuilder &b, TensorHandle x, const std::string &scope = "mlp");

// `body` for each layer, whose names begin with `scope` and its number.
using DecoderLayer = std::function<TensorHandle(int64_t layer, TensorHandle x)>;
TensorHandle decoderLayers(ModelBuilder &b, const std::string &scope, TensorHandle x, const DecoderLayer &body);
// Logits of what the last norm gives: by the family's head, or by its embedding where the config ties them. Of one that embeds texts what the
// norm gives.
void finishDecoder(ModelBuilder &b, TensorHandle x);
// Embedding, `body` for each layer, norm and head.
void buildDecoder(ModelBuilder &b, const DecoderLayer &body);
// A layer of the LLaMA paper (arXiv:2302.13971): x + attention(norm(x)), then x + feedForward(norm(x)); experts where the config has them.
// With parallelResidual both blocks read the one norm of the layer's input. And the decoder of such layers.
TensorHandle preNormLayer(ModelBuilder &b, int64_t layer, TensorHandle x, const AttentionTerms &terms = {});
void buildPreNormDecoder(ModelBuilder &b);
// Norms behind the blocks: x + norm(attention(x)), then x + norm(feedForward(x)).
void buildPostNormDecoder(ModelBuilder &b);

} // namespace heddle

#endif
