// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of GPT's next of kin say, whose keys, rows and positions are not Llama's: names of keys, orders of rows, what is refused.
#include "FamilyFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(DecoderConfig, gptNeoX) {
  ModelConfig config = familyConfig("gpt_neox");
  EXPECT_TRUE(config.parallelResidual);
  EXPECT_TRUE(config.attentionBias);
  EXPECT_EQ(config.ropes[0].rotaryDim, 4);
  EXPECT_EQ(config.normEps, 1e-5);
  EXPECT_FALSE(familyConfig("gpt_neox", {{"use_parallel_residual", false}}).parallelResidual);
  // The dialect of published checkpoints; a quarter of a head rotates where nothing says otherwise.
  RopeConfig rope =
      familyConfig("gpt_neox", {{"rope_parameters", nullptr}, {"rotary_pct", 0.5}, {"rotary_emb_base", 500}}).ropes[0];
  EXPECT_EQ(rope.rotaryDim, 8);
  EXPECT_EQ(rope.theta, 500.0);
  EXPECT_EQ(familyConfig("gpt_neox", {{"rope_parameters", nullptr}}).ropes[0].rotaryDim, 4);
  // As the reference reads: heads are of one width, but the rotation takes its part of head_dim.
  ModelConfig narrow = familyConfig("gpt_neox", {{"num_key_value_heads", 2}, {"head_dim", 8}});
  EXPECT_EQ(narrow.numKvHeads, 4);
  EXPECT_EQ(narrow.headDim, 16);
  EXPECT_EQ(narrow.ropes[0].rotaryDim, 2);
  expectRefusals({{"gpt_neox", {{"attention_bias", false}}, "attention.dense.bias' and 3 more are not part of a model"},
                  {"gpt_neox", {{"use_parallel_residual", 2}}, "use_parallel_residual is '2', expected true or false"},
                  {"gpt_neox", {{"head_dim", 32}}, "head_dim is 32, expected 1 to the width of a head (16)"},
                  {"gpt_neox",
                   {{"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.45}}}},
                   "rope_parameters.partial_rotary_factor and head_dim (16) give 7 rotary dimensions"},
                  {"gpt_neox",
                   {{"rope_parameters", nullptr}, {"rotary_pct", 0.45}},
                   "rotary_pct and head_dim (16) give 7 rotary"}});
}

TEST(DecoderConfig, gptNeoXRowsLieByHead) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "gpt_neox");
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->checkpoint.find("gpt_neox.layers.1.attention.query_key_value.bias")->rowOrder, RowOrder::ByKvHead);
  EXPECT_EQ(model->checkpoint.find("gpt_neox.layers.1.attention.dense.weight")->rowOrder, RowOrder::ByPart);
}

TEST(DecoderConfig, gptJ) {
  ModelConfig config = familyConfig("gptj");
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  EXPECT_TRUE(config.ropes[0].interleaved);
  EXPECT_EQ(config.intermediateSize, 128);
  EXPECT_EQ(config.activation, Activation::GeluTanh);
  expectRefusals({{"gptj", {{"n_inner", nullptr}}, "fc_in.weight has shape (128, 64), the config asks for (256, 64)"},
                  {"gptj", {{"rotary_dim", 7}}, "give 7 rotary dimensions"},
                  {"gptj", {{"rotary_dim", 18}}, "give 18 rotary dimensions"},
                  {"gptj", {{"rotary_dim", "8"}}, "rotary_dim is '\"8\"', expected an integer"}});
}

TEST(DecoderConfig, codeGen) {
  ModelConfig config = familyConfig("codegen");
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  EXPECT_TRUE(config.ropes[0].interleaved);
  EXPECT_EQ(config.intermediateSize, 96);
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "codegen");
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->checkpoint.find("transformer.h.1.attn.qkv_proj.weight")->rowOrder, RowOrder::ByShard);
  // Of four shards of 16 rows each: queries, values, keys.
  RowRuns runs = rowRuns(RowOrder::ByShard, config);
  ASSERT_EQ(runs.size(), 12u);
  EXPECT_EQ(runs[1], std::pair(int64_t(48), int64_t(16)));
  EXPECT_EQ(runs[4], std::pair(int64_t(32), int64_t(16)));
  EXPECT_EQ(runs[11], std::pair(int64_t(160), int64_t(16)));
  expectRefusals({{"codegen", {{"n_embd", 62}, {"n_head", 2}}, "n_embd is 62, expected a multiple of 4"},
                  {"codegen", {{"rotary_dim", 7}}, "give 7 rotary dimensions"}});
  std::string message = familyRefusal("codegen", json::object(), {"rotary_dim"});
  EXPECT_NE(message.find("rotary_dim is null, which is not supported"), std::string::npos) << message;
}

