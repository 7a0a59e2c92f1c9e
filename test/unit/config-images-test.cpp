// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of models that take images say of patches, windows and stages.
#include "FamilyFiles.h"
#include "ModelFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

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

// Names of labels that are not as many as num_labels name none.
TEST(ConfigOfImages, labels) {
  json two = {{"id2label", {{"0", "cat"}, {"1", "dog"}}}};
  for (int label = 2; label < 10; ++label)
    two["id2label"][std::to_string(label)] = nullptr;
  EXPECT_NE(familyRefusal("vit", two).find("classifier.weight has shape"), std::string::npos);
  two["num_labels"] = 10;
  ModelConfig config = familyConfig("vit", two);
  ASSERT_EQ(config.labels.size(), 10u);
  EXPECT_EQ(config.labels[1], "LABEL_1");
}

// Heads of a width of their own, which no config class has and implementations read.
TEST(ConfigOfImages, headDim) {
  for (const char *family : {"vit", "dinov2"}) {
    EXPECT_EQ(familyConfig(family, {{"head_dim", nullptr}}).headDim, 16);
    std::string wide = familyRefusal(family, {{"head_dim", 8}});
    EXPECT_NE(wide.find("has shape (64, 64), the config asks for (32, 64)"), std::string::npos) << wide;
    EXPECT_NE(familyRefusal(family, {{"head_dim", 0}}).find("head_dim is 0, expected 1 to 65536"), std::string::npos);
  }
}

struct Refusal {
  json patch;
  const char *expected;
};

// The model whose images have 24 pixels on a side, beside this preprocessor_config.json.
Expected<Model> readProcessor(const json &processor, const char *family = "swin", const char *file = nullptr) {
  TemporaryFolder folder;
  EXPECT_TRUE(readFamily(folder, family));
  folder.write(file ? file : "preprocessor_config.json", processor.dump());
  return readModel(folder.path());
}

TEST(ConfigOfImages, processing) {
  EXPECT_FALSE(familyConfig("swin").imageProcessing);
  json square = {{"size", {{"height", 24}, {"width", 24}}}};
  Expected<Model> model = readProcessor(square);
  ASSERT_TRUE(model) << model.message();
  ImageProcessing processing = *model->config.imageProcessing;
  EXPECT_EQ(processing.height, 24);
  EXPECT_EQ(processing.width, 24);
  EXPECT_EQ(processing.shortestEdge, 0);
  EXPECT_EQ(processing.filter, 2); // of ViTImageProcessor, which swin's files are read by
  EXPECT_EQ(processing.cropHeight, 0);
  EXPECT_EQ(processing.factor, 1.0 / 255);
  EXPECT_EQ(processing.mean, std::vector<double>(3, 0.5));
  // A class of the file, its older names, and a file of several processors.
  json clip = {{"feature_extractor_type", "CLIPFeatureExtractor"},
               {"size", 30},
               {"crop_size", 24},
               {"image_std", 0.25},
               {"do_rescale", false}};
  model = readProcessor({{"image_processor", clip}}, "swin", "processor_config.json");
  ASSERT_TRUE(model) << model.message();
  processing = *model->config.imageProcessing;
  EXPECT_EQ(processing.height, 0);
  EXPECT_EQ(processing.shortestEdge, 30);
  EXPECT_EQ(processing.filter, 3);
  EXPECT_EQ(processing.cropHeight, 24);
  EXPECT_EQ(processing.cropWidth, 24);
  EXPECT_EQ(processing.factor, 1);
  EXPECT_EQ(processing.deviation, std::vector<double>(3, 0.25));
  EXPECT_EQ(processing.mean[0], 0.48145466);
  // ConvNeXT's crops a smaller image out of a larger one, with a share of the side.
  model = readProcessor({{"image_processor_type", "ConvNextImageProcessorFast"},
                         {"size", {{"shortest_edge", 24}}},
                         {"crop_pct", 0.75},
                         {"do_normalize", false}});
  ASSERT_TRUE(model) << model.message();
  processing = *model->config.imageProcessing;
  EXPECT_EQ(processing.shortestEdge, 32);
  EXPECT_EQ(processing.cropHeight, 24);
  EXPECT_TRUE(processing.mean.empty());
}

TEST(ConfigOfImages, processingIsRefused) {
  const Refusal refusals[] = {
      {{{"image_processor_type", "PoolFormerImageProcessor"}},
       "image_processor_type is 'PoolFormerImageProcessor', which is not supported; known: ViTImageProcessor, "
       "BeitImageProcessor"},
      {{{"size", 32}}, "makes images of 32 by 32 pixels, config.json has image_size 24"},
      {{{"size", {{"height", 24}}}},
       "size has other keys than are supported; expected height and width, or shortest_edge"},
      {{{"size", {{"shortest_edge", 24}, {"longest_edge", 99}}}}, "size has other keys than are supported"},
      {{{"size", {{"shortest_edge", 0}}}}, "size.shortest_edge is 0, expected 1 to 16384"},
      {{{"size", {1, 2, 3}}}, "size has 3 numbers, expected a height and a width"},
      {{{"size", "large"}}, "size is '\"large\"', expected an integer"},
      {{{"size", 24}, {"resample", 9}}, "resample is 9, expected 0 to 5"},
      {{{"size", 24}, {"do_center_crop", true}}, "crop_size is missing, but do_center_crop is true"},
      {{{"size", 24}, {"do_pad", true}}, "do_pad is true, which is not supported"},
      {{{"size", 24}, {"image_mean", {0.5, 0.5}}}, "image_mean has 2 numbers, expected 3"},
      {{{"size", 24}, {"image_std", 0}}, "image_std has a number that is not above 0"},
      {{{"size", 24}, {"do_resize", 7}}, "do_resize is '7', expected true or false"},
      {{{"image_processor_type", "ConvNextImageProcessor"}, {"crop_pct", 2}}, "crop_pct is 2"},
  };
  for (const Refusal &refusal : refusals) {
    Expected<Model> refused = readProcessor(refusal.patch);
    ASSERT_FALSE(refused) << refusal.expected;
    EXPECT_NE(refused.message().find(refusal.expected), std::string::npos) << refusal.expected << "\n"
                                                                           << refused.message();
  }
}

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

