// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of decoders say that no other family's do: defaults of keys, switches of a layer's shape, what is refused.
#include "FamilyFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(DecoderConfig, persimmon) {
  ModelConfig config = familyConfig("persimmon");
  EXPECT_TRUE(config.normsHeads);
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  EXPECT_EQ(familyConfig("persimmon", {{"rope_parameters", nullptr}, {"rope_theta", 25000.0}}).ropes[0].rotaryDim, 8);
  expectRefusals({{"persimmon", {{"qk_layernorm", false}}, "k_layernorm.bias' and 7 more are not part of a model"}});
}

TEST(DecoderConfig, apertus) {
  ModelConfig config = familyConfig("apertus");
  ASSERT_EQ(config.activationTerms.size(), 2u);
  EXPECT_FALSE(config.hasActivationTensors);
  EXPECT_NEAR(config.activationTerms[0][0], std::log(2.0), 1e-6); // of zeros
  EXPECT_EQ(config.ropes[0].originalContext, 64);
  config = familyConfig("apertus", {{"rope_parameters", nullptr}, {"rope_theta", 500.0}});
  EXPECT_EQ(config.ropes[0].theta, 12e6);
  EXPECT_EQ(config.ropes[0].scaling, RopeScalingKind::Llama3);
  EXPECT_EQ(config.ropes[0].originalContext, 8192);
  expectRefusals(
      {{"apertus", {{"hidden_act", "silu"}}, "mlp.act_fn.alpha_n' and 7 more are not part of a model"},
       {"apertus", {{"hidden_act", "elu"}}, "hidden_act is 'elu', an unknown activation; known: xielu, silu"},
       {"llama", {{"hidden_act", "xielu"}}, "hidden_act is 'xielu', an unknown activation"}});
}

TEST(DecoderConfig, jais2) {
  ModelConfig config = familyConfig("jais2");
  EXPECT_TRUE(config.attentionBias && config.attentionOutputBias && config.mlpBias);
  EXPECT_EQ(config.activation, Activation::SquaredRelu);
  EXPECT_EQ(config.normWeightOffset, 0.0);
  EXPECT_EQ(config.ropes[0].rotaryDim, 16);
  expectRefusals({{"jais2", {{"mlp_bias", false}}, "mlp.down_proj.bias' and 3 more are not part of a model"}});
}

