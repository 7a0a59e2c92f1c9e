// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Gemma's models have in common: norms on both sides; and of Gemma 3n and Gemma 4, that each layer may get an embedding of its own for each
// token, and the last layers may attend to keys and values of earlier ones.
#ifndef HEDDLE_FRONTENDS_FAMILIES_GEMMALAYERS_H
#define HEDDLE_FRONTENDS_FAMILIES_GEMMALAYERS_H

#include "frontends/families/Decoder.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// Norms on both sides of attention and feed-forward, but for the first, which Llama has.
inline constexpr TensorRule sandwichNormRules[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
};

inline constexpr TensorRule keySharingAttentionRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::OwnKeys},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::OwnValues},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::Queries, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::OwnKeyBias},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::OwnValueBias},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::OwnKeys},
};

inline constexpr TensorRule layerInputRules[] = {
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", ConfigDim::LayerInputVocab,
     ConfigDim::LayerInputs, When::LayerInputs},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight", ConfigDim::LayerInputs,
     ConfigDim::Hidden, When::LayerInputs},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", ConfigDim::LayerInput, ConfigDim::None,
     When::LayerInputs},
    {"model.layers.#.per_layer_input_gate.weight", "blk.#.inp_gate.weight", ConfigDim::LayerInput, ConfigDim::Hidden,
     When::LayerInputs},
    {"model.layers.#.per_layer_projection.weight", "blk.#.proj.weight", ConfigDim::Hidden, ConfigDim::LayerInput,
     When::LayerInputs},
    {"model.layers.#.post_per_layer_input_norm.weight", "blk.#.post_norm.weight", ConfigDim::Hidden, ConfigDim::None,
     When::LayerInputs},
};

// Checkpoints may hold projections also of the layers that attend to others' keys. Towers stand beside the text, with what embeds their tokens.
inline constexpr UnreadTensor keySharingUnread[] = {
    {"model.layers.#.self_attn.k_proj.*"},
    {"model.layers.#.self_attn.v_proj.*"},
    {"model.layers.#.self_attn.k_norm.*"},
    {"blk.#.attn_k.*"},
    {"blk.#.attn_v.*"},
    {"blk.#.attn_k_norm.*"},
    {"model.vision_tower.*", /*isLoss=*/true},
    {"model.audio_tower.*", /*isLoss=*/true},
    {"model.embed_vision.*", /*isLoss=*/true},
    {"model.embed_audio.*", /*isLoss=*/true},
};

// What the rows of Gemma's models have in common, from the second generation on.
constexpr Family describeGemmaKin(const char *modelType, const char *gguf) {
  Family row;
  row.modelType = modelType;
  row.gguf = gguf;
  row.defaults.numKvHeads = 4;
  row.defaults.headDim = 256;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.activationKey = "hidden_activation";
  row.biases.attentionKey = "attention_bias";
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  return row;
}

// Of those whose layers share keys.
constexpr Family describeKeySharing(const char *modelType, const char *gguf) {
  Family row = describeGemmaKin(modelType, gguf);
  row.wrapper = gguf;
  row.unread = keySharingUnread;
  row.defaults.numHeads = 8;
  row.defaults.slidingWindow = 512;
  row.defaults.ropeTheta = 1e6;
  row.layersDiffer = true;
  return row;
}

// An integer between `low` and `high`; where it is not, the reader fails.
int64_t readWithin(JsonObject &object, const char *key, int64_t fallback, int64_t low, int64_t high);
int64_t readWithin(GgufKeys &keys, const char *key, int64_t fallback, int64_t low, int64_t high);
// Rows of a matrix; 0 where the file has none of that name.
int64_t rowsOf(const Checkpoint &tensors, const char *name);

// config.keyLayers: of the last layers, whose number stands under `key`, each attends to what the last layer of its kind before them does.
void readSharedKeys(JsonObject &object, ModelConfig &config, const char *key, int64_t fallback);
void readSharedKeys(GgufKeys &keys, ModelConfig &config, const char *key, int64_t fallback);

using LayerValues = ModelBuilder::LayerValues;

// (batch, sequence, hidden_size_per_layer_input) of each layer: numbers of a table for each token, and of a projection of what all layers get.
LayerValues layerInputs(ModelBuilder &b, TensorHandle embedded);
// What a layer adds of its input, which `x` gates.
TensorHandle ofLayerInput(ModelBuilder &b, TensorHandle x, TensorHandle layerInput);

// Of a layer whose keys and values are `heads`; where that is empty, the layer's own are put into it.
TensorHandle keySharingAttention(ModelBuilder &b, int64_t layer, TensorHandle x, LayerValues &heads);

// `body` for each layer, of `values` and, behind them, the layer's of `inputs` where there are any. `heads`: keys and values of another layer;
// where it is empty, `body` puts its own into it.
using KeySharingLayer = std::function<LayerValues(int64_t layer, const LayerValues &values, LayerValues &heads)>;
LayerValues keySharingLayers(ModelBuilder &b, LayerValues values, const LayerValues &inputs,
                             const KeySharingLayer &body);

} // namespace heddle

#endif
