// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of decoders with experts, and of others whose keys differ in name or place, say that no other family's do.
#include "FamilyFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(ExpertsConfig, miniMaxM2) {
  ModelConfig config = familyConfig("minimax_m2");
  EXPECT_TRUE(config.moe.sigmoidScores && config.moe.normTopkProb && config.moe.hasCorrection);
  EXPECT_EQ(config.moe.intermediateSize, 32);
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  // As published files have it: how much of a head rotates, and what the reference takes for granted.
  json published = {{"rope_parameters", nullptr}, {"rope_theta", 500}, {"rotary_dim", 4}, {"use_qk_norm", true}};
  published["scoring_func"] = "sigmoid";
  published["qk_norm_type"] = "per_layer";
  published["attn_type_list"] = {1, 1};
  config = familyConfig("minimax_m2", published);
  EXPECT_EQ(config.ropes[0].rotaryDim, 4);
  EXPECT_EQ(config.ropes[0].theta, 500.0);
  published["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(familyConfig("minimax_m2", published).ropes[0].rotaryDim, 8);
  expectRefusals(
      {{"minimax_m2",
        {{"scoring_func", "softmax"}},
        "scoring_func is 'softmax', which is not supported for minimax_m2; expected sigmoid"},
       {"minimax_m2", {{"use_qk_norm", false}}, "use_qk_norm is false, which is not supported for minimax_m2"},
       {"minimax_m2", {{"use_routing_bias", false}}, "use_routing_bias is false, which is not supported"},
       {"minimax_m2", {{"shared_intermediate_size", 64}}, "shared_intermediate_size is 64, which is not supported"},
       {"minimax_m2",
        {{"attn_type_list", {1, 0}}},
        "attn_type_list is with 0, which is not supported for minimax_m2; expected 1 for each layer"},
       {"minimax_m2", {{"num_local_experts", 0}}, "num_local_experts is 0, expected at least 1"}});
}

TEST(ExpertsConfig, ernie) {
  MoeConfig moe = familyConfig("ernie4_5_moe").moe;
  EXPECT_TRUE(moe.hasCorrection && moe.normTopkProb);
  EXPECT_FALSE(moe.sigmoidScores);
  EXPECT_EQ(moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(moe.sharedIntermediateSize, 48);
  json others = {{"moe_k", nullptr}, {"num_experts_per_tok", 3}, {"moe_num_experts", 9}, {"num_experts", 4}};
  moe = familyConfig("ernie4_5_moe", others).moe;
  EXPECT_EQ(moe.expertsPerToken, 3);
  EXPECT_EQ(moe.numExperts, 4);
  EXPECT_EQ(familyConfig("ernie4_5_moe", {{"moe_norm_min", 0}}).moe.numExperts, 4);
  // The last layer that has experts is the first.
  expectRefusals({{"ernie4_5_moe", {{"moe_layer_end_index", 0}}, "model.layers.1.mlp.gate_proj.weight is missing"},
                  {"ernie4_5_moe", {{"moe_layer_start_index", 2}}, "model.layers.1.mlp.gate_proj.weight is missing"},
                  {"ernie4_5_moe", {{"moe_layer_interval", 0}}, "moe_layer_interval is 0, expected at least 1"},
                  {"ernie4_5_moe", {{"moe_num_experts", 0}}, "moe_num_experts is 0, expected 1 to 4096"},
                  {"ernie4_5_moe", {{"num_experts", 0}}, "num_experts is 0, expected 1 to 4096"},
                  {"ernie4_5_moe", {{"moe_k", 5}}, "moe_k is 5, expected 1 to moe_num_experts (4)"},
                  {"ernie4_5_moe", {{"moe_norm_min", 0.75}}, "moe_norm_min is 0.75, which is not supported; expected"},
                  {"ernie4_5_moe", {{"moe_num_shared_experts", -1}}, "moe_num_shared_experts is -1, expected 0 to"},
                  {"ernie4_5_moe", {{"use_bias", true}}, "self_attn.q_proj.bias is missing"}});
}

// Beside the feed-forward block of every layer, in two tensors, whose rows are split.
TEST(ExpertsConfig, gemma4) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "gemma4_text_moe");
  ASSERT_TRUE(model) << model.message();
  const MoeConfig &moe = model->config.moe;
  EXPECT_EQ(moe.layerIsMoe, std::vector<bool>(3, true));
  EXPECT_EQ(moe.numExperts, 4);
  EXPECT_EQ(moe.expertsPerToken, 2);
  EXPECT_EQ(moe.intermediateSize, 24);
  EXPECT_EQ(model->config.shapeOf(0).intermediateSize, 16);
  EXPECT_TRUE(moe.normTopkProb && moe.splitGates);
  const TensorInfo *fused = model->checkpoint.find("model.layers.1.experts.3.up_proj.weight");
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->shape, (std::vector<int64_t>{24, 64}));
  EXPECT_FALSE(fused->transposed);
  EXPECT_EQ(fused->offset - model->checkpoint.find("model.layers.1.experts.0.gate_proj.weight")->offset,
            sizeof(float) * 7 * 24 * 64);
  // Without them their sizes do not count.
  EXPECT_EQ(familyConfig("gemma4_text", {{"num_experts", 4}, {"top_k_experts", 9}}).moe.numExperts, 0);
  expectRefusals(
      {{"gemma4_text_moe", {{"num_experts", 0}}, "num_experts is 0, expected at least 1"},
       {"gemma4_text_moe", {{"num_experts", 5000}}, "num_experts is 5000, expected 0 to 4096"},
       {"gemma4_text_moe", {{"num_experts", 5}}, "experts.gate_up_proj has shape (4, 48, 64), the config asks for"},
       {"gemma4_text_moe", {{"top_k_experts", 5}}, "top_k_experts is 5, expected 1 to num_experts (4)"},
       {"gemma4_text_moe", {{"top_k_experts", nullptr}}, "top_k_experts is missing"},
       {"gemma4_text_moe", {{"moe_intermediate_size", nullptr}}, "moe_intermediate_size is missing"},
       {"gemma4_text_moe", {{"moe_intermediate_size", 0}}, "moe_intermediate_size is 0, expected 1 to"},
       {"gemma4_text_moe", {{"enable_moe_block", false}}, "are not part"}});
}