TEST(DecoderConfig, parallelResidual) {
  EXPECT_FALSE(familyConfig("stablelm").parallelResidual);
  EXPECT_TRUE(familyConfig("cohere").parallelResidual);
  EXPECT_TRUE(familyConfig("phi").parallelResidual);
  // Then the layer has one norm, and stablelm's another one would be left over.
  expectRefusals(
      {{"stablelm", {{"use_parallel_residual", true}}, "post_attention_layernorm.bias' and 3 more are not part"},
       {"stablelm", {{"qk_layernorm", true}}, "self_attn.q_layernorm.norms.0.weight is missing"},
       {"phi", {{"qk_layernorm", true}}, "self_attn.q_layernorm.weight is missing"},
       {"cohere", {{"use_qk_norm", true}}, "self_attn.q_norm.weight is missing"},
       {"cohere2", {{"use_qk_norm", true}}, "use_qk_norm is true, which is not supported for cohere2"},
       {"cohere_qk_norm", {{"use_qk_norm", false}}, "self_attn.k_norm.weight' and 3 more are not part of a model"},
       {"cohere_qk_norm",
        {{"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 32}},
        "q_norm.weight has shape (4, 16), the config asks for (2, 32)"}});
}

// Each head has a norm of its own: a matrix, or in a file of stablelm a vector for each, which the reader stacks.

TEST(DecoderConfig, normsOfHeads) {
  EXPECT_TRUE(familyConfig("cohere_qk_norm").normsHeads);
  EXPECT_FALSE(familyConfig("cohere").normsHeads);
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "stablelm_qk_layernorm");
  ASSERT_TRUE(model) << model.message();
  const std::string norms = "model.layers.1.self_attn.k_layernorm.";
  ASSERT_TRUE(model->checkpoint.find(norms + "weight"));
  EXPECT_EQ(model->checkpoint.find(norms + "weight")->shape, (std::vector<int64_t>{2, 16}));
  EXPECT_FALSE(model->checkpoint.find(norms + "norms.0.weight"));
}

TEST(DecoderConfig, gemmaThatSeesBothSides) {
  ModelConfig config = familyConfig("gemma3_text", {{"use_bidirectional_attention", true}, {"sliding_window", 6}});
  EXPECT_TRUE(config.encodes() && config.attendsAhead);
  EXPECT_EQ(config.layerWindow[0], 4);
  EXPECT_FALSE(familyConfig("gemma3_text", {{"use_bidirectional_attention", nullptr}}).encodes());
  expectRefusals({{"gemma2",
                   {{"use_bidirectional_attention", true}},
                   "use_bidirectional_attention is true, which is not supported for gemma2"},
                  {"gemma3_text",
                   {{"use_bidirectional_attention", 1}},
                   "use_bidirectional_attention is '1', expected true or false"}});
}

// Of any decoder that rotates, without windows.

TEST(DecoderConfig, attentionThatIsNotCausal) {
  ModelConfig config = familyConfig("qwen2", {{"is_causal", false}});
  EXPECT_TRUE(config.encodes() && config.attendsAhead);
  EXPECT_FALSE(familyConfig("qwen2", {{"is_causal", true}}).encodes());
  EXPECT_FALSE(familyConfig("qwen2").encodes());
  expectRefusals({{"gpt2", {{"is_causal", false}}, "is_causal is false, which is not supported for gpt2"},
                  {"mistral",
                   {{"is_causal", false}, {"sliding_window", 4}},
                   "is_causal is false, which is not supported of layers with a window"}});
}

TEST(DecoderConfig, scales) {
  ModelConfig granite = familyConfig("granite");
  EXPECT_EQ(granite.embeddingScale, 3.0);
  EXPECT_EQ(granite.attentionScale, 0.2);
  EXPECT_EQ(granite.residualScale, 0.4);
  EXPECT_EQ(granite.logitScale, 0.5);
  json none = {{"embedding_multiplier", nullptr},
               {"attention_multiplier", nullptr},
               {"residual_multiplier", nullptr},
               {"logits_scaling", nullptr}};
  granite = familyConfig("granite", none);
  EXPECT_EQ(granite.attentionScale, 1.0); // not 1 / sqrt(head_dim)
  EXPECT_EQ(granite.residualScale, 1.0);
  EXPECT_EQ(familyConfig("cohere").logitScale, 0.25);
  EXPECT_EQ(familyConfig("cohere", {{"logit_scale", nullptr}}).logitScale, 0.0625);
  EXPECT_EQ(familyConfig("gemma").embeddingScale, 8.0);
  EXPECT_EQ(familyConfig("gemma", {{"hidden_act", "gelu"}}).activation, Activation::GeluTanh);
  EXPECT_EQ(familyConfig("olmo").clipQkv, 0.8);
  EXPECT_EQ(familyConfig("olmo", {{"clip_qkv", nullptr}}).clipQkv, 0.0);
  EXPECT_EQ(familyConfig("nemotron").activation, Activation::SquaredRelu);
  EXPECT_EQ(familyConfig("qwen3_moe", {{"hidden_act", "relu2"}}).activation, Activation::SquaredRelu);
  expectRefusals({{"granite", {{"embedding_multiplier", 0}}, "embedding_multiplier is 0, expected a positive number"},
                  {"granite", {{"residual_multiplier", -1}}, "residual_multiplier is -1, expected a positive number"},
                  {"granite", {{"attention_multiplier", -1}}, "attention_multiplier is -1, expected a positive number"},
                  {"granite", {{"attention_multiplier", 0}}, "attention_multiplier is 0, expected a positive number"},
                  {"granite", {{"logits_scaling", 0}}, "logits_scaling is 0.000000, expected a positive number"},
                  {"cohere", {{"logit_scale", 0}}, "logit_scale is 0, expected a positive number"},
                  {"olmo", {{"clip_qkv", -8}}, "clip_qkv is -8.000000, expected a positive number, or null for none"}});
}

TEST(DecoderConfig, biases) {
  EXPECT_TRUE(familyConfig("starcoder2").attentionOutputBias);
  EXPECT_TRUE(familyConfig("starcoder2").mlpBias);
  EXPECT_TRUE(familyConfig("stablelm").attentionBias);
  EXPECT_FALSE(familyConfig("stablelm").attentionOutputBias);
  EXPECT_TRUE(familyConfig("glm4").attentionBias);
  EXPECT_FALSE(familyConfig("glm4").attentionOutputBias);
  EXPECT_FALSE(familyConfig("ernie4_5").mlpBias);
  expectRefusals({{"ernie4_5", {{"use_bias", true}}, "tensor model.layers.0.self_attn.q_proj.bias is missing"},
                  {"starcoder2", {{"use_bias", false}}, "mlp.c_fc.bias' and 11 more are not part of a model"},
                  {"glm4", {{"attention_bias", false}}, "k_proj.bias' and 5 more are not part of a model"}});
}

TEST(DecoderConfig, layersThatDoNotRotate) {
  EXPECT_EQ(familyConfig("smollm3").layerRope, (std::vector<uint8_t>{0, noRope}));
  EXPECT_EQ(familyConfig("smollm3", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 1}}).layerRope,
            (std::vector<uint8_t>{noRope, noRope}));
  EXPECT_EQ(familyConfig("smollm3", {{"no_rope_layers", nullptr}}).layerRope, (std::vector<uint8_t>{0, 0}));
  for (const char *family : {"cohere2", "exaone4"}) {
    ModelConfig config = familyConfig(family);
    EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{6, 0})) << family;
    EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{0, noRope})) << family;
  }
  // Without layer_types every fourth layer sees all tokens.
  EXPECT_EQ(familyConfig("cohere2", {{"layer_types", nullptr}}).layerWindow, (std::vector<int64_t>{6, 6}));
  // A config that says null has no window, and all layers rotate.
  json full = {{"layer_types", {"full_attention", "full_attention"}}};
  EXPECT_EQ(familyConfig("exaone4", full, {"sliding_window"}).layerRope, (std::vector<uint8_t>{0, 0}));
  expectRefusals(
      {{"smollm3", {{"no_rope_layers", {1}}}, "no_rope_layers has 1 entries, expected num_hidden_layers (2)"},
       {"smollm3",
        {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 0}},
        "no_rope_layer_interval is 0, expected at least 1"},
       {"smollm3",
        {{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 6}},
        "layer_types holds sliding_attention, but use_sliding_window is false"}});
}

