// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face configs: what is read from the checkpoints of data/families (config.json and the safetensors header of
// each, its data left out), and what is refused.
#include "ModelFiles.h"
#include "frontends/Json.h"
#include "frontends/ModelConfig.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

std::string readData(const std::string &name) {
  std::ifstream file(std::string(HEDDLE_TEST_DIR) + "/unit/data/families/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The model of a family with zeros for weights, its config changed by `patch`.
Expected<Model> readFamily(const TemporaryFolder &folder, const std::string &family,
                           const json &patch = json::object()) {
  json config = json::parse(readData(family + "/config.json"));
  config.merge_patch(patch);
  folder.write("config.json", config.dump());
  std::string header = readData(family + "/header.json");
  uint64_t end = 0;
  for (const json &tensor : json::parse(header))
    if (tensor.contains("data_offsets"))
      end = std::max(end, tensor["data_offsets"][1].get<uint64_t>());
  folder.write("model.safetensors", safetensorsFile(header, end));
  return readModel(folder.path());
}

class Family : public testing::TestWithParam<const char *> {};

TEST_P(Family, isRead) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, GetParam());
  ASSERT_TRUE(model) << model.takeError().message;
  EXPECT_EQ(model->config.vocabSize, 256);
  EXPECT_EQ(model->config.hiddenSize, 64);
  EXPECT_EQ(model->config.numHiddenLayers, 2);
  EXPECT_EQ(model->config.numHeads, 4);
  EXPECT_EQ(model->config.headDim, 16);
  EXPECT_EQ(model->config.contextLength, 128);
  EXPECT_EQ(model->config.layerWindow.size(), 2u);
  EXPECT_EQ(model->config.eosIds, std::vector<int64_t>{2});
}

INSTANTIATE_TEST_SUITE_P(Config, Family,
                         testing::Values("llama", "llama_linear", "llama3_rope", "llama3_rope_legacy", "llama_yarn",
                                         "llama_bf16", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gemma2",
                                         "gemma3_text", "gemma3_text_legacy", "phi3", "phi3_longrope", "gpt2"),
                         [](const auto &info) { return std::string(info.param); });

ModelConfig familyConfig(const std::string &family, const json &patch = json::object()) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, family, patch);
  EXPECT_TRUE(model) << family << ": " << model.takeError().message;
  return model ? model->config : ModelConfig();
}

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
}

TEST(Config, gemma3InsideAMultimodalConfig) {
  TemporaryFolder folder;
  json text = json::parse(readData("gemma3_text/config.json"));
  folder.write("config.json", json{{"model_type", "gemma3"}, {"text_config", text}, {"eos_token_id", {2, 3}}}.dump());
  json header = json::parse(readData("gemma3_text/header.json")), renamed;
  uint64_t end = 0;
  for (const auto &[name, tensor] : header.items()) {
    if (name == "__metadata__")
      continue;
    renamed["language_model." + name] = tensor;
    end = std::max(end, tensor["data_offsets"][1].get<uint64_t>());
  }
  folder.write("model.safetensors", safetensorsFile(renamed.dump(), end));
  Expected<Model> model = readModel(folder.path());
  ASSERT_TRUE(model) << model.takeError().message;
  EXPECT_EQ(model->config.architecture, "gemma3_text");
  EXPECT_TRUE(model->checkpoint.find("model.layers.1.self_attn.q_norm.weight"));
}