TEST(ExpertsConfig, glm4Moe) {
  ModelConfig config = familyConfig("glm4_moe");
  EXPECT_TRUE(config.normsHeads && config.attentionBias && config.moe.sigmoidScores);
  EXPECT_FALSE(config.attentionOutputBias);
  EXPECT_EQ(config.numPredictionLayers, 1);
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  EXPECT_EQ(
      familyConfig("glm4_moe", {{"num_nextn_predict_layers", 2}, {"num_mtp_layers", nullptr}}).numPredictionLayers, 2);
  expectRefusals(
      {{"glm4_moe", {{"use_qk_norm", false}}, "'model.layers.0.self_attn.k_norm.weight' and 3 more are not part"},
       {"glm4_moe", {{"n_group", 3}}, "n_group is 3, expected a divisor of"}});
}

TEST(ExpertsConfig, lfm2Moe) {
  ModelConfig config = familyConfig("lfm2_moe");
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_TRUE(config.moe.sigmoidScores && config.moe.hasCorrection && config.moe.normTopkProb);
  EXPECT_EQ(config.intermediateSize, 96);
  expectRefusals({{"lfm2_moe", {{"layer_types", nullptr}}, "layer_types is missing"},
                  {"lfm2_moe", {{"use_expert_bias", false}}, "feed_forward.expert_bias' is not part of a model"},
                  {"lfm2_moe", {{"num_dense_layers", 0}}, "model.layers.0.feed_forward.gate.weight is missing"},
                  {"lfm2_moe", {{"num_experts", 5}}, "feed_forward.gate.weight has shape (4, 64), the config asks"}});
}

TEST(ExpertsConfig, qwen3Next) {
  ModelConfig config = familyConfig("qwen3_next");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.channels(), 80);
  EXPECT_EQ(config.recurrent.values(), 48);
  EXPECT_FALSE(config.recurrent.isSplit);
  EXPECT_EQ(config.normWeightOffset, 1.0);
  EXPECT_EQ(config.ropes[0].rotaryDim, 4);
  EXPECT_EQ(config.moe.sharedIntermediateSize, 48);
  config = familyConfig("qwen3_next", {{"layer_types", nullptr}, {"full_attention_interval", 2}});
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  config = familyConfig("qwen3_5_moe_text");
  EXPECT_TRUE(config.recurrent.isSplit && config.recurrent.ratesAreLogs && config.moe.normTopkProb);
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{true, true}));
  EXPECT_TRUE(familyConfig("qwen3_5_text").recurrent.isLinear);
  expectRefusals(
      {{"qwen3_next", {{"layer_types", nullptr}}, "model.layers.1.linear_attn.conv1d.weight is missing"},
       {"qwen3_next",
        {{"layer_types", nullptr}, {"full_attention_interval", 0}},
        "full_attention_interval is 0, expected a positive number"},
       {"qwen3_next", {{"linear_num_key_heads", 3}}, "linear_num_value_heads (4) must be a multiple of"},
       {"qwen3_next", {{"linear_num_key_heads", 0}}, "linear_num_key_heads is 0, expected 1 to 4096"},
       {"qwen3_next", {{"linear_value_head_dim", 2000}}, "linear_value_head_dim is 2000, expected 1 to 1024"},
       {"qwen3_next", {{"linear_value_head_dim", 13}}, "the config asks for"},
       {"qwen3_next", {{"linear_conv_kernel_dim", 1}}, "linear_conv_kernel_dim is 1, expected 2 to 64"},
       {"qwen3_next", {{"mlp_only_layers", {0}}}, "model.layers.0.mlp.gate_proj.weight is missing"},
       {"qwen3_next", {{"attention_bias", true}}, "model.layers.1.self_attn.q_proj.bias is missing"},
       {"qwen3_5_text", {{"layer_types", {"conv", "full_attention"}}}, "expected full_attention or linear_attention"},
       {"qwen3_5_moe_text", {{"shared_expert_intermediate_size", 0}}, "expected at least 1"}});
}