TEST(DecoderConfig, gptBigCode) {
  ModelConfig config = familyConfig("gpt_bigcode");
  EXPECT_EQ(config.numKvHeads, 1);
  EXPECT_EQ(config.intermediateSize, 256);
  EXPECT_EQ(familyConfig("gpt_bigcode", {{"scale_attn_weights", false}}).attentionScale, 1.0);
  expectRefusals(
      {{"gpt_bigcode", {{"multi_query", false}}, "c_attn.weight has shape (96, 64), the config asks for (192, 64)"},
       {"gpt_bigcode", {{"add_cross_attention", true}}, "add_cross_attention is true, which is not supported"}});
}

TEST(DecoderConfig, openAiGpt) {
  EXPECT_EQ(familyConfig("openai_gpt").activation, Activation::GeluTanh);
  EXPECT_EQ(familyConfig("openai_gpt", {{"afn", "swish"}}).activation, Activation::Silu);
  EXPECT_EQ(familyConfig("openai_gpt", {{"afn", "relu"}}).activation, Activation::Relu);
  expectRefusals({{"openai_gpt", {{"afn", "gelu_new"}}, "afn is 'gelu_new', expected gelu, relu, silu or swish"},
                  {"openai_gpt", {{"n_head", 3}}, "n_embd (64) must be a multiple of n_head (3)"}});
}

TEST(DecoderConfig, bioGpt) {
  ModelConfig config = familyConfig("biogpt");
  EXPECT_EQ(config.firstPosition, 2);
  EXPECT_EQ(config.normEps, 1e-5); // whatever layer_norm_eps says
  EXPECT_EQ(config.embeddingScale, 8.0);
  EXPECT_EQ(familyConfig("biogpt", {{"scale_embedding", false}}).embeddingScale, 1.0);
}

TEST(DecoderConfig, xglm) {
  ModelConfig config = familyConfig("xglm");
  EXPECT_EQ(config.firstPosition, 2);
  EXPECT_EQ(config.intermediateSize, 96);
  EXPECT_EQ(config.embeddingScale, 8.0);
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "xglm");
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->checkpoint.find("sinusoidal_positions.weight")->shape, (std::vector<int64_t>{130, 64}));
  expectRefusals({{"xglm",
                   {{"pad_token_id", 5}},
                   "pad_token_id is 5, which is not supported for xglm: it takes away the "
                   "position 3; expected 0 or 1"}});
}

TEST(DecoderConfig, mpt) {
  ModelConfig config = familyConfig("mpt");
  EXPECT_EQ(config.clipQkv, 1.5);
  EXPECT_EQ(config.alibiMaxBias, 8.0);
  EXPECT_EQ(config.contextLength, 128);
  config =
      familyConfig("mpt", {{"attn_config", {{"softmax_scale", 0.5}, {"alibi_bias_max", 4}, {"clip_qkv", nullptr}}}});
  EXPECT_EQ(config.attentionScale, 0.5);
  EXPECT_EQ(config.alibiMaxBias, 4.0);
  EXPECT_EQ(config.clipQkv, 0.0);
  expectRefusals(
      {{"mpt", {{"attn_config", {{"clip_qkv", 0}}}}, "attn_config.clip_qkv is 0.000000, expected a positive number"},
       {"mpt", {{"attn_config", {{"alibi", false}}}}, "attn_config.alibi is false, which is not supported for mpt"},
       {"mpt", {{"attn_config", {{"qk_ln", true}}}}, "attn_config.qk_ln is true, which is not supported for mpt"},
       {"mpt", {{"attn_config", {{"prefix_lm", true}}}}, "attn_config.prefix_lm is true, which is not supported"},
       {"mpt",
        {{"attn_config", {{"attn_type", "multiquery_attention"}}}},
        "attn_config.attn_type is 'multiquery_attention', which is not supported for mpt; expected "
        "multihead_attention"},
       {"mpt", {{"norm_type", "rmsnorm"}}, "norm_type is 'rmsnorm', which is not supported for mpt"},
       {"mpt", {{"logit_scale", "inv_sqrt_d_model"}}, "which is not supported for mpt; expected 1"}});
}

TEST(DecoderConfig, opt) {
  ModelConfig config = familyConfig("opt");
  EXPECT_EQ(config.contextLength, 128);
  EXPECT_EQ(config.firstPosition, 2);
  EXPECT_EQ(config.embeddingSize, 0);
  EXPECT_TRUE(config.normsBefore && config.hasFinalNorm && config.attentionBias && config.mlpBias);
  expectRefusals(
      {{"opt", {{"word_embed_proj_dim", 32}}, "embed_tokens.weight has shape (256, 64), the config asks for (256, 32)"},
       {"opt", {{"word_embed_proj_dim", 65}}, "word_embed_proj_dim is 65, expected 1 to hidden_size (64)"},
       {"opt", {{"do_layer_norm_before", false}}, "model.decoder.final_layer_norm.bias' and 1 more are not part"},
       {"opt", {{"_remove_final_layer_norm", true}}, "_remove_final_layer_norm is true, which is not supported where"},
       {"opt", {{"enable_bias", false}}, "fc1.bias' and 11 more are not part"},
       {"opt",
        {{"layer_norm_elementwise_affine", false}},
        "layer_norm_elementwise_affine is false, which is not supported"},
       {"opt",
        {{"max_position_embeddings", 130}},
        "embed_positions.weight has shape (130, 64), the config asks for (132, 64)"}});
}

