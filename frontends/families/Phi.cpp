// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Phi, Phi-1.5, Phi-2 (Li et al. 2023, arXiv:2309.05463): attention and a feed-forward block without a gate read one LayerNorm of the layer's
// input and are added to that input together; half of each head rotates; every linear layer has a bias, the head too. Heads of queries and keys may
// have a LayerNorm, which no GGUF file has.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.final_layernorm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"model.final_layernorm.bias", "output_norm.bias", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.bias", "output.bias", ConfigDim::Vocab},
    {"model.layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::Queries},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::KeyValues},
    {"model.layers.#.self_attn.dense.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.dense.bias", "blk.#.attn_output.bias", ConfigDim::Hidden},
    {"model.layers.#.mlp.fc1.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.fc1.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate},
    {"model.layers.#.mlp.fc2.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.layers.#.mlp.fc2.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden},
};

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.q_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.q_layernorm.bias", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.k_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.k_layernorm.bias", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
};

static void readRest(JsonObject &object, ModelConfig &config) {
  config.normsHeads = object.boolean("qk_layernorm").value_or(false);
}

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr Family describePhi() {
  Family row;
  row.modelType = "phi";
  row.gguf = "phi2";
  row.rules = {attentionNormRules, layerRules, headNormRules};
  row.keyNames = keyNames;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.5;
  row.defaults.activation = Activation::GeluTanh;
  row.norm = NormKind::Layer;
  row.finalNorm = "model.final_layernorm";
  row.parallelResidual = true;
  row.attention.output = "dense";
  row.attention.qNorm = "q_layernorm";
  row.attention.kNorm = "k_layernorm";
  row.feedForward = {"mlp.", nullptr, "fc1", "fc2"};
  row.rope.partial = true;
  row.readers.huggingFaceRest = readRest;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::phi = describePhi();

} // namespace heddle
