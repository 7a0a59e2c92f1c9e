// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kimi Linear (arXiv:2510.26692): most layers keep a state by the delta rule, of which each column of a key decays at a rate of its own, behind a
// convolution each of queries, keys and values; what is read of it is normed head by head and gated by a sigmoid. The others have DeepSeek's attention
// to a latent, which does not rotate, and all but the first layers DeepSeek V3's experts under Mixtral's names.

#include "frontends/families/DeepSeek.h"
#include "frontends/families/DeltaRule.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule stateRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::StateKeys, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::StateKeys, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::StateValues, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.q_conv1d.weight", "blk.#.ssm_conv1d_q.weight", ConfigDim::StateKeys,
     ConfigDim::ConvWidth, When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.self_attn.k_conv1d.weight", "blk.#.ssm_conv1d_k.weight", ConfigDim::StateKeys,
     ConfigDim::ConvWidth, When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.self_attn.v_conv1d.weight", "blk.#.ssm_conv1d_v.weight", ConfigDim::StateValues,
     ConfigDim::ConvWidth, When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.self_attn.f_a_proj.weight", "blk.#.ssm_f_a.weight", ConfigDim::StateHeadDim, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.f_b_proj.weight", "blk.#.ssm_f_b.weight", ConfigDim::StateKeys, ConfigDim::StateHeadDim,
     When::Recurrent},
    {"model.layers.#.self_attn.dt_bias", "blk.#.ssm_dt.bias", ConfigDim::StateKeys, ConfigDim::None, When::Recurrent},
    {"model.layers.#.self_attn.A_log", "blk.#.ssm_a", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent,
     StoredOrder::Flattened},
    {"model.layers.#.self_attn.b_proj.weight", "blk.#.ssm_beta.weight", ConfigDim::StateHeads, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.g_a_proj.weight", "blk.#.ssm_g_a.weight", ConfigDim::StateHeadDim, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.g_b_proj.weight", "blk.#.ssm_g_b.weight", ConfigDim::StateValues,
     ConfigDim::StateHeadDim, When::Recurrent},
    {"model.layers.#.self_attn.o_norm.weight", "blk.#.ssm_norm.weight", ConfigDim::StateHeadDim, ConfigDim::None,
     When::Recurrent},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::StateValues,
     When::Recurrent},
};

static constexpr TensorRule headRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden},
};