TEST(ExpertsConfig, granite) {
  ModelConfig config = familyConfig("granitemoeshared");
  EXPECT_EQ(config.moe.sharedIntermediateSize, 48);
  EXPECT_EQ(config.residualScale, 0.4);
  config = familyConfig("granitemoehybrid");
  EXPECT_EQ(config.intermediateSize, 48);
  EXPECT_EQ(config.ropes.size(), 1u);
  // As the published files name the layers; without a rotation that is named there is none.
  json published = {{"layer_types", {"attention", "attention"}}, {"position_embedding_type", nullptr}};
  EXPECT_TRUE(familyConfig("granitemoehybrid", published).ropes.empty());
  expectRefusals(
      {{"granitemoehybrid",
        {{"layer_types", {"attention", "conv"}}},
        "layer_types holds 'conv', expected full_attention or linear_attention"},
       {"granitemoehybrid", {{"layer_types", {"attention"}}}, "layer_types has 1 entries, expected num_hidden_layers"},
       {"granitemoehybrid", {{"num_local_experts", 4}}, "block_sparse_moe.router.layer.weight is missing"},
       {"granitemoehybrid", {{"shared_intermediate_size", 0}}, "shared_intermediate_size is 0, expected 1 to"},
       {"granitemoehybrid",
        {{"shared_intermediate_size", 32}},
        "shared_mlp.input_linear.weight has shape (96, 64), the config asks for (64, 64)"},
       {"granitemoeshared", {{"shared_intermediate_size", -1}}, "shared_intermediate_size is -1, expected 0 to"},
       {"granitemoeshared",
        {{"shared_intermediate_size", 0}},
        "model.layers.0.shared_mlp.input_linear.weight' and 3 more are not part of"},
       {"granitemoe",
        {{"num_local_experts", 3}},
        "block_sparse_moe.input_linear.weight has shape (4, 64, 64), the config asks for (3, 64, 64)"}});
}

// Layers that keep a state, under both names; without any all do.
TEST(ExpertsConfig, graniteStates) {
  ModelConfig config = familyConfig("granitemoehybrid_experts");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.values(), 128);
  EXPECT_EQ(config.recurrent.channels(), 176);
  EXPECT_EQ(config.recurrent.inputs(), 312);
  EXPECT_TRUE(config.recurrent.hasBias && !config.recurrent.hasProjectionBias);
  EXPECT_EQ(config.moe.sharedIntermediateSize, 48);
  EXPECT_EQ(config.moe.intermediateSize, 24);
  json older = {{"layer_types", nullptr}, {"layers_block_type", {"mamba", "attention"}}, {"mamba_d_head", "auto"}};
  EXPECT_EQ(familyConfig("granitemoehybrid_experts", older).recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_FALSE(familyConfig("granitemoehybrid").hasStates());
  expectRefusals(
      {{"granitemoehybrid_experts", {{"layer_types", nullptr}}, "model.layers.1.mamba.in_proj.weight is missing"},
       {"granitemoehybrid_experts", {{"mamba_n_heads", 5}}, "mamba_n_heads (5) by mamba_d_head is not mamba_expand by"},
       {"granitemoehybrid_experts", {{"mamba_d_head", 15}}, "mamba_n_heads (8) by mamba_d_head is not mamba_expand by"},
       {"granitemoehybrid_experts",
        {{"mamba_n_groups", 3}},
        "mamba_n_heads (8) must be a multiple of mamba_n_groups (3)"},
       {"granitemoehybrid_experts", {{"mamba_conv_bias", false}}, "model.layers.0.mamba.conv1d.bias' is not part of"},
       {"granitemoehybrid_experts", {{"mamba_proj_bias", true}}, "model.layers.0.mamba.in_proj.bias is missing"},
       {"granitemoehybrid_experts", {{"mamba_expand", 0}}, "mamba_expand is 0, expected 1 to 1024"},
       {"granitemoehybrid_experts", {{"time_step_limit", {0.0, 0.5}}}, "time_step_limit bounds steps, which is not"},
       {"granitemoehybrid_experts",
        {{"time_step_limit", {0.1, nullptr}}},
        "time_step_limit bounds steps, which is not"},
       {"granitemoehybrid_experts", {{"is_causal", false}}, "which is not supported of layers that keep a state"}});
}

