// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of decoders say that no other family's do: defaults of keys, switches of a layer's shape, what is refused.
#include "FamilyFiles.h"
#include "frontends/Family.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

// A family, what is changed of its config, and what the message must hold.
struct Refusal {
  const char *family;
  json patch;
  const char *expected;
};

void expectRefusals(const std::vector<Refusal> &refusals) {
  for (const auto &[family, patch, expected] : refusals) {
    std::string message = familyRefusal(family, patch);
    EXPECT_NE(message.find(expected), std::string::npos) << family << ": " << message;
  }
}

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
  // As the reference reads: neither key counts.
  EXPECT_EQ(familyConfig("gpt_neox", {{"num_key_value_heads", 2}, {"head_dim", 8}}).numKvHeads, 4);
  expectRefusals(
      {{"gpt_neox", {{"attention_bias", false}}, "attention.dense.bias' and 3 more are not part of a model"},
       {"gpt_neox", {{"use_parallel_residual", 2}}, "use_parallel_residual is '2', expected true or false"}});
}

TEST(DecoderConfig, gptNeoXRowsLieByHead) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "gpt_neox");
  ASSERT_TRUE(model) << model.message();
  EXPECT_TRUE(model->checkpoint.find("gpt_neox.layers.1.attention.query_key_value.bias")->byKvHead);
  EXPECT_FALSE(model->checkpoint.find("gpt_neox.layers.1.attention.dense.weight")->byKvHead);
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
       {"opt", {{"_remove_final_layer_norm", true}}, "model.decoder.final_layer_norm.bias' and 1 more are not part"},
       {"opt", {{"enable_bias", false}}, "fc1.bias' and 11 more are not part"},
       {"opt",
        {{"layer_norm_elementwise_affine", false}},
        "layer_norm_elementwise_affine is false, which is not supported"},
       {"opt",
        {{"max_position_embeddings", 130}},
        "embed_positions.weight has shape (130, 64), the config asks for (132, 64)"}});
}

} // namespace
