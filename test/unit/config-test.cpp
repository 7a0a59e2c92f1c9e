// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face configs: what is read from the checkpoints of data/families (config.json and the safetensors header of
// each, its data left out).
#include "FamilyFiles.h"
#include "ModelFiles.h"
#include "frontends/Family.h"
#include "frontends/Json.h"
#include "frontends/read/ReadModel.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <tuple>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

// The folders of data/families.
std::vector<std::string> knownFamilies() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(HEDDLE_TEST_DIR) + "/unit/data/families"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class FamilyConfig : public testing::TestWithParam<std::string> {};

// What is read behind a fault meets a config that is not whole.
TEST_P(FamilyConfig, isRefusedForTheFirstFault) {
  json fault = {{"layer_types", 7}}, said = json::parse(familyData(GetParam() + "/config.json"));
  json patch = said.contains("text_config") ? json{{"text_config", fault}} : fault;
  patch.update(fault);
  std::string message = familyRefusal(GetParam(), patch);
  EXPECT_NE(message.find("layer_types is '7', expected an array of strings"), std::string::npos) << message;
}

TEST_P(FamilyConfig, isRead) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, GetParam());
  ASSERT_TRUE(model) << model.message();
  const ModelConfig &config = model->config;
  bool isEncoder = config.family->isEncoder, takesImages = config.image.size > 0;
  std::ifstream file(folder.path() + "/config.json");
  json said = json::parse(file);
  bool hasTowers = said.contains("text_config"); // texts beside images
  EXPECT_EQ(config.vocabSize, takesImages && !hasTowers ? 1 : 256);
  // Two layers attend to nobody's keys but their own, and are of one shape.
  bool sharesKeys = GetParam() == "gemma3n_text";
  const std::map<std::string, int64_t> layers = {{"gemma3n_text", 6},    {"gemma4_text", 5},
                                                 {"gemma4_text_moe", 3}, {"gemma4_text_shared", 6},
                                                 {"nemotron_h", 3},      {"nemotron_h_latent", 3}};
  EXPECT_EQ(model->config.hiddenSize, sharesKeys ? 32 : 64);
  EXPECT_EQ(model->config.numHiddenLayers, layers.count(GetParam()) ? layers.at(GetParam()) : 2);
  bool attends = config.hasAttention();
  EXPECT_EQ(model->config.numHeads, !attends ? 1 : GetParam() == "gemma4_text_shared" ? 2 : 4);
  EXPECT_EQ(model->config.headDim, !attends ? 1 : sharesKeys ? 8 : 16);
  json context =
      takesImages ? json(config.image.specialTokens ? 17 : 144) : json(); // a class token and 4 x 4 patches, or 12 x 12
  if (hasTowers)
    context = said["text_config"]["max_position_embeddings"];
  if (said.contains("decoder")) // of two stacks that say each its own
    context = said["decoder"]["max_position_embeddings"];
  if ((config.relativeBuckets && config.family->isEncoderDecoder) || !attends)
    context = 1 << 20; // distances of a table alone have no end, nor have states
  for (const char *key : {"n_positions", "max_position_embeddings", "seq_length", "max_target_positions", "max_seq_len",
                          "model_max_length"})
    if (context.is_null() && said.contains(key))
      context = said[key];
  EXPECT_EQ(config.contextLength + config.positionOffset, context.get<int64_t>());
  EXPECT_EQ(model->config.layerWindow.size(), size_t(model->config.numHiddenLayers));
  json end = said.contains("eos_token_id") ? said["eos_token_id"] : json();
  bool isTower =
      GetParam().find("_text_model") != std::string::npos; // of texts: its end says which token stands for one
  if (!isEncoder && !takesImages && !isTower)
    EXPECT_EQ(config.eosIds, end.is_null() ? std::vector<int64_t>() : std::vector<int64_t>{end.get<int64_t>()});
}

