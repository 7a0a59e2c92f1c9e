// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of encoder-decoders say of both stacks.
#include "FamilyFiles.h"
#include "frontends/Family.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(ConfigOfEncoderDecoders, bothStacks) {
  ModelConfig config = familyConfig("bart", {{"forced_bos_token_id", 5}, {"forced_eos_token_id", 6}});
  EXPECT_EQ(config.encoder.numLayers, 2);
  EXPECT_EQ(config.encoder.numHeads, 4);
  EXPECT_EQ(config.encoder.intermediateSize, 64);
  EXPECT_EQ(config.intermediateSize, 80);
  EXPECT_EQ(config.encoder.contextLength, 64);
  EXPECT_EQ(config.firstPosition, 2);
  EXPECT_TRUE(config.hasEmbeddingNorm && config.hasLogitsBias && !config.normsBefore && !config.hasFinalNorm);
  EXPECT_EQ(config.decoderStartId, 2);
  EXPECT_EQ(config.forcedBosId, 5);
  EXPECT_EQ(config.forcedEosId, 6);
  EXPECT_EQ(familyConfig("bart", {{"decoder_start_token_id", nullptr}}).decoderStartId, 0); // bos_token_id
  EXPECT_EQ(familyConfig("marian").embeddingScale, 8.0);
  EXPECT_EQ(familyConfig("marian").activation, Activation::Silu);
  EXPECT_EQ(familyConfig("transformer").activation, Activation::Relu);
  EXPECT_EQ(familyConfig("m2m_100").firstPosition, 2); // behind pad_token_id
  EXPECT_TRUE(familyConfig("mbart").normsBefore && familyConfig("mbart").hasEmbeddingNorm);
  EXPECT_TRUE(familyConfig("pegasus").hasFinalNorm && !familyConfig("pegasus").hasEmbeddingNorm);
  for (auto [family, patch, expected] : {
           std::tuple<const char *, json, const char *>{
               "bart", {{"encoder_layers", 0}}, "encoder_layers is 0, expected 1"},
           {"bart", {{"encoder_layers", 3}}, "tensor model.encoder.layers.2.self_attn.q_proj.weight is missing"},
           {"bart", {{"encoder_layers", 1}}, "encoder.layers.1.fc1.bias' and 15 more are not part of a model"},
           {"bart", {{"decoder_layers", nullptr}}, "decoder_layers is missing"},
           {"bart", {{"encoder_attention_heads", 5}}, "encoder_attention_heads (5) must divide d_model (64)"},
           {"bart", {{"encoder_ffn_dim", 1 << 30}}, "encoder_ffn_dim is 1073741824, expected 1 to"},
           {"bart", {{"max_position_embeddings", 63}}, "embed_positions.weight has shape (66, 64)"},
           {"bart", {{"is_encoder_decoder", false}}, "is_encoder_decoder is false, which is not supported"},
           {"bart", {{"forced_bos_token_id", 256}}, "forced_bos_token_id is 256, expected a token below vocab_size"},
           {"bart",
            {{"decoder_start_token_id", nullptr}, {"bos_token_id", nullptr}},
            "decoder_start_token_id is missing"},
           {"marian",
            {{"decoder_vocab_size", 255}},
            "decoder_vocab_size is 255, which is not supported beside vocab_size"},
           {"marian", {{"share_encoder_decoder_embeddings", false}}, "share_encoder_decoder_embeddings is false"},
           {"marian", {{"max_position_embeddings", 1 << 29}}, "expected at most 16777216 sinusoidal positions"},
           {"transformer", {{"share_embeddings", false}}, "share_embeddings is false"},
           {"transformer", {{"norm_first", true}}, "tensor model.encoder.layer_norm.weight is missing"},
           {"transformer", {{"attention_bias", false}}, "' and 23 more are not part of a model"},
           {"transformer", {{"position_embedding_type", "learned"}}, "is 'learned', expected sinusoidal_interleaved"},
       }) {
    TemporaryFolder folder;
    Expected<Model> model = readFamily(folder, family, patch);
    ASSERT_FALSE(model) << expected;
    EXPECT_NE(model.message().find(expected), std::string::npos) << model.message();
  }
}

} // namespace
