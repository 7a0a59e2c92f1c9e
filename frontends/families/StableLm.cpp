// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// StableLM (Bellagente et al. 2024, arXiv:2402.17834): Llama with LayerNorm, heads of which a quarter rotates and, in some checkpoints, a
// feed-forward block that reads the normed input of attention. In GGUF a file without ffn_norm is one of those, whatever its key says, as in
// llama.cpp. StableLM 2 12B norms the heads of queries and keys, each by a LayerNorm of its own without a bias.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

#include <cstring>

namespace heddle {

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.q_layernorm.norms.@.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None,
     When::HeadNormsApart, StoredOrder::Plain, ConfigDim::Heads},
    {"model.layers.#.self_attn.k_layernorm.norms.@.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None,
     When::HeadNormsApart, StoredOrder::Plain, ConfigDim::KvHeads},
    {"model.layers.#.self_attn.q_layernorm.weight", "blk.#.attn_q_norm.weight", ConfigDim::Heads, ConfigDim::HeadDim,
     When::HeadNorms},
    {"model.layers.#.self_attn.k_layernorm.weight", "blk.#.attn_k_norm.weight", ConfigDim::KvHeads, ConfigDim::HeadDim,
     When::HeadNorms},
};

static void readRest(JsonObject &object, ModelConfig &config) {
  config.parallelResidual = object.boolean("use_parallel_residual").value_or(false);
  config.normsHeads = config.headNormsApart = object.boolean("qk_layernorm").value_or(false);
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  const Checkpoint &tensors = keys.source().tensors();
  keys.boolean("use_parallel_residual", false);
  config.parallelResidual = !tensors.find("blk.0.ffn_norm.weight");
  config.normsHeads = tensors.find("blk.0.attn_q_norm.weight");
}

// The norms of a layer's heads, one below the other, in place of a tensor for each.
static Status stackHeadNorms(Model &model) {
  ModelConfig &config = model.config;
  for (int64_t layer = 0; config.headNormsApart && layer < config.numHiddenLayers; ++layer)
    for (bool isKey : {false, true}) {
      std::string name = "model.layers." + std::to_string(layer) + ".self_attn." + (isKey ? "k" : "q") + "_layernorm.";
      std::vector<float> numbers(static_cast<size_t>(config.headDim));
      auto fill = [&](std::vector<char> &row, int64_t head) {
        auto own = model.checkpoint.tensors.extract(name + "norms." + std::to_string(head) + ".weight");
        dequantize(own.mapped().type, model.checkpoint.data(own.mapped()), numbers.size(), numbers.data());
        memcpy(row.data(), numbers.data(), row.size());
      };
      TensorInfo all{TensorType::F32, {isKey ? config.numKvHeads : config.numHeads, config.headDim}};
      HEDDLE_RETURN_IF_ERROR(addTensor(model, name + "weight", all, "norms of heads", fill));
    }
  config.headNormsApart = false;
  return Status();
}

static constexpr Family describeStableLm() {
  Family row;
  row.modelType = "stablelm";
  row.gguf = "stablelm";
  row.rules = {embeddingRules,   attentionNormRules, attentionRules, feedForwardNormRules,
               feedForwardRules, normBiasRules,      headNormRules};
  row.keyNames = keyNames;
  row.defaults.numKvHeads = 32;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.25;
  row.norm = NormKind::Layer;
  row.biases.attentionKey = "use_qkv_bias";
  row.biases.inOutput = false;
  row.rope.partial = true;
  row.attention.qNorm = "q_layernorm";
  row.attention.kNorm = "k_layernorm";
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.addTensors = stackHeadNorms;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::stableLm = describeStableLm();

} // namespace heddle