TEST(DecoderConfig, gptNeoLayers) {
  ModelConfig config = familyConfig("gpt_neo");
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{0, 6}));
  EXPECT_EQ(config.attentionScale, 1.0);
  EXPECT_EQ(config.numKvHeads, 4);
  // Layer by layer it wins over what repeats.
  EXPECT_EQ(familyConfig("gpt_neo", {{"attention_layers", {"local", "global"}}}).layerWindow,
            (std::vector<int64_t>{6, 0}));
  auto types = [](const char *text) {
    return json{{"attention_types", json::parse(text)}, {"attention_layers", nullptr}};
  };
  EXPECT_EQ(familyConfig("gpt_neo", types(R"([[["local"], 2]])")).layerWindow, (std::vector<int64_t>{6, 6}));
  expectRefusals(
      {{"gpt_neo", types("null"), "attention_types names 24 layers, expected num_layers (2)"},
       {"gpt_neo", types("7"), "attention_types is 7, expected lists of types"},
       {"gpt_neo", types(R"([["global", 2]])"), "expected lists of types (global, local) and how often"},
       {"gpt_neo", types(R"([[["nearby"], 2]])"), "attention_types holds 'nearby', expected global or local"},
       {"gpt_neo",
        {{"attention_layers", json::array({"local"})}},
        "attention_layers names 1 layers, expected num_layers (2)"},
       {"gpt_neo", {{"window_size", 0}}, "window_size is 0, expected at least 1"}});
}

TEST(DecoderConfig, bloom) {
  ModelConfig config = familyConfig("bloom");
  EXPECT_EQ(config.intermediateSize, 256);
  EXPECT_EQ(config.numKvHeads, 4);
  EXPECT_EQ(config.contextLength, 128);
  EXPECT_EQ(familyConfig("bloom", {{"seq_length", nullptr}}).contextLength, 2048);
  EXPECT_TRUE(config.ropes.empty());
  EXPECT_FALSE(config.residualIsNormed);
  EXPECT_TRUE(familyConfig("bloom", {{"apply_residual_connection_post_layernorm", true}}).residualIsNormed);
  // As the reference reads: an activation does not count, heads and width have a second name each.
  EXPECT_EQ(familyConfig("bloom", {{"hidden_act", "relu"}, {"seq_length", 512}}).activation, Activation::GeluTanh);
  EXPECT_EQ(familyConfig("bloom", {{"n_head", nullptr}, {"num_attention_heads", 2}}).numKvHeads, 2);
  EXPECT_EQ(familyConfig("bloom", {{"n_embed", 64}}).hiddenSize, 64);
  expectRefusals({{"bloom", {{"n_head", 3}}, "hidden_size (64) must be a multiple of n_head (3)"},
                  {"bloom",
                   {{"apply_residual_connection_post_layernorm", 3}},
                   "apply_residual_connection_post_layernorm is '3', expected true or false"}});
}

TEST(DecoderConfig, falcon) {
  ModelConfig config = familyConfig("falcon");
  EXPECT_EQ(config.numKvHeads, 1);
  EXPECT_TRUE(config.parallelResidual);
  EXPECT_FALSE(config.hasNormEach || config.attentionBias || config.mlpBias || config.hasAlibi);
  EXPECT_EQ(config.ropes.size(), 1u);
  EXPECT_TRUE(familyConfig("falcon", {{"alibi", true}}).ropes.empty());
  expectRefusals({{"falcon", {{"parallel_attn", false}}, "post_attention_layernorm"},
                  {"falcon",
                   {{"new_decoder_architecture", true}, {"parallel_attn", false}},
                   "parallel_attn is false, expected true with new_decoder_architecture"},
                  {"falcon", {{"num_ln_in_parallel_attn", 2}}, "num_ln_in_parallel_attn is 2, expected 1, or 2 with"},
                  {"falcon",
                   {{"multi_query", false}, {"num_kv_heads", 2}},
                   "num_kv_heads is 2, expected num_attention_heads (4) without multi_query"},
                  {"falcon", {{"bias", true}}, "query_key_value.bias is missing"},
                  {"falcon", {{"new_decoder_architecture", true}}, "ln_"}});
  // Null is false, whatever a key that is not there means.
  std::string message = familyRefusal("falcon", json::object(), {"multi_query"});
  EXPECT_NE(message.find("query_key_value.weight has shape (96, 64), the config asks for (192, 64)"), std::string::npos)
      << message;
  message = familyRefusal("falcon", json::object(), {"parallel_attn"});
  EXPECT_NE(message.find("post_attention_layernorm"), std::string::npos) << message;
}

} // namespace
