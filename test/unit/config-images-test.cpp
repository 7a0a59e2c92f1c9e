// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of models that take images say of patches, windows and stages.
#include "FamilyFiles.h"
#include "frontends/Family.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(ConfigOfImages, stages) {
  ModelConfig config = familyConfig("swin");
  EXPECT_TRUE(config.family->isGraph && config.hasPositionTable && config.attentionBias);
  EXPECT_EQ(config.image.window, 3);
  ASSERT_EQ(config.stages.size(), 2u);
  EXPECT_EQ(config.stages[0].width, 32);
  EXPECT_EQ(config.stages[0].numHeads, 2);
  EXPECT_EQ(config.stages[0].intermediateSize, 128);
  EXPECT_EQ(config.stages[1].width, 64);
  EXPECT_EQ(config.stages[1].depth, 2);
  EXPECT_EQ(config.normEps, 1e-5);
  EXPECT_EQ(familyConfig("swin", {{"layer_norm_eps", 0.5}}).normEps, 0.5);
  // Both follow from what else it says, which transformers computes anew.
  EXPECT_EQ(familyConfig("swin", {{"hidden_size", 7}, {"num_layers", 9}}).hiddenSize, 64);
}

struct Refusal {
  json patch;
  const char *expected;
};

TEST(ConfigOfImages, stagesAreRefused) {
  const Refusal refusals[] = {
      {{{"depths", json::array()}}, "depths has 0 stages, expected 1 to 16"},
      {{{"depths", {2, 0}}}, "depths holds 0, expected 1 to 4096"},
      {{{"depths", {2, 1}}},
       "encoder.layers.1.blocks.1.attention.output.dense.bias' and 16 more are not part of a model"},
      {{{"depths", {3, 2}}}, "tensor swin.encoder.layers.0.blocks.2.layernorm_before.weight is missing"},
      {{{"depths", nullptr}}, "num_heads has 2 entries, expected one for each of the 4 depths"},
      {{{"num_heads", {2}}}, "num_heads has 1 entries, expected one for each of the 2 depths"},
      {{{"num_heads", {2, 5}}}, "num_heads holds 5, expected a divisor of the width 64 of its stage"},
      {{{"num_heads", {0, 4}}}, "num_heads holds 0, expected a divisor"},
      {{{"embed_dim", 0}}, "embed_dim gives stage 0 a width of 0, expected 1 to 1048576"},
      {{{"embed_dim", 1 << 20}}, "embed_dim gives stage 1 a width of 2097152"},
      {{{"embed_dim", 64}}, "projection.weight has shape (32, 3, 2, 2), the config asks for (64, 12)"},
      {{{"mlp_ratio", 0}}, "mlp_ratio is not above 0 and at most 64"},
      {{{"mlp_ratio", 0.001}}, "intermediate_size is 0, expected 1 to"},
      {{{"mlp_ratio", 2}}, "intermediate.dense.weight has shape (128, 32), the config asks for (64, 32)"},
      {{{"window_size", 0}}, "window_size is 0, expected 1 to 6, as the last stage has 6 patches on a side"},
      {{{"window_size", 7}}, "window_size is 7, expected 1 to 6"},
      {{{"window_size", 2}}, "relative_position_bias_table has shape (25, 2), the config asks for (9, 2)"},
      {{{"qkv_bias", false}}, "attention.self.key.bias' and 11 more are not part of a model"},
      {{{"use_absolute_embeddings", false}}, "tensor 'swin.embeddings.position_embeddings' is not part of a model"},
      {{{"image_size", 23}}, "use_absolute_embeddings is true, and patch_size (2) does not divide image_size (23)"},
      {{{"image_size", 0}}, "image_size is 0, expected 1 to 16384"},
      {{{"image_size", {24, 32}}}, "image_size has sides that differ"},
      {{{"image_size", 4096}}, "patch_size is 2: 2048 patches on a side of the image, expected at most 1024"},
      {{{"patch_size", 25}}, "patch_size is 25, expected 1 to image_size (24)"},
      {{{"num_channels", 65}}, "num_channels is 65, expected 1 to 64"},
      {{{"hidden_act", "cubic"}}, "hidden_act is 'cubic', an unknown activation"},
  };
  for (const Refusal &refusal : refusals) {
    std::string message = familyRefusal("swin", refusal.patch);
    EXPECT_NE(message.find(refusal.expected), std::string::npos) << refusal.expected << "\n" << message;
  }
}

} // namespace