TEST(Config, longrope) {
  RopeConfig rope = familyConfig("phi3_longrope").ropes[0];
  EXPECT_EQ(rope.scaling, RopeScalingKind::Longrope);
  EXPECT_EQ(rope.originalContext, 20);
  EXPECT_EQ(rope.factor, 6.4);
  EXPECT_EQ(rope.longFactor.size(), 8u);
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
  ASSERT_TRUE(model) << model.takeError().message;
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
  std::string header = readData("gpt2/header.json");
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
    ASSERT_TRUE(model) << model.takeError().message;
    std::string block = isMixtral ? "model.layers.1.block_sparse_moe.experts." : "model.layers.1.mlp.experts.";
    const TensorInfo *gate = model->checkpoint.find(block + (isMixtral ? "1.w1.weight" : "1.gate_proj.weight"));
    const TensorInfo *up = model->checkpoint.find(block + (isMixtral ? "1.w3.weight" : "1.up_proj.weight"));
    const TensorInfo *next = model->checkpoint.find(block + (isMixtral ? "2.w1.weight" : "2.gate_proj.weight"));
    ASSERT_TRUE(gate && up && next);
    EXPECT_EQ(gate->shape, (std::vector<int64_t>{24, 16}));
    EXPECT_EQ(up->offset, gate->offset + 24 * 16 * 4);
    EXPECT_EQ(next->offset, gate->offset + 48 * 16 * 4);

    config["num_local_experts"] = 4;
    folder.write("config.json", config.dump());
    EXPECT_NE(
        refusal(folder.path()).find("mlp.experts.gate_up_proj has shape (3, 48, 16), the config asks for (4, 48, 16)"),
        std::string::npos);
  }
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
  EXPECT_EQ(greedy.eosIds, (std::vector<int64_t>{3, 4}));
  EXPECT_FALSE(greedy.padId);
  ModelConfig sampled = read({{"do_sample", true}, {"temperature", 0.6}, {"top_p", 0.9}, {"repetition_penalty", 1.1}});
  EXPECT_TRUE(sampled.doSample);
  EXPECT_EQ(sampled.topK, 50);
  EXPECT_EQ(sampled.temperature, 0.6);
  for (auto [generation, expected] : {std::pair<json, const char *>{{{"eos_token_id", 32}}, "eos_token_id is 32"},
                                      {{{"temperature", -1}}, "temperature is -1"},
                                      {{{"top_p", 0}}, "top_p is 0"},
                                      {{{"top_k", -1}}, "top_k is -1"},
                                      {{{"repetition_penalty", 0}}, "repetition_penalty is 0"},
                                      {{{"do_sample", "yes"}}, "do_sample is '\"yes\"', expected true or false"}}) {
    folder.write("generation_config.json", generation.dump());
    std::string message = refusal(folder.path());
    EXPECT_NE(message.find("generation_config.json: "), std::string::npos) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

struct BadConfig {
  const char *name;
  json patch; // null removes a key
  const char *expected;
};

class ConfigRefused : public testing::TestWithParam<BadConfig> {};

TEST_P(ConfigRefused, saysWhy) {
  TemporaryFolder folder;
  json config = tinyConfig();
  config.merge_patch(GetParam().patch);
  writeHuggingFace(folder, config, tinyTensors());
  std::string message = refusal(folder.path());
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

json scaled(const char *type, const json &more) {
  json rope = {{"rope_type", type}};
  rope.merge_patch(more);
  return {{"rope_scaling", rope}};
}

const BadConfig badConfigs[] = {
    {"architectureUnknown",
     {{"model_type", "frobnitz"}},
     "architecture 'frobnitz' (model_type) is not supported; known architectures: deepseek_v2, deepseek_v3, gemma2, gemma3_text, gpt2, llama"},
    {"architectureMissing", {{"model_type", nullptr}}, "model_type is missing"},
    {"architectureNumber", {{"model_type", 7}}, "model_type is '7', expected a string"},
    {"layersZero", {{"num_hidden_layers", 0}}, "num_hidden_layers is 0, expected 1 to"},
    {"layersBillion", {{"num_hidden_layers", 1'000'000'000}}, "num_hidden_layers is 1000000000"},
    {"layersMissing", {{"num_hidden_layers", nullptr}}, "num_hidden_layers is missing"},
    {"layersFloat", {{"num_hidden_layers", 2.5}}, "num_hidden_layers is '2.5', expected an integer"},
    {"layersBeyond64Bits",
     {{"num_hidden_layers", UINT64_MAX}},
     "num_hidden_layers is '18446744073709551615', expected an integer"},
    {"layersObject", {{"num_hidden_layers", {{"a", 1}}}}, "num_hidden_layers is object, expected an integer"},
    {"headsZero", {{"num_attention_heads", 0}}, "num_attention_heads is 0"},
    {"headsDoNotDivide",
     {{"num_attention_heads", 3}, {"num_key_value_heads", 1}},
     "hidden_size (16) must be a multiple of num_attention_heads (3)"},
    {"kvHeadsZero", {{"num_key_value_heads", 0}}, "num_key_value_heads is 0"},
    {"kvHeadsDoNotDivide",
     {{"num_key_value_heads", 3}},
     "num_attention_heads (4) must be a multiple of num_key_value_heads (3)"},
    {"headDimNegative", {{"head_dim", -4}}, "head_dim is -4"},
    {"rotaryOdd", {{"head_dim", 5}}, "give 5 rotary dimensions"},
    {"rotaryShareZero", {{"partial_rotary_factor", 0}}, "partial_rotary_factor is 0"},
    {"thetaZero", {{"rope_theta", 0}}, "rope_theta is 0, expected a finite number above 0"},
    {"thetaNegative", {{"rope_theta", -1}}, "rope_theta is -1"},
    {"epsNegative", {{"rms_norm_eps", -1e-5}}, "rms_norm_eps is -1e-05"},
    {"epsString", {{"rms_norm_eps", "1e-5"}}, "rms_norm_eps is '\"1e-5\"', expected a number"},
    {"vocabularyNotRows",
     {{"vocab_size", 33}},
     "has shape (32, 16), the config asks for (33, 16) (vocab_size, hidden_size)"},
    {"vocabularyAbsurd", {{"vocab_size", 1LL << 40}}, "vocab_size is 1099511627776"},
    {"eosBeyondVocabulary", {{"eos_token_id", {2, 32}}}, "eos_token_id is 32, expected a token below vocab_size (32)"},
    {"bosNegative", {{"bos_token_id", -2}}, "bos_token_id is -2"},
    {"activationUnknown", {{"hidden_act", "sinh"}}, "hidden_act is 'sinh', an unknown activation; known: silu"},
    {"windowNegative", {{"model_type", "mistral"}, {"sliding_window", -1}}, "sliding_window is negative (-1)"},
    {"scalingUnknown", scaled("warp", json::object()),
     "rope_scaling.rope_type is 'warp', which is not supported; known: default"},
    {"scalingNotObject", {{"rope_scaling", 2}}, "rope_scaling is of type number, expected an object"},
    {"factorMissing", scaled("linear", json::object()), "rope_scaling.factor is missing"},
    {"factorZero", scaled("linear", {{"factor", 0}}), "rope_scaling.factor is 0, expected a positive number"},
    {"lowAboveHigh", scaled("llama3", {{"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
     "high_freq_factor is 4"},
    {"contextZero", scaled("yarn", {{"factor", 8}, {"original_max_position_embeddings", 0}}),
     "original_max_position_embeddings is 0"},
    {"betaNegative", scaled("yarn", {{"factor", 8}, {"beta_fast", -1}}), "beta_fast is -1"},
    {"factorsShort", scaled("longrope", {{"short_factor", {1}}, {"long_factor", {1, 2}}}), "short_factor has 1 values"},
    {"factorsNegative", scaled("longrope", {{"short_factor", {1, -1}}, {"long_factor", {1, 2}}}), "short_factor is -1"},
    {"factorsNotNumbers", scaled("longrope", {{"short_factor", {1, "x"}}, {"long_factor", {1, 2}}}),
     "short_factor is '\"x\"', expected numbers"},
    {"quantized", {{"quantization_config", {{"quant_method", "gptq"}}}}, "quantization_config is not supported"},
    {"biasWithoutTensors", {{"attention_bias", true}}, "tensor model.layers.0.self_attn.q_proj.bias is missing"},
    {"shapeAgainstConfig",
     {{"intermediate_size", 25}},
     "mlp.gate_proj.weight has shape (24, 16), the config asks for (25, 16)"},
    {"expertsPerTokenAboveExperts",
     {{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 3}},
     "num_experts_per_tok is 3, expected 1 to num_local_experts (2)"},
    {"expertsZero", {{"model_type", "mixtral"}, {"num_local_experts", 0}}, "num_local_experts is 0"},
    {"expertsNotThere",
     {{"model_type", "mixtral"}, {"num_local_experts", 2}},
     "tensor model.layers.0.block_sparse_moe.gate.weight is missing"},
    {"layerTypesShort",
     {{"model_type", "qwen2"}, {"layer_types", {"full_attention"}}},
     "layer_types has 1 entries, expected num_hidden_layers (2)"},
    {"layerTypeUnknown",
     {{"model_type", "qwen2"}, {"layer_types", {"full_attention", "linear_attention"}}},
     "layer_types holds 'linear_attention'"},
};

INSTANTIATE_TEST_SUITE_P(Config, ConfigRefused, testing::ValuesIn(badConfigs),
                         [](const auto &info) { return info.param.name; });

TEST(Config, tiedFlagAgainstTensors) {
  TemporaryFolder folder;
  std::vector<SafetensorsTensor> tensors = tinyTensors();
  json config = tinyConfig();
  config["tie_word_embeddings"] = true;
  writeHuggingFace(folder, config, tensors); // lm_head repeats the embeddings
  EXPECT_EQ(refusal(folder.path()), "");
  std::string bytes = safetensorsFile(tensors);
  size_t dataStart = 8 + safetensorsHeader(tensors).dump().size();
  bytes[dataStart] = 1;
  folder.write("model.safetensors", bytes);
  EXPECT_NE(refusal(folder.path()).find("tie_word_embeddings is true, but lm_head.weight differs"), std::string::npos);
  tensors.erase(tensors.begin());
  writeHuggingFace(folder, config, tensors);
  EXPECT_EQ(refusal(folder.path()), "");
  writeHuggingFace(folder, tinyConfig(), tensors);
  EXPECT_NE(refusal(folder.path()).find("lm_head.weight is missing, and tie_word_embeddings is false"),
            std::string::npos);
}

TEST(Config, weightTypesAreChecked) {
  TemporaryFolder folder;
  std::vector<SafetensorsTensor> tensors = tinyTensors();
  tensors[1].dtype = "I64";
  writeHuggingFace(folder, tinyConfig(), tensors);
  EXPECT_NE(refusal(folder.path()).find("model.embed_tokens.weight has type i64, expected f32"), std::string::npos);
}

TEST(Config, brokenJson) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  for (auto [text, expected] : {std::pair<std::string, const char *>{"", "the end of the JSON text"},
                                {"[]", "the JSON value is of type array, expected an object"},
                                {"{\"hidden_size\": 1, \"hidden_size\": 2}", "duplicate key 'hidden_size'"},
                                {"{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "duplicate key 'b'"},
                                {"{\"rope_theta\": NaN}", "byte 15: not a JSON value: 'NaN}'"},
                                {"{\"rope_theta\": 1e400}", "a number is out of range"},
                                {"{\"a\": 01}", "not a JSON number"},
                                {"{\"a\": \"\n\"}", "control byte in a string"},
                                {"{\"a\": \"x", "truncated"},
                                {std::string(100'000, '['), "nested deeper than 64"},
                                {"\"" + std::string(3 << 20, 'x') + "\"", "bytes of JSON, at most"},
                                {"{\"\xc0\x80\": 1}", "not UTF-8"}}) {
    folder.write("config.json", text);
    std::string message = refusal(folder.path());
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_NE(message.find("config.json: "), std::string::npos) << message;
    EXPECT_LT(message.size(), 4096u);
  }
}

TEST(Json, stringsAreDecoded) {
  std::string out;
  JsonScanner scanner(R"("a\n\"\\\/\u00e9\u20ac\ud83d\ude00")");
  ASSERT_TRUE(scanner.string(out));
  EXPECT_EQ(out, "a\n\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_TRUE(scanner.finish());
}

} // namespace