// The same mixer in every layer, in some, beside attention, and alone.
TEST(ExpertsConfig, mambaKin) {
  ModelConfig config = familyConfig("mamba2");
  EXPECT_TRUE(config.isRecurrent(0) && !config.hasAttention());
  EXPECT_EQ(config.recurrent.inputs(), 312);
  EXPECT_EQ(familyConfig("bamba").recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(familyConfig("bamba").ropes.at(0).rotaryDim, 8);
  config = familyConfig("falcon_h1", {{"key_multiplier", 0.5}, {"ssm_multipliers", {1, 2, 3, 4, 5}}});
  EXPECT_TRUE(config.isRecurrent(0) && config.attends(0) && config.recurrent.isScaled());
  EXPECT_EQ(config.attentionScale, 0.125);
  EXPECT_EQ(config.recurrent.norm, StateNorm::None);
  config = familyConfig("nemotron_h");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(config.attending, (std::vector<bool>{false, false, true}));
  json older = {{"layers_block_type", nullptr}, {"hybrid_override_pattern", "M-*"}};
  EXPECT_EQ(familyConfig("nemotron_h", older).attending, config.attending);
  expectRefusals(
      {{"mamba2", {{"head_dim", 15}}, "num_heads (8) by head_dim is not expand by hidden_size (128)"},
       {"mamba2", {{"conv_kernel", 1}}, "conv_kernel is 1, expected 2 to 64"},
       {"mamba2", {{"use_bias", true}}, "backbone.layers.0.mixer.in_proj.bias is missing"},
       {"mamba2", {{"is_causal", false}}, "is_causal is false, which is not supported for mamba2"},
       {"bamba", {{"attn_layer_indices", {0}}}, "model.layers.0.self_attn.q_proj.weight is missing"},
       {"falcon_h1", {{"mamba_d_ssm", 97}}, "mamba_n_heads (8) by mamba_d_head is not mamba_d_ssm (97)"},
       {"falcon_h1", {{"mamba_rms_norm", true}}, "model.layers.0.mamba.norm.weight is missing"},
       {"falcon_h1", {{"projectors_bias", true}}, "model.layers.0.mamba.out_proj.bias is missing"},
       {"falcon_h1", {{"key_multiplier", 0}}, "key_multiplier is 0.000000, expected a positive number"},
       {"falcon_h1", {{"mlp_multipliers", {1}}}, "mlp_multipliers has 1 entries, expected 2"},
       {"falcon_h1", {{"ssm_multipliers", {1, 1, 1, 1, -1}}}, "ssm_multipliers holds -1.000000, expected positive"},
       {"nemotron_h",
        {{"layers_block_type", {"linear_attention", "mlp", "conv"}}},
        "layers_block_type holds 'conv', expected linear_attention (M), full_attention (*), mlp (-) or moe (E)"},
       {"nemotron_h", {{"layers_block_type", nullptr}}, "hybrid_override_pattern is missing"},
       {"nemotron_h",
        {{"layers_block_type", nullptr}, {"hybrid_override_pattern", "ME*"}},
        "backbone.layers.1.mixer.gate.weight is missing"},
       {"nemotron_h", {{"mlp_bias", true}}, "backbone.layers.1.mixer.up_proj.bias is missing"},
       {"nemotron_h_latent", {{"moe_latent_size", 0}}, "moe_latent_size is 0, expected a positive number or null"},
       {"nemotron_h_latent",
        {{"moe_latent_size", nullptr}},
        "experts.0.up_proj.weight has shape (24, 40), the config asks for (24, 64)"},
       {"nemotron_h_latent",
        {{"moe_shared_expert_intermediate_size", 0}},
        "moe_shared_expert_intermediate_size is 0, expected 1 to 16777216"},
       {"nemotron_h", {{"mamba_hidden_act", "sin"}}, "mamba_hidden_act is 'sin', an unknown activation"},
       {"nemotron_h", {{"time_step_min", 0.1}}, "time_step_min is 0.100000, a bound of steps that is not supported"}});
}

// Experts without a gate, of a width of their own.
TEST(ExpertsConfig, nemotronWithExperts) {
  ModelConfig config = familyConfig("nemotron_h_latent");
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(config.moe.latentSize, 40);
  EXPECT_EQ(config.moe.sharedIntermediateSize, 32);
  json older = {{"layers_block_type", nullptr}, {"hybrid_override_pattern", "EM*"}};
  EXPECT_EQ(familyConfig("nemotron_h_latent", older).moe.layerIsMoe, config.moe.layerIsMoe);
  EXPECT_EQ(familyConfig("nemotron_h").moe.numExperts, 0);
}

// The graph of DeepSeek V3 under other defaults and names.
TEST(ExpertsConfig, deepSeekKin) {
  json all = {{"mlp_layer_types", {"sparse", "dense"}}};
  EXPECT_EQ(familyConfig("glm4_moe_lite").moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(familyConfig("glm4_moe_lite", {{"mlp_layer_types", nullptr}}).moe.layerIsMoe,
            (std::vector<bool>{false, true}));
  EXPECT_EQ(familyConfig("youtu", {{"rope_interleave", false}}).ropes.at(0).interleaved, false);
  json yarn = {{"type", "deepseek_yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  ModelConfig sarvam = familyConfig("sarvam_mla", {{"rope_parameters", nullptr}, {"rope_scaling", yarn}});
  EXPECT_EQ(sarvam.ropes.at(0).scaling, RopeScalingKind::Yarn);
  EXPECT_EQ(familyConfig("sarvam_mla", {{"n_routed_experts", nullptr}, {"num_experts", 4}}).moe.numExperts, 4);
  EXPECT_TRUE(familyConfig("axk1").moe.hasCorrection); // by zeros
  expectRefusals(
      {{"glm4_moe_lite", all, "model.layers.1.mlp.gate_proj.weight is missing"},
       {"glm4_moe_lite", {{"head_dim", 4}}, "has shape (64, 20), the config asks for (48, 20)"},
       {"glm4_moe_lite",
        {{"mlp_layer_types", nullptr}, {"first_k_dense_replace", 2}},
        "first_k_dense_replace is 2, which is not supported for glm4_moe_lite; expected 1, or mlp_layer_types"},
       {"glm4_moe_lite", {{"topk_method", "greedy"}}, "topk_method is 'greedy', which is not supported"},
       {"axk1", {{"moe_layer_freq", 2}}, "moe_layer_freq is 2, which is not supported; expected 1"},
       {"glm4_moe_lite", {{"rope_parameters", nullptr}, {"rope_scaling", yarn}}, "is 'deepseek_yarn', which is not"},
       {"youtu", {{"n_routed_experts", 4}}, "n_routed_experts is 4, which is not supported for youtu; expected 0"}});
}

// Layers that keep a state by lightning attention, and by the gated delta rule behind three convolutions.
TEST(ExpertsConfig, statesWithoutConvolutionAndWithThree) {
  ModelConfig config = familyConfig("minimax", {{"linear_attn_alpha_factor", 2.0}, {"mlp_beta_factor", 0.5}});
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.partScales.stateResidual, 2.0);
  EXPECT_EQ(config.partScales.down, 0.5);
  config = familyConfig("olmo_hybrid");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.betaScale, 2.0);
  EXPECT_TRUE(config.ropes.empty()); // its base is null
  EXPECT_EQ(familyConfig("olmo_hybrid", {{"rope_parameters", {{"rope_theta", 100.0}}}}).ropes.at(0).theta, 100.0);
  expectRefusals({{"minimax", {{"sliding_window", 4}}, "sliding_window is 4, which is not supported for minimax"},
                  {"minimax", {{"mlp_alpha_factor", "x"}}, "mlp_alpha_factor"},
                  {"olmo_hybrid", {{"linear_conv_kernel_dim", 1}}, "linear_conv_kernel_dim is 1, expected 2 to 64"},
                  {"olmo_hybrid",
                   {{"linear_value_head_dim", 13}},
                   "linear_attn.v_proj.weight has shape (48, 64), the config asks for (52, 64)"}});
}

// What published files say of states in an object of its own, which counts; the reference's own keys; dense blocks under the sparse ones' name.
TEST(ExpertsConfig, kimiLinear) {
  ModelConfig config = familyConfig("kimi_linear");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_TRUE(config.ropes.empty() && config.moe.sigmoidScores && config.moe.hasCorrection);
  EXPECT_EQ(config.attentionScale, 0.25);
  json lists = {{"full_attn_layers", {2}}, {"kda_layers", {1}}, {"head_dim", 12}, {"num_heads", 4}};
  config = familyConfig("kimi_linear", {{"layer_types", nullptr},
                                        {"linear_attn_config", lists},
                                        {"linear_head_dim", 8},
                                        {"mlp_layer_types", nullptr},
                                        {"first_k_dense_replace", 1},
                                        {"mla_use_nope", true},
                                        {"num_expert_group", 2},
                                        {"n_group", 4}});
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.keyDim, 12);
  EXPECT_EQ(config.moe.numGroups, 2);
  auto listed = [](const json &full, const json &kda) {
    return json{{"layer_types", nullptr}, {"linear_attn_config", {{"full_attn_layers", full}, {"kda_layers", kda}}}};
  };
  expectRefusals(
      {{"kimi_linear", listed({3}, {1}), "full_attn_layers holds 3, expected numbers of layers, 1 to 2"},
       {"kimi_linear", listed({2}, json::array()), "kda_layers lacks layer 1, as does full_attn_layers"},
       {"kimi_linear", {{"mla_use_nope", false}}, "mla_use_nope is false, which is not supported; expected true"},
       {"kimi_linear", {{"moe_router_activation_func", "softmax"}}, "moe_router_activation_func is 'softmax'"},
       {"kimi_linear", {{"linear_head_dim", 0}}, "linear_head_dim is 0, expected 1 to"},
       {"kimi_linear", {{"num_experts", 3}}, "(4, 64), the config asks for (3, 64)"}});
}

// A channel is a head; its width comes from a factor, and steps from a rank, where the file does not say them.
TEST(ExpertsConfig, mamba) {
  RecurrentConfig state = familyConfig("falcon_mamba").recurrent;
  EXPECT_EQ(state.numValueHeads, 128);
  EXPECT_EQ(state.keyDim, 12);
  EXPECT_EQ(state.stepRank, 4);
  EXPECT_EQ(state.partsEps, 1e-6);
  EXPECT_TRUE(state.hasBias && !state.hasProjectionBias);
  json published = {{"intermediate_size", nullptr}, {"expand", 2}, {"time_step_rank", "auto"}};
  state = familyConfig("mamba", published).recurrent;
  EXPECT_EQ(state.numValueHeads, 128);
  EXPECT_EQ(state.stepRank, 4);
  EXPECT_EQ(state.partsEps, 0.0);
  expectRefusals(
      {{"mamba", {{"intermediate_size", 100}}, "(256, 64), the config asks for (200, 64)"},
       {"mamba", {{"intermediate_size", nullptr}, {"expand", 0}}, "expand is 0, expected 1 to 1024"},
       {"mamba", {{"intermediate_size", 65537}}, "intermediate_size is 65537, expected 1 to 65536"},
       {"mamba", {{"state_size", 0}}, "state_size is 0, expected 1 to 1024"},
       {"mamba", {{"time_step_rank", 0}}, "time_step_rank is 0, expected 1 to 65536"},
       {"mamba", {{"use_bias", true}}, "mixer.in_proj.bias is missing"},
       {"falcon_mamba", {{"mixer_rms_eps", 0.0}}, "mixer_rms_eps is 0.000000, expected a number above 0 and below 1"},
       {"jamba", {{"attn_layer_offset", 2}}, "attn_layer_offset is 2, expected 0 to 1"},
       {"jamba", {{"expert_layer_period", 0}}, "expert_layer_period is 0, expected 1 to 1048576"},
       {"jamba", {{"mamba_expand", 3}}, "(256, 64), the config asks for (384, 64)"}});
  EXPECT_EQ(familyConfig("jamba").recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(familyConfig("jamba").moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_FALSE(familyConfig("jamba").moe.normTopkProb);
}

// Published keys of families that GLM-4.5, Granite and Qwen 3 are close to.
TEST(ExpertsConfig, kinOfGlmGraniteAndQwen) {
  EXPECT_EQ(familyConfig("solar_open").moe.layerIsMoe, (std::vector<bool>{true, true}));
  EXPECT_EQ(familyConfig("sarvam_moe", {{"n_routed_experts", nullptr}, {"num_experts", 4}}).moe.numExperts, 4);
  EXPECT_TRUE(familyConfig("sarvam_moe").normsHeads);
  EXPECT_EQ(familyConfig("hyperclovax", {{"logits_scaling", 0.5}}).logitScale, 0.5);
  EXPECT_EQ(familyConfig("mellum").layerRope, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(familyConfig("mellum", {{"layer_types", nullptr}}).layerWindow, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(familyConfig("hy_v3", {{"router_scaling_factor", 2.0}}).moe.routedScale, 2.0);
  EXPECT_EQ(familyConfig("modernbert_decoder").layerWindow, (std::vector<int64_t>{0, 8}));
  expectRefusals(
      {{"sarvam_moe", {{"use_qkv_bias", true}}, "model.layers.0.attention.query_key_value.bias is missing"},
       {"sarvam_moe", {{"use_qk_norm", false}}, "key_layernorm.weight' and 3 more are not part of a model"},
       {"solar_open", {{"use_qk_norm", true}}, "use_qk_norm is true, which is not supported for solar_open"},
       {"hyperclovax", {{"attention_multiplier", 0}}, "attention_multiplier is 0, expected a positive number"},
       {"iquestcoder", {{"clip_qkv", 1.0}}, "clip_qkv is 1.0, which is not supported for iquestcoder"},
       {"hy_v3", {{"qk_norm", false}}, "qk_norm is false, which is not supported for hy_v3; expected true"},
       {"granitemoe_swa", {{"layer_rope_theta", {1.0}}}, "layer_rope_theta has 1 entries, expected"},
       {"modernbert_decoder", {{"sliding_window", 0}}, "sliding_window is 0, expected at least 1"}});
}

TEST(ExpertsConfig, hunYuan) {
  MoeConfig moe = familyConfig("hunyuan_v1_moe", {{"moe_topk", {2, 2}}, {"num_experts", 4}, {"use_qk_norm", true}}).moe;
  EXPECT_EQ(moe.expertsPerToken, 2);
  EXPECT_EQ(moe.sharedIntermediateSize, 32);
  EXPECT_EQ(familyConfig("hunyuan_v1_moe", {{"moe_topk", nullptr}, {"num_experts_per_tok", 2}}).moe.expertsPerToken, 2);
  EXPECT_EQ(familyConfig("hunyuan_v1_moe", {{"num_experts", nullptr}, {"num_local_experts", {4, 4}}}).moe.numExperts,
            4);
  expectRefusals({{"hunyuan_v1_moe", {{"moe_topk", {2, 1}}}, "moe_topk holds 1 beside 2, which is not supported"},
                  {"hunyuan_v1_moe", {{"moe_topk", 5}}, "moe_topk is 5, expected 1 to num_experts (4)"},
                  {"hunyuan_v1_moe", {{"num_local_experts", 0}}, "num_local_experts is 0, expected 1 to 4096"},
                  {"hunyuan_v1_moe", {{"num_experts", 0}}, "num_experts is 0, expected 1 to 4096"}});
}

TEST(ExpertsConfig, layersWithWindows) {
  ModelConfig config = familyConfig("olmo3");
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{8, 0}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(config.ropes[1].scaling, RopeScalingKind::None);
  // The published files: one scaling, which is of the layers that see all tokens.
  json published = {{"rope_parameters", nullptr}, {"layer_types", nullptr}, {"rope_theta", 500000.0}};
  published["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 16}};
  config = familyConfig("olmo3", published);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(config.ropes[0].scaling, RopeScalingKind::Yarn);
  EXPECT_EQ(config.ropes[1].scaling, RopeScalingKind::None);
  EXPECT_EQ(familyConfig("ministral").layerWindow, (std::vector<int64_t>{8, 0}));
  EXPECT_EQ(familyConfig("ministral", {{"layer_types", nullptr}}).layerWindow, (std::vector<int64_t>{8, 8}));
}

// Sections of a head rotate by one position where no image is.
TEST(ExpertsConfig, sections) {
  for (const char *family : {"qwen2_vl", "qwen3_vl"}) {
    ModelConfig config = familyConfig(family);
    EXPECT_EQ(config.ropes[0].scaling, RopeScalingKind::None);
    EXPECT_EQ(config.ropes[0].rotaryDim, 16);
  }
  EXPECT_EQ(familyConfig("qwen2_vl", {{"model_type", "qwen2_5_vl"}}).architecture, "qwen2_5_vl");
  json stretched = {
      {"type", "yarn"}, {"mrope_section", {2, 3, 3}}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  EXPECT_EQ(familyConfig("qwen2_vl", {{"rope_scaling", stretched}}).ropes[0].scaling, RopeScalingKind::Yarn);
}

// Other names of keys, as the published files have them.
TEST(ExpertsConfig, otherNames) {
  json published = {
      {"num_layers", 2}, {"num_hidden_layers", nullptr}, {"layer_norm_epsilon", 1e-3}, {"activation_function", "gelu"}};
  ModelConfig config = familyConfig("exaone", published);
  EXPECT_EQ(config.normEps, 1e-3);
  EXPECT_EQ(config.activation, Activation::Gelu);
  EXPECT_TRUE(familyConfig("internlm3").mlpBias);
  published = {{"qkv_bias", true}, {"bias", true}, {"attention_bias", nullptr}, {"mlp_bias", nullptr}};
  EXPECT_TRUE(familyConfig("internlm3", published).attentionBias);
  expectRefusals(
      {{"exaone", {{"activation_function", "softmax"}}, "activation_function is 'softmax', an unknown activation"},
       {"internlm3", {{"bias", false}}, "bias is not qkv_bias, which is not supported"},
       {"internlm3", {{"qkv_bias", false}, {"bias", false}}, "mlp.down_proj.bias' and 13 more are not part of"}});
}

// What has grown behind the original context is not made.
TEST(ExpertsConfig, ministral3KeepsWithinTheOriginalContext) {
  json rope = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"llama_4_scaling_beta", 0.1}};
  EXPECT_EQ(familyConfig("ministral3", {{"rope_parameters", rope}}).contextLength, 32);
  rope["rope_type"] = "default";
  EXPECT_EQ(familyConfig("ministral3", {{"rope_parameters", rope}}).contextLength, 32);
  rope["llama_4_scaling_beta"] = 0.0;
  EXPECT_EQ(familyConfig("ministral3", {{"rope_parameters", rope}}).contextLength, 128);
  rope["rope_theta"] = nullptr;
  EXPECT_EQ(familyConfig("ministral3", {{"rope_parameters", rope}}).ropes[0].theta, 1e4);
  EXPECT_EQ(familyConfig("ministral3", {{"rope_parameters", rope}, {"rope_theta", 77.0}}).ropes[0].theta, 77.0);
  ModelConfig config = familyConfig("ministral3", {{"rope_parameters", nullptr}, {"rope_theta", 77.0}});
  EXPECT_EQ(config.ropes[0].theta, 1e6);
  EXPECT_EQ(config.ropes[0].factor, 16.0);
  EXPECT_EQ(config.ropes[0].originalContext, 16384);
  rope["llama_4_scaling_beta"] = nullptr;
  json nowhere = {{"rope_type", "default"}, {"original_max_position_embeddings", nullptr}};
  expectRefusals(
      {{"ministral3", {{"rope_parameters", rope}}, "llama_4_scaling_beta is missing"},
       {"ministral3", {{"rope_parameters", nowhere}}, "original_max_position_embeddings is 0, expected at least 1"}});
}

// The base that is meant where rope_parameters does not say it, and where there is no such object.
TEST(ExpertsConfig, ministral3Theta) {
  auto theta = [](const json &patch) { return familyConfig("ministral3", patch).ropes[0].theta; };
  json silent = {{"rope_parameters", {{"rope_theta", nullptr}}}}, none = {{"rope_parameters", nullptr}};
  EXPECT_EQ(theta(silent), 1e4);
  EXPECT_EQ(theta(none), 1e6);
  silent["rope_theta"] = none["rope_theta"] = 5e5;
  EXPECT_EQ(theta(silent), 5e5);
  EXPECT_EQ(theta(none), 1e6);
}

// Beside images the file tells whether embeddings are tied; of a text alone its config does.
TEST(ExpertsConfig, headOfMistral3) {
  for (const char *inner : {"mistral", "ministral3"})
    for (bool isStored : {false, true}) {
      TemporaryFolder folder;
      std::vector<SafetensorsTensor> tensors = tinyTensors();
      if (!isStored)
        tensors.erase(tensors.begin());
      json text = tinyConfig();
      text.update({{"model_type", inner}, {"head_dim", 4}, {"tie_word_embeddings", isStored}});
      writeHuggingFace(folder, {{"model_type", "mistral3"}, {"text_config", text}}, tensors);
      Expected<Model> model = readModel(folder.path());
      ASSERT_TRUE(model) << model.message();
      EXPECT_EQ(model->config.architecture, inner);
      EXPECT_EQ(model->config.tieWordEmbeddings, !isStored);
      writeHuggingFace(folder, text, tensors);
      model = readModel(folder.path());
      EXPECT_EQ(bool(model), isStored);
      if (!isStored)
        EXPECT_NE(std::string(model.message()).find("lm_head.weight is missing, and tie_word_embeddings is false"),
                  std::string::npos);
    }
}

TEST(ExpertsConfig, biasOfOutput) {
  EXPECT_TRUE(familyConfig("seed_oss").attentionBias);
  EXPECT_FALSE(familyConfig("seed_oss").attentionOutputBias);
  expectRefusals({{"seed_oss", {{"attention_out_bias", true}}, "self_attn.o_proj.bias is missing"},
                  {"seed_oss", {{"mlp_bias", true}}, "mlp.gate_proj.bias is missing"}});
}

} // namespace