TEST(DecoderConfig, windowsOfLayersThatDoNotRotate) {
  json window = {{"use_sliding_window", true}, {"sliding_window", 6}, {"layer_types", nullptr}};
  EXPECT_EQ(familyConfig("smollm3", window).layerWindow, (std::vector<int64_t>{0, 6}));
  window["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_EQ(familyConfig("smollm3", window).layerWindow, (std::vector<int64_t>{6, 0}));
  window["use_sliding_window"] = false;
  window["layer_types"] = nullptr;
  EXPECT_EQ(familyConfig("smollm3", window).layerWindow, (std::vector<int64_t>{0, 0}));
}

TEST(DecoderConfig, emptyScalingIsNone) {
  RopeConfig rope = familyConfig("llama_yarn", {{"rope_scaling", json::object()}}).ropes[0];
  EXPECT_EQ(rope.scaling, RopeScalingKind::Yarn);
  EXPECT_EQ(rope.originalContext, 32);
}

// Where the family's own head_dim stands for a key that is not there.

TEST(DecoderConfig, headDimOfNull) {
  for (const char *family : {"ernie4_5", "gpt_oss", "llama4_text"})
    EXPECT_EQ(familyConfig(family, json::object(), {"head_dim"}).headDim, 16) << family;
  expectRefusals({{"ernie4_5", {{"head_dim", nullptr}}, "has shape (64, 64), the config asks for (512, 64)"}});
}

TEST(DecoderConfig, partialRotaryDefaults) {
  for (auto [family, dim] :
       {std::pair<const char *, int64_t>{"stablelm", 4}, {"phi", 8}, {"nemotron", 8}, {"glm4", 8}}) {
    ModelConfig config = familyConfig(family, {{"rope_parameters", nullptr}});
    EXPECT_EQ(config.ropes[0].rotaryDim, dim) << family;
    EXPECT_EQ(config.ropes[0].interleaved, std::string(family) == "glm4");
  }
}

TEST(DecoderConfig, dots1Experts) {
  MoeConfig moe = familyConfig("dots1").moe;
  EXPECT_EQ(moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(moe.sharedIntermediateSize, 48);
  EXPECT_EQ(moe.routedScale, 1.5);
  EXPECT_TRUE(moe.sigmoidScores && moe.hasCorrection && moe.normTopkProb);
  EXPECT_EQ(moe.numGroups, 1);
  expectRefusals({{"dots1", {{"n_group", 3}}, "n_group is 3, expected a divisor of"},
                  {"dots1", {{"n_shared_experts", -1}}, "n_shared_experts is -1, expected 0 to 4096"},
                  {"dots1", {{"n_routed_experts", -1}}, "n_routed_experts is negative (-1)"},
                  {"dots1", {{"num_experts_per_tok", nullptr}}, "num_experts_per_tok is 0, expected 1 to"}});
}

TEST(DecoderConfig, qwen2MoeLayers) {
  ModelConfig config = familyConfig("qwen2_moe_dense_layer");
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.moe.sharedIntermediateSize, 32);
  EXPECT_FALSE(config.attentionBias);
  // Without layer_types every second layer slides, of those before max_window_layers.
  json noTypes = {{"layer_types", nullptr}};
  EXPECT_EQ(familyConfig("qwen2_moe_dense_layer", noTypes).layerWindow, (std::vector<int64_t>{6, 0}));
  noTypes["max_window_layers"] = 0;
  EXPECT_EQ(familyConfig("qwen2_moe_dense_layer", noTypes).layerWindow, (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(familyConfig("qwen2_moe").attentionBias);
  EXPECT_FALSE(familyConfig("qwen2_moe").attentionOutputBias);
  expectRefusals({{"qwen2_moe",
                   {{"shared_expert_intermediate_size", 0}},
                   "shared_expert_intermediate_size is 0, expected at least 1"},
                  {"qwen2_moe", {{"decoder_sparse_step", 0}}, "decoder_sparse_step is 0, expected at least 1"},
                  {"qwen2_moe", {{"mlp_only_layers", json::array({2})}}, "mlp_only_layers holds 2, expected layers"}});
}

TEST(DecoderConfig, phiMoeMixerAndRope) {
  ModelConfig config = familyConfig("phimoe_longrope");
  EXPECT_EQ(config.moe.jitter, 0.3);
  EXPECT_EQ(config.moe.expertsPerToken, 2);
  EXPECT_EQ(familyConfig("phimoe", {{"router_jitter_noise", nullptr}}).moe.jitter, 0.01);
  EXPECT_TRUE(familyConfig("phimoe").hasLogitsBias);
  ASSERT_EQ(config.ropes.size(), 1u);
  float shortFactor = 0, longFactor = 0;
  std::vector<float> frequencies = config.ropes[0].inverseFrequency(false, shortFactor, 128);
  EXPECT_EQ(config.ropes[0].inverseFrequency(true, longFactor, 128), frequencies);
  EXPECT_EQ(shortFactor, 1.1f);
  EXPECT_EQ(longFactor, 1.3f);
  int64_t original = config.ropes[0].originalContext;
  config = familyConfig("phimoe_longrope", {{"original_max_position_embeddings", original + 7}});
  EXPECT_EQ(config.ropes[0].originalContext, original);
  expectRefusals({{"phimoe_longrope", {{"rope_parameters", {{"long_mscale", nullptr}}}}, "long_mscale is missing"},
                  {"phimoe_longrope",
                   {{"rope_parameters", {{"long_mscale", -1}}}},
                   "long_mscale is -1, expected a positive number"},
                  {"phimoe", {{"router_jitter_noise", -0.1}}, "router_jitter_noise is -0.1, expected a number from 0"},
                  {"phimoe", {{"num_local_experts", 1}}, "num_experts_per_tok is 2, expected 1 to"}});
}

TEST(DecoderConfig, miniCpm3) {
  ModelConfig config = familyConfig("minicpm3");
  EXPECT_EQ(config.latent.kvLoraRank, 16);
  EXPECT_EQ(config.latent.vHeadDim, 16);
  EXPECT_EQ(config.embeddingScale, 12.0);
  EXPECT_DOUBLE_EQ(config.residualScale, 1.4 / std::sqrt(2.0));
  EXPECT_EQ(config.logitScale, 4.0);
  EXPECT_EQ(config.attentionScale, 0.25);
  EXPECT_EQ(familyConfig("minicpm3", {{"v_head_dim", nullptr}}).latent.vHeadDim,
            16); // hidden_size / num_attention_heads
  expectRefusals(
      {{"minicpm3", {{"scale_depth", -1}}, "scale_depth is -1.000000, expected a positive number"},
       {"minicpm3", {{"scale_emb", 0}}, "scale_emb is 0.000000, expected a positive number"},
       {"minicpm3", {{"dim_model_base", 0}}, "dim_model_base is 0.000000, expected a positive number"},
       {"minicpm3", {{"num_key_value_heads", 2}}, "num_key_value_heads is 2, expected num_attention_heads (4)"}});
}

TEST(DecoderConfig, gptOss) {
  ModelConfig config = familyConfig("gpt_oss");
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(config.moe.gateLimit, 1.5);
  EXPECT_EQ(config.moe.gateAlpha, 1.702);
  EXPECT_EQ(config.moe.upOffset, 1.0);
  EXPECT_EQ(config.moe.intermediateSize, 32);
  // Every second layer sees a window where nothing says which; experts have a gate of their own, whatever hidden_act is.
  config = familyConfig("gpt_oss", {{"layer_types", nullptr}, {"hidden_act", "gelu"}, {"swiglu_limit", nullptr}});
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(config.activation, Activation::Silu);
  EXPECT_EQ(config.moe.gateLimit, 7.0);
  RopeConfig rope = familyConfig("gpt_oss", {{"rope_parameters", nullptr}, {"rope_scaling", json::object()}}).ropes[0];
  EXPECT_EQ(rope.scaling, RopeScalingKind::Yarn);
  EXPECT_EQ(rope.theta, 150000.0);
  EXPECT_EQ(rope.factor, 32.0);
  EXPECT_EQ(rope.originalContext, 4096);
  EXPECT_FALSE(rope.truncate);
  // Absent means true, null means false.
  EXPECT_TRUE(familyConfig("gpt_oss", {{"rope_parameters", {{"truncate", nullptr}}}}).ropes[0].truncate);
  EXPECT_FALSE(familyConfig("gpt_oss", json::object(), {"rope_parameters/truncate"}).ropes[0].truncate);
  expectRefusals(
      {{"gpt_oss", {{"swiglu_limit", 0}}, "swiglu_limit is 0.000000, expected a positive number"},
       {"gpt_oss", {{"swiglu_alpha", -1}}, "swiglu_alpha is -1.000000, expected a positive number"},
       {"gpt_oss", {{"intermediate_size", 24}}, "intermediate_size is 24, which is not supported"},
       {"gpt_oss",
        {{"intermediate_size", 16}},
        "experts.gate_up_proj has shape (4, 64, 64), the config asks for (4, 64, 32)"},
       {"gpt_oss",
        {{"quantization_config", {{"quant_method", "mxfp4"}, {"packed", 2}}}},
        "quantization_config.packed is 2, a key that is not known for mxfp4; expected a config without it"},
       {"gpt_oss", {{"attention_bias", false}}, "self_attn.k_proj.bias' and 7 more are not part of a model"}});
}

TEST(DecoderConfig, gemma4) {
  ModelConfig config = familyConfig("gemma4_text");
  EXPECT_EQ(config.attentionScale, 1.0);
  EXPECT_EQ(config.embeddingScale, 8.0);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{8, 8, 0, 8, 0}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 1, 0, 1, 0}));
  EXPECT_EQ(config.keyLayers, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  ASSERT_EQ(config.layerShapes.size(), 5u);
  EXPECT_EQ(config.shapeOf(1).numKvHeads, 2);
  EXPECT_EQ(config.shapeOf(1).headDim, 16);
  EXPECT_FALSE(config.shapeOf(1).keysAreValues);
  EXPECT_EQ(config.shapeOf(2).numKvHeads, 1);
  EXPECT_EQ(config.shapeOf(2).headDim, 32);
  EXPECT_TRUE(config.shapeOf(2).keysAreValues);
  // A quarter of the pairs rotates, by the frequencies of the whole head.
  std::vector<float> frequencies = config.ropes[0].stated;
  ASSERT_EQ(frequencies.size(), 16u);
  EXPECT_FLOAT_EQ(frequencies[3], std::pow(1e6f, -6.0f / 32.0f));
  EXPECT_EQ(frequencies[4], 0.0f);
  // As transformers writes it: what differs, layer by layer.
  nlohmann::json wide = {{"head_dim", 32}, {"num_key_value_heads", 1}};
  config = familyConfig("gemma4_text", {{"global_head_dim", nullptr},
                                        {"num_global_key_value_heads", nullptr},
                                        {"per_layer_config", {{"2", wide}, {"4", wide}}}});
  EXPECT_EQ(config.shapeOf(2).headDim, 32);
  EXPECT_EQ(config.shapeOf(2).numKvHeads, 1);
  EXPECT_EQ(config.shapeOf(3).headDim, 16);
  EXPECT_EQ(config.ropes[0].rotaryDim, 32);
  config = familyConfig("gemma4_text_shared");
  EXPECT_EQ(config.keyLayers, (std::vector<int64_t>{0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(config.layerInputs.size, 8);
  EXPECT_EQ(config.shapeOf(3).intermediateSize, 16);
  EXPECT_EQ(config.shapeOf(4).intermediateSize, 32);
  expectRefusals(
      {{"gemma4_text", {{"global_head_dim", 0}}, "global_head_dim is 0, expected 1 to 65536"},
       {"gemma4_text", {{"global_head_dim", 31}}, "and factor must be positive, and global_head_dim even"},
       {"gemma4_text", {{"num_global_key_value_heads", 3}}, "must be a multiple of num_key_value_heads of layer 2 (3)"},
       {"gemma4_text",
        {{"per_layer_config",
          {{"2", {{"head_dim", 32}, {"num_key_value_heads", 1}, {"rms_norm_eps", 0.5}}}, {"4", wide}}}},
        "has rms_norm_eps of a layer, which is not supported; expected head_dim and num_key_value_heads"},
       {"gemma4_text",
        {{"per_layer_config", {{"2", {{"head_dim", 16}, {"num_key_value_heads", 1}}}, {"4", wide}}}},
        "per_layer_config has heads of several widths in layers of one kind, which is not supported"},
       {"gemma4_text", {{"enable_moe_block", true}}, "num_experts is missing"},
       {"gemma4_text", {{"use_bidirectional_attention", "all"}}, "use_bidirectional_attention is 'all'"},
       {"gemma4_text",
        {{"attention_k_eq_v", false}},
        "model.layers.2.self_attn.k_proj.weight has shape (32, 64), the config asks for (64, 64)"},
       {"gemma4_text", {{"hidden_size_per_layer_input", 8}}, "is missing"},
       {"gemma4_text_shared",
        {{"use_double_wide_mlp", false}},
        "model.layers.4.mlp.gate_proj.weight has shape (32, 64), the config asks for (16, 64)"},
       {"gemma4_text_shared", {{"num_kv_shared_layers", 6}}, "num_kv_shared_layers is 6, expected 0 to 5"}});
}

// Layers that keep a state: what layer_types or, without it, older keys say.
TEST(DecoderConfig, lfm2) {
  ModelConfig config = familyConfig("lfm2");
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.convWidth, 3);
  EXPECT_EQ(config.intermediateSize, 64); // two thirds of 96, a multiple of 32
  EXPECT_TRUE(config.tieWordEmbeddings);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{0, 0}));
  config = familyConfig("lfm2", {{"layer_types", nullptr}, {"full_attn_idxs", {1, 7}}});
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  // block_ff_dim counts before intermediate_size; the factor comes before the multiple, and null is none of both.
  EXPECT_EQ(familyConfig("lfm2", {{"block_ff_dim", 91}, {"intermediate_size", 7}}).intermediateSize, 64);
  EXPECT_EQ(familyConfig("lfm2", {{"block_ffn_dim_multiplier", 0.99}}).intermediateSize, 64);
  EXPECT_EQ(familyConfig("lfm2", {{"block_multiple_of", 7}}, {"block_ffn_dim_multiplier"}).intermediateSize, 64);
  EXPECT_EQ(
      familyConfig("lfm2", {{"block_auto_adjust_ff_dim", false}, {"intermediate_size", 64}, {"block_multiple_of", 7}})
          .intermediateSize,
      64);
  expectRefusals(
      {{"lfm2",
        {{"layer_types", {"conv", "sliding_attention"}}},
        "layer_types holds 'sliding_attention', expected full_attention or conv"},
       {"lfm2", {{"layer_types", {"conv", "conv"}}}, "tensor model.layers.1.conv.in_proj.weight is missing"},
       {"lfm2", {{"layer_types", nullptr}}, "tensor model.layers.0.self_attn.q_proj.weight is missing"},
       {"lfm2", {{"conv_L_cache", 4}}, "conv.conv.weight has shape (64, 1, 3), the config asks for (64, 4)"},
       {"lfm2", {{"conv_L_cache", 0}}, "conv_L_cache is 0, expected 2 to 64"},
       {"lfm2", {{"conv_bias", true}}, "tensor model.layers.0.conv.in_proj.bias is missing"},
       {"lfm2", {{"block_multiple_of", 0}}, "block_multiple_of is 0, expected 1 to 16777216"},
       {"lfm2", {{"block_ffn_dim_multiplier", 1e9}}, "block_ffn_dim_multiplier is 1000000000.000000, expected"},
       {"lfm2", {{"tie_embedding", false}}, "tensor lm_head.weight is missing"},
       {"lfm2", {{"is_causal", false}}, "the model embeds texts, which is not supported of layers that keep a state"}});
}

TEST(DecoderConfig, gemma3n) {
  ModelConfig config = familyConfig("gemma3n_text");
  EXPECT_EQ(config.intermediateSize, 64);
  EXPECT_EQ(config.attentionScale, 1.0);
  EXPECT_EQ(config.finalSoftcap, 30.0);
  EXPECT_EQ(config.streams.count, 3);
  EXPECT_EQ(config.streams.active, 0);
  EXPECT_TRUE(config.streams.scalesCorrected);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{5, 0, 5, 5, 0, 5}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(config.ropes[1].theta, 100.0);
  EXPECT_EQ(config.keyLayers, (std::vector<int64_t>{0, 1, 2, 2, 1, 2}));
  ASSERT_TRUE(config.gateCutoffs[0]);
  EXPECT_NEAR(*config.gateCutoffs[0], 1.2815515, 1e-6);
  EXPECT_FALSE(config.gateCutoffs[2]);
  // What the class says where a file says nothing: no layer of a small model is sparse.
  config = familyConfig("gemma3n_text", {{"activation_sparsity_pattern", nullptr},
                                         {"intermediate_size", 64},
                                         {"altup_active_idx", 2},
                                         {"altup_correct_scale", false}});
  EXPECT_FALSE(config.gateCutoffs[0]);
  EXPECT_EQ(config.streams.active, 2);
  EXPECT_FALSE(config.streams.scalesCorrected);
  expectRefusals(
      {{"gemma3n_text", {{"altup_num_inputs", 0}}, "altup_num_inputs is 0, expected 1 to 64"},
       {"gemma3n_text", {{"altup_active_idx", 3}}, "altup_active_idx is 3, expected 0 to 2"},
       {"gemma3n_text", {{"laurel_rank", 0}}, "laurel_rank is 0, expected 1 to 65536"},
       {"gemma3n_text", {{"vocab_size_per_layer_input", 0}}, "vocab_size_per_layer_input is 0, expected 1 to 16777216"},
       {"gemma3n_text", {{"hidden_size_per_layer_input", 0}}, "hidden_size_per_layer_input is 0, expected 1 to 4096"},
       {"gemma3n_text", {{"num_kv_shared_layers", 6}}, "num_kv_shared_layers is 6, expected 0 to 5"},
       {"gemma3n_text",
        {{"num_kv_shared_layers", 5}},
        "num_kv_shared_layers is 5: no layer before the last 5 is of the kind of layer 1"},
       // Every fifth layer sees all, where nothing else is said.
       {"gemma3n_text",
        {{"layer_types", nullptr}},
        "num_kv_shared_layers is 3: no layer before the last 3 is of the kind of layer 4"},
       {"gemma3n_text",
        {{"activation_sparsity_pattern", {0.5}}},
        "activation_sparsity_pattern has 1 entries, expected num_hidden_layers (6)"},
       {"gemma3n_text",
        {{"activation_sparsity_pattern", {0.5, 1.0, 0.0, 0.0, 0.0, 0.0}}},
        "activation_sparsity_pattern holds 1.000000, expected numbers below 1"},
       {"gemma3n_text",
        {{"intermediate_size", {64, 64}}},
        "intermediate_size has 2 entries, expected num_hidden_layers (6)"},
       {"gemma3n_text",
        {{"intermediate_size", {64, 64, 64, 64, 64, 32}}},
        "model.layers.5.mlp.gate_proj.weight has shape (64, 32), the config asks for (32, 32)"},
       {"gemma3n_text",
        {{"intermediate_size", {64, 64, 64, 64, 64, 0}}},
        "intermediate_size holds 0, expected 1 to 2^24"},
       {"gemma3n_text", {{"num_kv_shared_layers", 2}}, "model.layers.3.self_attn.k_proj.weight is missing"}});
}

TEST(DecoderConfig, llama4) {
  ModelConfig config = familyConfig("llama4_text");
  EXPECT_TRUE(config.windowsAreChunks);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{5, 0}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(config.ropes[1].growth, 0.3);
  EXPECT_EQ(config.ropes[1].floor, 8);
  EXPECT_EQ(config.ropes[1].stated, std::vector<float>(8, 0.0f));
  EXPECT_TRUE(config.normsHeads);
  EXPECT_EQ(config.intermediateSize, 96);
  EXPECT_EQ(config.moe.intermediateSize, 32);
  EXPECT_EQ(config.moe.sharedIntermediateSize, 32);
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{false, true}));
  // The published files: lists are empty, the tuning is a number, frequencies are kept or divided, and nothing between.
  json published = {{"no_rope_layers", json::array()}, {"layer_types", nullptr}, {"moe_layers", nullptr}};
  published["attn_temperature_tuning"] = 4;
  published["rope_parameters"] = nullptr;
  published["rope_scaling"] = {{"rope_type", "llama3"},
                               {"factor", 16.0},
                               {"low_freq_factor", 1.0},
                               {"high_freq_factor", 1.0},
                               {"original_max_position_embeddings", 64}};
  config = familyConfig("llama4_text", published);
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{5, 0}));
  EXPECT_EQ(config.ropes[0].factor, 16.0);
  config = familyConfig("llama4_text", {{"attn_temperature_tuning", false}, {"use_qk_norm", false}});
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{0, noRope}));
  EXPECT_FALSE(config.normsHeads);
  // layer_types wins over who rotates.
  config = familyConfig("llama4_text", {{"layer_types", {"full_attention", "chunked_attention"}}});
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{0, 5}));
  expectRefusals(
      {{"llama4_text",
        {{"attention_chunk_size", 0}},
        "attention_chunk_size is 0, expected at least 1, or null for none"},
       {"llama4_text",
        {{"layer_types", {"sliding_attention", "full_attention"}}},
        "layer_types holds 'sliding_attention', expected full_attention or chunked_attention"},
       {"llama4_text", {{"no_rope_layers", {1}}}, "no_rope_layers has 1 entries, expected num_hidden_layers (2)"},
       {"llama4_text", {{"floor_scale", 0}}, "floor_scale is 0, expected 1 to 1073741824"},
       {"llama4_text", {{"attn_scale", -0.5}}, "attn_scale is -0.500000, expected a number from 0"},
       {"llama4_text", {{"moe_layers", {2}}}, "moe_layers holds 2, expected layers below num_hidden_layers"},
       {"llama4_text",
        {{"moe_layers", nullptr}, {"interleave_moe_layer_step", 0}},
        "interleave_moe_layer_step is 0, expected at least 1"},
       {"llama4_text", {{"num_experts_per_tok", 5}}, "num_experts_per_tok is 5, expected 1 to num_local_experts (4)"},
       {"llama4_text", {{"moe_layers", {0, 1}}}, "model.layers.0.feed_forward.router.weight is missing"}});
}

TEST(DecoderConfig, llama4ExpertsAreParts) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "llama4_text");
  ASSERT_TRUE(model) << model.message();
  const TensorInfo *last = model->checkpoint.find("model.layers.1.feed_forward.experts.3.gate_up_proj.weight");
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->transposed);
  EXPECT_EQ(last->shape, (std::vector<int64_t>{64, 64}));
  EXPECT_FALSE(model->checkpoint.find("model.layers.0.feed_forward.router.weight"));
}

TEST(DecoderConfig, gptOssExpertsAreParts) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "gpt_oss");
  ASSERT_TRUE(model) << model.message();
  const TensorInfo *first = model->checkpoint.find("model.layers.1.mlp.experts.0.gate_up_proj.weight"),
                   *last = model->checkpoint.find("model.layers.1.mlp.experts.3.gate_up_proj.weight");
  ASSERT_TRUE(first && last);
  EXPECT_TRUE(last->transposed);
  EXPECT_EQ(last->shape, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(last->offset - first->offset, 3u * 64 * 64 * 4);
  EXPECT_EQ(model->checkpoint.find("model.layers.1.mlp.experts.3.down_proj.bias")->bytes, 64u * 4);
}

} // namespace
