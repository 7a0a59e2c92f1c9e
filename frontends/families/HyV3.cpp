// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hy3 (Tencent 2026): Qwen 3's attention and, in all layers but the first, experts that a corrected sigmoid chooses, beside those that every token passes.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule routedRules[] = {
    {"model.layers.#.mlp.router.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.mlp.expert_bias", "blk.#.exp_probs_b", ConfigDim::Experts, ConfigDim::None, When::Correction},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
    {"model.layers.#.mlp.shared_mlp.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_mlp.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_mlp.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
    {"model.layers.#.mlp.shared_mlp.gate_proj.bias", "blk.#.ffn_gate_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_mlp.up_proj.bias", "blk.#.ffn_up_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_mlp.down_proj.bias", "blk.#.ffn_down_shexp.bias", ConfigDim::Hidden, ConfigDim::None,
     When::SharedBias},
};

// The layer behind the last predicts one token more.
static constexpr UnreadTensor predictionTensors[] = {{"model.layers.+.*"}, {"blk.+.*"}};

static constexpr KeyName keyNames[] = {{"n_routed_experts", "num_experts"},
                                       {"num_local_experts", "num_experts"},
                                       {"n_shared_experts", "num_shared_experts"},
                                       {"routed_scaling_factor", "router_scaling_factor"}};

static constexpr KeyAlias aliases[] = {{"num_local_experts", "num_experts"}};

// What published files say beside the reference's keys, and the reference takes for granted.
static void checkAssumed(JsonObject &object, const ModelConfig &config) {
  for (const char *key : {"qk_norm", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"})
    if (!object.boolean(key).value_or(true))
      object.unsupported(key, "is false, which is not supported for " + config.architecture + "; expected true");
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  readRoutedExperts(object, config, RoutedDefaults{192, 8, 1536, 1, 1, 2.826, true});
  readSparseLayersButFirst(object, config);
  config.moe.sigmoidScores = config.moe.hasCorrection = config.moe.normTopkProb = true;
  config.numPredictionLayers = object.integer("num_nextn_predict_layers").value_or(1);
  checkAssumed(object, config);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufSigmoidExperts(keys, config);
  readGgufSharedWidth(keys, config);
  config.moe.hasCorrection =
      keys.source().tensors().find("blk." + std::to_string(config.numHiddenLayers - 1) + ".exp_probs_b");
}

static constexpr Family describeHyV3() {
  Family row;
  row.modelType = row.gguf = "hy_v3";
  row.hasExperts = true;
  row.rules = {embeddingRules,       attentionNormRules, attentionRules, queryKeyNormRules,
               feedForwardNormRules, feedForwardRules,   routedRules};
  row.unread = predictionTensors;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.vocabSize = 120832;
  row.defaults.numHeads = 64;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 11158840.0;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.experts.router = "router.gate";
  row.experts.correction = "expert_bias";
  row.experts.shared = "shared_mlp";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::hyV3 = describeHyV3();

} // namespace heddle