static constexpr TensorRule sparseRules[] = {
    {"model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.block_sparse_moe.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.block_sparse_moe.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
    {"model.layers.#.block_sparse_moe.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.block_sparse_moe.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts,
     ConfigDim::None, When::Correction},
    {"model.layers.#.block_sparse_moe.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.block_sparse_moe.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.block_sparse_moe.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight",
     ConfigDim::Hidden, ConfigDim::SharedIntermediate, When::Shared},
};

static constexpr KeyName keyNames[] = {{"n_routed_experts", "num_local_experts"},
                                       {"linear_num_key_heads", "linear_num_heads", "attention.head_count"},
                                       {"linear_num_value_heads", "linear_num_heads", "attention.head_count"},
                                       {"linear_key_head_dim", "linear_head_dim", "kda.head_dim"},
                                       {"linear_value_head_dim", "linear_head_dim", "kda.head_dim"},
                                       {"conv_L_cache", "linear_conv_kernel_dim", "ssm.conv_kernel"}};

// The names of published files, for which the reference has those of DeepSeek.
static constexpr KeyAlias aliases[] = {
    {"num_experts", "num_local_experts"},  {"num_experts_per_token", "num_experts_per_tok"},
    {"num_expert_group", "n_group"},       {"num_shared_experts", "n_shared_experts"},
    {"moe_renormalize", "norm_topk_prob"}, {"model_max_length", "max_position_embeddings"},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readLatentSizes(object, config, LatentDefaults{512, 0, 128, 64, 128});
}

// Layers of both kinds by their numbers, which begin at 1.
static void readListedLayers(JsonObject &lists, std::vector<bool> &isRecurrent) {
  std::vector<bool> isListed(isRecurrent.size());
  for (const char *key : {"full_attn_layers", "kda_layers"})
    for (int64_t number : lists.integers(key)) {
      if (number < 1 || number > int64_t(isRecurrent.size()))
        return lists.fail(key, "holds " + std::to_string(number) + ", expected numbers of layers, 1 to " +
                                   std::to_string(isRecurrent.size()));
      isListed[size_t(number - 1)] = true;
      isRecurrent[size_t(number - 1)] = std::string_view(key) == "kda_layers";
    }
  for (size_t layer = 0; layer < isListed.size(); ++layer)
    if (!isListed[layer])
      return lists.fail("kda_layers", "lacks layer " + std::to_string(layer + 1) + ", as does full_attn_layers");
}

// A file may say of states what linear_attn_config does, which then counts; layer_types comes before the lists there.
static void readStates(JsonObject &object, ModelConfig &config) {
  JsonObject nested = object.object("linear_attn_config");
  auto read = [&](const char *own, const char *key, int64_t fallback) {
    int64_t stated = object.integer(key).value_or(fallback);
    return nested.integer(own).value_or(stated);
  };
  RecurrentConfig &state = config.recurrent;
  bool isListed = nested.has("full_attn_layers") && nested.has("kda_layers");
  for (size_t layer = 0; layer < state.layers.size() && !object.has("layer_types"); ++layer)
    state.layers[layer] = layer == 0 || layer % 4 != 0;
  if (isListed && !object.has("layer_types"))
    readListedLayers(nested, state.layers);
  state.isLinear = state.ratesAreLogs = true;
  state.activation = config.activation;
  state.convWidth = read("short_conv_kernel_size", "linear_conv_kernel_dim", 4);
  state.numKeyHeads = state.numValueHeads = read("num_heads", "linear_num_heads", 32);
  state.keyDim = state.valueDim = read("head_dim", "linear_head_dim", 128);
  object.adopt(nested);
}

// What the reference takes for granted.
static void checkGranted(JsonObject &object) {
  if (!object.boolean("mla_use_nope").value_or(true))
    object.unsupported("mla_use_nope", "is false, which is not supported; expected true: no layer rotates");
  std::string scores = object.string("moe_router_activation_func").value_or("sigmoid");
  if (scores != "sigmoid")
    object.unsupported("moe_router_activation_func",
                       "is '" + printable(scores, 64) + "', which is not supported; expected sigmoid");
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readStates(object, config);
  checkGranted(object);
  readLatentExperts(object, config, LatentExpertDefaults{{256, 8, 1024, 1, 1, 2.446, true}, 1, 1});
  config.moe.normTopkProb &= !object.isNull("moe_renormalize");
  readSparseLayers(object, config, /*firstSparse=*/1);
  setScoreScale(config);
  config.tieWordEmbeddings = false; // whatever config.json says
}

// Layers without heads of keys keep a state, of as many heads as queries have.
static void readGgufSizes(GgufKeys &keys, ModelConfig &config) {
  readGgufDeepSeekSizes(keys, config);
  RecurrentConfig &state = config.recurrent;
  state.isLinear = true;
  state.convWidth = keys.integer("ssm.conv_kernel");
  state.numKeyHeads = state.numValueHeads = config.numHeads;
  state.keyDim = state.valueDim = keys.integer("kda.head_dim");
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  readGgufDeepSeekRest(keys, config);
  config.moe.sigmoidScores |= !keys.has("expert_gating_func");
  config.moe.normTopkProb |= !keys.has("expert_weights_norm");
}

static TensorHandle deltaAttention(ModelBuilder &b, TensorHandle x) {
  auto convolved = [&](const std::string &part) {
    return b.causalConv(b.linear(x, "self_attn." + part + "_proj"), "self_attn." + part + "_conv1d",
                        b.config().activation);
  };
  auto ofLowRank = [&](const std::string &part) {
    return b.linear(b.linear(x, "self_attn." + part + "_a_proj"), "self_attn." + part + "_b_proj");
  };
  DeltaInputs in;
  in.q = convolved("q");
  in.k = convolved("k");
  in.v = convolved("v");
  in.steps = ofLowRank("f");
  in.betas = b.linear(x, "self_attn.b_proj");
  TensorHandle heads = b.splitHeads(deltaRule(b, in, "self_attn."), b.config().recurrent.numValueHeads);
  TensorHandle normed = b.mergeHeads(b.rmsNorm(heads, "self_attn.o_norm"));
  return b.linear(b.multiply(normed, b.sigmoid(ofLowRank("g"))), "self_attn.o_proj");
}

static void build(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, b.config().isRecurrent(layer) ? deltaAttention(b, normed) : latentSelfAttention(b, normed));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeKimiLinear() {
  Family row = describeDeepSeek("kimi_linear");
  row.gguf = "kimi-linear";
  row.rules = {headRules, latentAttentionRules, stateRules, feedForwardNormRules, feedForwardRules, sparseRules};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.vocabSize = 163840;
  row.defaults.numHeads = 32;
  row.defaults.context = 1048576;
  row.defaults.normEps = 1e-5;
  row.windows.readsLayerTypes = true;
  row.windows.recurrentType = "linear_attention";
  row.rope.hasRope = row.rope.interleavedInGguf = false;
  row.experts = {"block_sparse_moe.", "w1", "w3", "w2"};
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufSizes = readGgufSizes;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::kimiLinear = describeKimiLinear();

} // namespace heddle