INSTANTIATE_TEST_SUITE_P(Config, FamilyConfig, testing::ValuesIn(knownFamilies()),
                         [](const auto &info) { return info.param; });

TEST(Config, windows) {
  EXPECT_EQ(familyConfig("llama").layerWindow, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(familyConfig("mistral").layerWindow, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(familyConfig("mixtral").layerWindow, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(familyConfig("gemma2").layerWindow, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(familyConfig("gemma2", {{"layer_types", nullptr}}).layerWindow, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(familyConfig("gemma3_text_legacy").layerWindow, (std::vector<int64_t>{6, 0}));
  json qwen = {{"use_sliding_window", true}, {"sliding_window", 7}, {"max_window_layers", 1}, {"layer_types", nullptr}};
  EXPECT_EQ(familyConfig("qwen2", qwen).layerWindow, (std::vector<int64_t>{0, 7}));
  qwen["use_sliding_window"] = false;
  EXPECT_EQ(familyConfig("qwen2", qwen).layerWindow, (std::vector<int64_t>{0, 0}));
}

TEST(Config, bothDialectsOfRopeAgree) {
  for (auto [newer, older] : {std::pair<const char *, const char *>{"llama3_rope", "llama3_rope_legacy"},
                              {"gemma3_text", "gemma3_text_legacy"}}) {
    ModelConfig a = familyConfig(newer), b = familyConfig(older);
    ASSERT_EQ(a.ropes.size(), b.ropes.size());
    EXPECT_EQ(a.layerRope, b.layerRope);
    for (size_t i = 0; i < a.ropes.size(); ++i) {
      float factorA, factorB;
      EXPECT_EQ(a.ropes[i].inverseFrequency(false, factorA, 0), b.ropes[i].inverseFrequency(false, factorB, 0));
      EXPECT_EQ(factorA, factorB);
    }
  }
}

TEST(Config, gemma3HasTwoRopes) {
  ModelConfig config = familyConfig("gemma3_text");
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(config.ropes[0].theta, 1e6);
  EXPECT_EQ(config.ropes[0].factor, 8.0);
  EXPECT_EQ(config.ropes[1].theta, 1e4);
  EXPECT_EQ(config.ropes[1].scaling, RopeScalingKind::None);
}

TEST(Config, gemmaScales) {
  ModelConfig config = familyConfig("gemma2");
  EXPECT_DOUBLE_EQ(config.attentionScale, 1.0 / std::sqrt(24.0));
  EXPECT_EQ(config.attentionSoftcap, 5.0);
  EXPECT_EQ(config.finalSoftcap, 8.0);
  EXPECT_EQ(config.embeddingScale, 8.0);
  EXPECT_EQ(config.normWeightOffset, 1.0);
  EXPECT_EQ(config.activation, Activation::GeluTanh);
  EXPECT_TRUE(config.tieWordEmbeddings);
  EXPECT_EQ(familyConfig("gemma3_text").attentionSoftcap, 0.0);
  // Not rounded to the type of the weights: products are computed in f32.
  EXPECT_EQ(familyConfig("gemma3_text").embeddingScale, 8.0);
}

TEST(Config, bertIsAnEncoder) {
  ModelConfig config = familyConfig("bert");
  EXPECT_TRUE(config.family->isEncoder);
  EXPECT_EQ(config.tokenTypes, 2);
  EXPECT_TRUE(config.hasPooler);
  EXPECT_EQ(config.normEps, 1e-12);
  EXPECT_EQ(config.activation, Activation::Gelu);
  for (auto [key, value, expected] :
       {std::tuple<const char *, json, const char *>{"type_vocab_size", 0, "type_vocab_size is 0, expected 1 to"},
        {"type_vocab_size", 3, "token_type_embeddings.weight has shape (2, 64)"},
        {"is_decoder", true, "is_decoder is true, which is not supported"},
        {"position_embedding_type", "relative_key", "position_embedding_type is 'relative_key', expected absolute"},
        {"num_attention_heads", 5, "hidden_size (64) must be a multiple of num_attention_heads (5)"}}) {
    TemporaryFolder folder;
    Expected<Model> model = readFamily(folder, "bert", {{key, value}});
    ASSERT_FALSE(model) << key;
    EXPECT_NE(model.message().find(expected), std::string::npos) << model.message();
  }
}

TEST(Config, gpt2Scales) {
  EXPECT_FALSE(familyConfig("gpt2").scaleByLayer);
  ModelConfig config = familyConfig("gpt2", {{"scale_attn_weights", false}, {"scale_attn_by_inverse_layer_idx", true}});
  EXPECT_EQ(config.attentionScale, 1.0);
  EXPECT_TRUE(config.scaleByLayer);
}

// Keys whose tensors a family does not read are refused; what its reference is known to pass over changes nothing.
TEST(Config, keysOfOtherFamilies) {
  for (const char *family : {"mistral", "mixtral", "phi3", "qwen2"})
    for (const char *key : {"attention_bias", "mlp_bias"}) {
      TemporaryFolder folder;
      Expected<Model> model = readFamily(folder, family, {{key, true}});
      bool hasTensors = std::string(family) == "qwen2" && std::string(key) == "attention_bias"; // whatever the key says
      ASSERT_EQ(bool(model), hasTensors) << family << ", " << key;
      if (!model)
        EXPECT_NE(model.message().find(std::string(key) + " is true, which is not supported for " + family),
                  std::string::npos)
            << model.message();
    }
  EXPECT_EQ(familyConfig("gemma3_text", {{"attn_logit_softcapping", 5.0}}).attentionSoftcap, 0.0);
  for (auto [family, key] :
       {std::pair("gemma2", "attn_logit_softcapping"), {"gemma3n_text", "final_logit_softcapping"}})
    expectRefusals(
        {{family, {{key, 0.0}}, "_logit_softcapping is 0.000000, expected a positive number, or null for none"}});
  EXPECT_EQ(familyConfig("llama", {{"partial_rotary_factor", 0.5}}).ropes[0].rotaryDim, 16);
}

// The reference's masks read it for every decoder.
TEST(Config, decodersThatSeeWhatComesAreRefused) {
  for (const char *family : {"bloom", "gemma2", "gpt2"}) { // that do not rotate, or have windows
    TemporaryFolder folder;
    Expected<Model> model = readFamily(folder, family, {{"is_causal", false}});
    ASSERT_FALSE(model) << family;
    EXPECT_NE(model.message().find("is_causal is false, which is not supported"), std::string::npos) << model.message();
    TemporaryFolder again;
    EXPECT_TRUE(readFamily(again, family, {{"is_causal", true}})) << family;
  }
}

// What the reference reads from neither place, though a file means it.
TEST(Config, rotationsByTypeOfLayer) {
  for (const char *family : {"gemma3_text", "modernbert"}) {
    for (const auto &[patch, expected] : {
             std::pair<json, const char *>{
                 {{"rope_parameters", nullptr}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}},
                 "rope_scaling.type is set, which is not supported for "},
             {{{"rope_parameters", nullptr}, {"rope_scaling", {{"full_attention", {{"rope_type", "default"}}}}}},
              "rope_scaling.full_attention is set, which is not supported for "},
             {{{"rope_parameters", {{"full_attention", nullptr}, {"sliding_attention", nullptr}, {"rope_theta", 5}}}},
              "rope_parameters has neither full_attention nor sliding_attention"},
         })
      EXPECT_NE(familyRefusal(family, patch).find(expected), std::string::npos) << familyRefusal(family, patch);
    json scaled = {{"rope_parameters", nullptr}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}};
    ModelConfig config = familyConfig(family, scaled);
    EXPECT_EQ(config.ropes[0].factor, 2.0);
    EXPECT_EQ(config.ropes[1].factor, family == std::string("modernbert") ? 2.0 : 1.0);
  }
}

TEST(Config, modernBertSaysWindowsInTwoWays) {
  EXPECT_EQ(familyConfig("modernbert").layerWindow, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(familyConfig("modernbert", {{"sliding_window", 5}}).layerWindow, (std::vector<int64_t>{0, 6}));
  EXPECT_NE(familyRefusal("modernbert", {{"sliding_window", -1}}).find("sliding_window is -1, expected 0 to 8388608"),
            std::string::npos);
}

TEST(Config, gemma3InsideAMultimodalConfig) {
  TemporaryFolder folder;
  json text = json::parse(familyData("gemma3_text/config.json"));
  // Of keys of generation the whole's come before the part's, as in the reference.
  text.update({{"eos_token_id", 7}, {"num_beams", 2}, {"max_length", 40}});
  json whole = {{"model_type", "gemma3"}, {"text_config", text}, {"eos_token_id", {2, 3}}, {"num_beams", 3}};
  folder.write("config.json", whole.dump());
  json header = json::parse(familyData("gemma3_text/header.json")), renamed;
  uint64_t end = 0;
  for (const auto &[name, tensor] : header.items()) {
    if (name == "__metadata__")
      continue;
    renamed["language_model." + name] = tensor;
    end = std::max(end, tensor["data_offsets"][1].get<uint64_t>());
  }
  folder.write("model.safetensors", safetensorsFile(renamed.dump(), end));
  Expected<Model> model = readModel(folder.path());
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.architecture, "gemma3_text");
  EXPECT_TRUE(model->checkpoint.find("model.layers.1.self_attn.q_norm.weight"));
  EXPECT_EQ(model->config.eosIds, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(model->config.numBeams, 3);
  EXPECT_EQ(model->config.maxLength, 40);
}

TEST(Config, longrope) {
  RopeConfig rope = familyConfig("phi3_longrope").ropes[0];
  EXPECT_EQ(rope.scaling, RopeScalingKind::Longrope);
  EXPECT_EQ(rope.originalContext, 20);
  EXPECT_EQ(rope.factor, 6.4);
  EXPECT_EQ(rope.longFactor.size(), 8u);
}

// The context stands outside the scaling, inside, or is the family's; a factor that is given is not the ratio of contexts.
TEST(Config, longropeContextAndFactor) {
  auto rope = [](const json &outside, const json &inside) {
    return familyConfig("phi3_longrope",
                        {{"original_max_position_embeddings", outside},
                         {"rope_parameters", {{"original_max_position_embeddings", 32}, {"factor", inside}}}})
        .ropes[0];
  };
  EXPECT_EQ(rope(20, nullptr).originalContext, 20);
  EXPECT_EQ(rope(20, nullptr).factor, 6.4);
  EXPECT_EQ(rope(20, 3.0).factor, 3.0);
  EXPECT_EQ(rope(nullptr, nullptr).originalContext, 4096);
}

TEST(Config, partialRotary) {
  EXPECT_EQ(familyConfig("phi3", {{"rope_parameters", {{"partial_rotary_factor", 0.75}}}}).ropes[0].rotaryDim, 12);
}

TEST(Config, experts) {
  MoeConfig qwen = familyConfig("qwen3_moe").moe, mixtral = familyConfig("mixtral").moe;
  EXPECT_EQ(qwen.numExperts, 4);
  EXPECT_EQ(qwen.intermediateSize, 32);
  EXPECT_EQ(mixtral.intermediateSize, 48);
  EXPECT_EQ(mixtral.expertsPerToken, 2);
  EXPECT_EQ(mixtral.layerIsMoe, (std::vector<bool>{true, true}));
}

TEST(Config, gpt2IsTransposed) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "gpt2");
  ASSERT_TRUE(model) << model.message();
  const TensorInfo *weight = model->checkpoint.find("transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(weight->shape, (std::vector<int64_t>{256, 64}));
  EXPECT_TRUE(weight->transposed);
  EXPECT_FALSE(model->checkpoint.find("transformer.wte.weight")->transposed);
  EXPECT_TRUE(model->config.ropes.empty());
}

// The bare model's checkpoint, as the first published gpt2 has it.
TEST(Config, namesWithoutPrefix) {
  TemporaryFolder folder;
  ASSERT_TRUE(readFamily(folder, "gpt2"));
  std::string header = familyData("gpt2/header.json");
  size_t dataBytes = safetensorsFile(header, 0).size();
  for (size_t at; (at = header.find("\"transformer.")) != std::string::npos;)
    header.erase(at + 1, 12);
  std::ifstream old(folder.path("model.safetensors"), std::ios::binary | std::ios::ate);
  folder.write("model.safetensors", safetensorsFile(header, static_cast<size_t>(old.tellg()) - dataBytes));
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(Config, fusedExpertsAreSplit) {
  for (bool isMixtral : {true, false}) {
    std::vector<SafetensorsTensor> tensors;
    for (const SafetensorsTensor &tensor : tinyTensors())
      if (tensor.name.find(".mlp.") == std::string::npos)
        tensors.push_back(tensor);
    for (const char *layer : {"model.layers.0.", "model.layers.1."}) {
      std::string prefix = layer;
      tensors.push_back({prefix + "mlp.gate.weight", "F32", {3, 16}});
      tensors.push_back({prefix + "mlp.experts.gate_up_proj", "F32", {3, 48, 16}});
      tensors.push_back({prefix + "mlp.experts.down_proj", "F32", {3, 16, 24}});
      if (!isMixtral)
        for (const char *norm : {"q_norm", "k_norm"})
          tensors.push_back({prefix + "self_attn." + norm + ".weight", "F32", {4}});
    }
    json config = tinyConfig();
    config.merge_patch({{"model_type", isMixtral ? "mixtral" : "qwen3_moe"},
                        {"num_local_experts", 3},
                        {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 24},
                        {"head_dim", 4}});
    TemporaryFolder folder;
    writeHuggingFace(folder, config, tensors);
    Expected<Model> model = readModel(folder.path());
    ASSERT_TRUE(model) << model.message();
    std::string block = isMixtral ? "model.layers.1.block_sparse_moe.experts." : "model.layers.1.mlp.experts.";
    const TensorInfo *gate = model->checkpoint.find(block + (isMixtral ? "1.w1.weight" : "1.gate_proj.weight"));
    const TensorInfo *up = model->checkpoint.find(block + (isMixtral ? "1.w3.weight" : "1.up_proj.weight"));
    const TensorInfo *next = model->checkpoint.find(block + (isMixtral ? "2.w1.weight" : "2.gate_proj.weight"));
    ASSERT_TRUE(gate && up && next);
    EXPECT_EQ(gate->shape, (std::vector<int64_t>{24, 16}));
    EXPECT_EQ(up->offset, gate->offset + uint64_t(24) * 16 * 4);
    EXPECT_EQ(next->offset, gate->offset + uint64_t(48) * 16 * 4);

    config["num_local_experts"] = 4;
    folder.write("config.json", config.dump());
    EXPECT_NE(
        refusal(folder.path()).find("mlp.experts.gate_up_proj has shape (3, 48, 16), the config asks for (4, 48, 16)"),
        std::string::npos);
  }
}

// What the reference takes for a key of the family counts before that key.
TEST(Config, otherNamesOfKeysCount) {
  EXPECT_EQ(familyConfig("whisper", {{"num_key_value_heads", 2}}).encoder.numHeads, 2);
  ModelConfig bart = familyConfig("bart", {{"num_attention_heads", 2}, {"d_model", nullptr}, {"hidden_size", 64}});
  EXPECT_EQ(bart.encoder.numHeads, 2);
  EXPECT_EQ(bart.numHeads, 4);
  EXPECT_EQ(bart.hiddenSize, 64);
  EXPECT_EQ(familyConfig("bloom", {{"num_attention_heads", 2}}).numHeads, 2);
  EXPECT_EQ(familyConfig("distilbert", {{"dim", nullptr}, {"hidden_size", 64}}).hiddenSize, 64);
  for (const auto &[family, patch, expected] : {
           std::tuple<const char *, json, const char *>{
               "gpt2", {{"hidden_size", 5}}, "hidden_size (5) must be a multiple of n_head (4)"},
           {"gptj", {{"num_hidden_layers", 0}}, "num_hidden_layers is 0, expected 1 to"},
           {"t5", {{"head_dim", 8}}, "has shape (64, 64), the config asks for (32, 64)"},
           {"mixtral", {{"num_experts", 0}}, "num_experts is 0, expected at least 1"},
           {"qwen3_moe", {{"num_experts", 4}, {"num_local_experts", 0}}, "num_local_experts is 0, expected at least 1"},
           {"phimoe", {{"num_experts", 2}}, "num_experts is 2, which is not supported for phimoe"},
           {"falcon", {{"n_embed", 5}}, "n_embed (5) must be a multiple of num_attention_heads"},
       })
    EXPECT_NE(familyRefusal(family, patch).find(expected), std::string::npos) << familyRefusal(family, patch);
}

// Of two of them the last in the file, as the reference sets one after the other.
TEST(Config, theLastOfOtherNamesCounts) {
  TemporaryFolder folder;
  ASSERT_TRUE(readFamily(folder, "whisper", {{"num_attention_heads", 2}}));
  json config = json::parse(familyData("whisper/config.json"));
  config["num_attention_heads"] = 2;
  folder.write("config.json", "{\"num_key_value_heads\": 1, " + config.dump().substr(1));
  Expected<Model> model = readModel(folder.path());
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.encoder.numHeads, 2);
}

// Where a value is at fault, its byte is known, as it is of what is no JSON.
TEST(Config, valuesHaveTheirByte) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  auto pointsAt = [&](const char *file, const json &content, const std::string &value) {
    std::string text = " " + content.dump(1);
    folder.write(file, text);
    Expected<Model> model = readModel(folder.path());
    ASSERT_FALSE(model) << value;
    const InputPlace *place = model.status().place();
    ASSERT_TRUE(place && place->offset) << model.message();
    EXPECT_EQ(text.substr(*place->offset, value.size()), value) << model.message();
  };
  auto with = [](const char *key, const json &value) {
    json config = tinyConfig();
    config[key] = value;
    return config;
  };
  pointsAt("config.json", with("num_hidden_layers", 987654), "987654");       // out of range
  pointsAt("config.json", with("num_attention_heads", "seven"), "\"seven\""); // of another type
  pointsAt("config.json", with("hidden_act", "frobnitz"), "\"frobnitz\"");    // a word that is not known
  pointsAt("config.json", with("clip_qkv", 8.25), "8.25");                    // not supported
  pointsAt("config.json", with("eos_token_id", json::array({1, 4444})), "["); // beyond the vocabulary
  pointsAt("config.json", with("rope_scaling", {{"rope_type", "linear"}, {"factor", -3.5}}), "-3.5");
  pointsAt("config.json", with("rope_scaling", 77), "77");
  folder.write("config.json", tinyConfig().dump());
  pointsAt("generation_config.json", {{"do_sample", true}, {"top_p", 7.5}}, "7.5");
}

// Folders without generation_config.json may say it in config.json, as older releases of the reference wrote it.
TEST(Config, generationDefaultsInConfig) {
  TemporaryFolder folder;
  json keys = {{"do_sample", true}, {"temperature", 0.6},     {"top_p", nullptr},    {"max_length", 40},
               {"typical_p", 0.5},  {"suppress_tokens", {5}}, {"eos_token_id", {3}}, {"bad_words_ids", {{7}}}};
  json config = tinyConfig();
  config.update(keys);
  writeHuggingFace(folder, config, tinyTensors());
  Expected<Model> stated = readModel(folder.path());
  ASSERT_TRUE(stated) << stated.message();
  EXPECT_EQ(stated->config.samplingSource, "config.json");
  EXPECT_TRUE(stated->config.doSample);
  EXPECT_EQ(stated->config.temperature, 0.6);
  EXPECT_EQ(stated->config.topP, 1.0);
  EXPECT_EQ(stated->config.maxLength, 40);
  EXPECT_EQ(stated->config.eosIds, std::vector<int64_t>{3});
  EXPECT_EQ(stated->config.suppressed, std::vector<int64_t>{5});
  EXPECT_EQ(stated->config.notApplied, std::vector<std::string>{"typical_p 0.5"});
  // Beside that file they do not count.
  folder.write("generation_config.json", "{}");
  Expected<Model> overridden = readModel(folder.path());
  ASSERT_TRUE(overridden) << overridden.message();
  EXPECT_FALSE(overridden->config.doSample || overridden->config.maxLength || !overridden->config.suppressed.empty());
  // A config without any names no source.
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  std::filesystem::remove(folder.path() + "/generation_config.json");
  EXPECT_EQ(readModel(folder.path())->config.samplingSource, "");
}

TEST(Config, generationDefaults) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  auto read = [&](const json &generation) {
    folder.write("generation_config.json", generation.dump());
    Expected<Model> model = readModel(folder.path());
    return model ? model->config : ModelConfig();
  };
  ModelConfig greedy = read({{"eos_token_id", {3, 4}}, {"pad_token_id", -1}});
  EXPECT_FALSE(greedy.doSample);
  EXPECT_EQ(greedy.topK, 0);
  EXPECT_EQ(greedy.samplingSource, "generation_config.json");
  EXPECT_EQ(greedy.eosIds, (std::vector<int64_t>{3, 4}));
  EXPECT_FALSE(greedy.padId);
  ModelConfig sampled =
      read({{"do_sample", true}, {"temperature", 0.6}, {"top_p", 0.9}, {"min_p", 0.05}, {"repetition_penalty", 1.1}});
  EXPECT_TRUE(sampled.doSample);
  EXPECT_EQ(sampled.topK, 50);
  EXPECT_EQ(sampled.temperature, 0.6);
  EXPECT_EQ(sampled.minP, 0.05);
  // Keys that would change the text are named, unless they ask for nothing.
  EXPECT_EQ(sampled.notApplied, std::vector<std::string>());
  json silent = {{"num_beams", 1},        {"no_repeat_ngram_size", 0}, {"suppress_tokens", json::array()},
                 {"min_length", 0},       {"typical_p", 0.5},          {"forced_eos_token_id", nullptr},
                 {"length_penalty", 2.0}, {"use_cache", true},         {"max_length", 4096},
                 {"token_healing", false}};
  EXPECT_EQ(read(silent).notApplied, std::vector<std::string>());
  EXPECT_EQ(read(silent).maxLength, 4096);
  json loud = {{"do_sample", true},      {"num_beams", 4},           {"no_repeat_ngram_size", 3},
               {"suppress_tokens", {0}}, {"forced_bos_token_id", 0}, {"typical_p", 0.5}};
  // Beams are searched, or samples drawn.
  EXPECT_EQ(read(loud).notApplied, (std::vector<std::string>{"num_beams 4", "typical_p 0.5"}));
  ModelConfig searched = read({{"num_beams", 4},
                               {"no_repeat_ngram_size", 3},
                               {"length_penalty", 2.0},
                               {"early_stopping", true},
                               {"forced_bos_token_id", 7}});
  EXPECT_EQ(searched.notApplied, std::vector<std::string>());
  EXPECT_EQ(searched.numBeams, 4);
  EXPECT_EQ(searched.noRepeatNgram, 3);
  EXPECT_EQ(searched.lengthPenalty, 2.0);
  EXPECT_TRUE(searched.earlyStopping);
  EXPECT_EQ(searched.forcedBosId, 7);
  ModelConfig ruled = read({{"early_stopping", "never"},
                            {"bad_words_ids", {{7}, {8, 9}}},
                            {"renormalize_logits", true},
                            {"min_length", 5},
                            {"max_new_tokens", 12}});
  EXPECT_EQ(ruled.notApplied, std::vector<std::string>());
  EXPECT_TRUE(ruled.neverStopsEarly && !ruled.earlyStopping && ruled.renormalizesLogits);
  EXPECT_EQ(ruled.badWords, (std::vector<std::vector<int64_t>>{{7}, {8, 9}}));
  EXPECT_EQ(std::tie(ruled.minLength, ruled.minNewTokens, ruled.maxLength, ruled.maxNewTokens),
            std::make_tuple(5, 0, 0, 12));
  EXPECT_EQ(read({{"min_length", 5}, {"min_new_tokens", 0}}).minLength, 0); // the second counts alone
  EXPECT_EQ(read({{"num_beam_groups", 2}, {"diversity_penalty", 0.5}}).notApplied,
            (std::vector<std::string>{"diversity_penalty 0.5", "num_beam_groups 2"}));
  // One without an entry has defaults for all; other lists without entries ask for nothing.
  EXPECT_EQ(read({{"watermarking_config", json::object()}, {"sequence_bias", json::array()}}).notApplied,
            std::vector<std::string>{"watermarking_config"});
  for (const auto &[generation, expected] :
       {std::pair<json, const char *>{{{"eos_token_id", 32}}, "eos_token_id is 32"},
        {{{"temperature", -1}}, "temperature is -1"},
        {{{"top_p", 0}}, "top_p is 0"},
        {{{"top_k", -1}}, "top_k is -1"},
        {{{"min_p", 2}}, "min_p is 2"},
        {{{"repetition_penalty", 0}}, "repetition_penalty is 0"},
        {{{"num_beams", 0}}, "num_beams is 0, expected a number from 1 to 256"},
        {{{"length_penalty", 1e9}}, "length_penalty is 1e+09, expected a number from -100 to 100"},
        {{{"no_repeat_ngram_size", -1}}, "no_repeat_ngram_size is -1"},
        {{{"min_length", -1}}, "min_length is -1, expected 0 to 2147483647"},
        {{{"max_new_tokens", 1.5}}, "max_new_tokens is '1.5', expected an integer"},
        {{{"bad_words_ids", {{7}, {8, 32}}}}, "bad_words_ids is 32, expected a token below vocab_size (32)"},
        {{{"bad_words_ids", json::array({7})}}, "bad_words_ids is no list of lists of tokens"},
        {{{"bad_words_ids", json::array({json::array()})}}, "bad_words_ids is no list of lists of tokens"},
        {{{"bad_words_ids", 7}}, "bad_words_ids is no list of lists of tokens"},
        {{{"early_stopping", "soon"}}, "early_stopping is '\"soon\"', expected true or false"},
        {{{"forced_eos_token_id", 32}}, "forced_eos_token_id is 32"},
        {{{"do_sample", "yes"}}, "do_sample is '\"yes\"', expected true or false"}}) {
    folder.write("generation_config.json", generation.dump());
    std::string message = refusal(folder.path());
    EXPECT_NE(message.find("generation_config.json: "), std::string::npos) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST(Json, stringsAreDecoded) {
  std::string error;
  JsonValue value = JsonValue::parse(R"("a\n\"\\\/\u00e9\u20ac\ud83d\ude00")", error);
  EXPECT_EQ(value.string(), "a\n\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") << error;
}

} // namespace