TEST(ConfigOfImages, towers) {
  ModelConfig config = familyConfig("clip");
  EXPECT_TRUE(config.family->isGraph);
  EXPECT_EQ(config.projectionSize, 16);
  EXPECT_EQ(config.endOfText, 60);
  EXPECT_EQ(config.activation, Activation::QuickGelu);
  EXPECT_EQ(config.normEps, 1e-5);
  EXPECT_EQ(config.encoder.hiddenSize, 32);
  EXPECT_EQ(config.encoder.numLayers, 3);
  EXPECT_EQ(config.encoder.contextLength, 10); // a class token and 3 x 3 patches
  EXPECT_EQ(config.encoder.activation, Activation::QuickGelu);
  // The number that says that the end is the largest id.
  EXPECT_EQ(familyConfig("clip", {{"text_config", {{"eos_token_id", 2}}}}).endOfText, std::nullopt);
  json activation = {{"text_config", {{"hidden_act", "gelu"}}}, {"vision_config", {{"hidden_act", "relu"}}}};
  EXPECT_EQ(familyConfig("clip", activation).activation, Activation::Gelu);
  EXPECT_EQ(familyConfig("clip", activation).encoder.activation, Activation::Relu);
  // In older files what stands in text_config_dict counts, its defaults included.
  json part = json::parse(familyData("clip/config.json"))["text_config"];
  part["hidden_act"] = "silu";
  EXPECT_EQ(familyConfig("clip", {{"text_config_dict", part}}).activation, Activation::Silu);
  part.erase("hidden_size");
  std::string message = familyRefusal("clip", {{"text_config_dict", part}});
  EXPECT_NE(message.find("token_embedding.weight has shape (256, 64), the config asks for (256, 512)"),
            std::string::npos)
      << message;
}

TEST(ConfigOfImages, towersAreRefused) {
  auto text = [](json patch) { return json{{"text_config", patch}}; };
  auto vision = [](json patch) { return json{{"vision_config", patch}}; };
  const Refusal refusals[] = {
      {text({{"hidden_size", 0}}), "text_config.hidden_size is 0, expected 1 to 1048576"},
      {text({{"hidden_size", 63}}), "text_config.hidden_size (63) must be a multiple of num_attention_heads (4)"},
      {text({{"num_hidden_layers", 1}}), "text_model.encoder.layers.1.layer_norm1.bias' and 15 more are not part"},
      {text({{"num_hidden_layers", 3}}), "tensor text_model.encoder.layers.2.layer_norm1.weight is missing"},
      {text({{"num_hidden_layers", 5000}}), "text_config.num_hidden_layers is 5000, expected 1 to 4096"},
      {text({{"vocab_size", 0}}), "text_config.vocab_size is 0, expected 1 to"},
      {text({{"max_position_embeddings", 13}}),
       "position_embedding.weight has shape (12, 64), the config asks for (13, 64)"},
      {text({{"eos_token_id", 256}}), "text_config.eos_token_id is 256, expected a token below vocab_size (256)"},
      {text({{"eos_token_id", {3, 4}}}), "text_config.eos_token_id has several tokens, which is not supported"},
      {text({{"hidden_act", "cubic"}}), "text_config.hidden_act is 'cubic', an unknown activation"},
      {text({{"layer_norm_eps", 0}}), "text_config.layer_norm_eps is not above 0 and below 1"},
      {text({{"is_causal", false}}), "text_config.is_causal is false, which is not supported for clip; expected true"},
      {vision({{"num_hidden_layers", 0}}), "vision_config.num_hidden_layers is 0, expected 1 to 4096"},
      {vision({{"num_hidden_layers", 2}}), "vision_model.encoder.layers.2.layer_norm1.bias' and 15 more are not part"},
      {vision({{"intermediate_size", 49}}), "mlp.fc1.weight has shape (48, 32), the config asks for (49, 32)"},
      {vision({{"patch_size", 5}}), "patch_embedding.weight"},
      {vision({{"image_size", 16}}), "position_embedding.weight has shape (10, 32), the config asks for (17, 32)"},
      {vision({{"hidden_act", "cubic"}}), "vision_config.hidden_act is 'cubic', an unknown activation"},
      {{{"projection_dim", 0}}, "projection_dim is 0, expected 1 to"},
      {{{"projection_dim", 17}}, "text_projection.weight has shape (16, 64), the config asks for (17, 64)"},
      {{{"text_config", 7}}, "text_config is of type number, expected an object"},
  };
  for (const Refusal &refusal : refusals) {
    std::string message = familyRefusal("clip", refusal.patch);
    EXPECT_NE(message.find(refusal.expected), std::string::npos) << refusal.expected << "\n" << message;
  }
}

} // namespace
