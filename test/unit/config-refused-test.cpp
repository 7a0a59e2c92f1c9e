// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face configs that are refused, and what the message says.
#include "ModelFiles.h"
#include "frontends/ModelConfig.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

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
     "architecture 'frobnitz' (model_type) is not supported; known architectures: "},
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
    {"rotaryShareScaled",
     {{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}},
     "partial_rotary_factor is 0.500000, which llama does not support beside scaled frequencies"},
    {"ropePerLayerType",
     {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}},
     "rope_parameters.full_attention is not supported: llama has one rotary embedding for all layers"},
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
    {"windowZero",
     {{"model_type", "mistral"}, {"sliding_window", 0}},
     "sliding_window is 0, expected at least 1, or null for none"},
    {"windowNotUsed",
     {{"model_type", "qwen2"}, {"sliding_window", 4}, {"layer_types", {"full_attention", "sliding_attention"}}},
     "layer_types holds sliding_attention, but use_sliding_window is false"},
    {"scalingOfPhi3",
     {{"model_type", "phi3"}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}},
     "rope_scaling.type is 'linear', which is not supported; known: default, longrope"},
    {"scalingUnknown", scaled("warp", json::object()),
     "rope_scaling.rope_type is 'warp', which is not supported; known: default"},
    {"scalingNotObject", {{"rope_scaling", 2}}, "rope_scaling is of type number, expected an object"},
    {"factorMissing", scaled("linear", json::object()), "rope_scaling.factor is missing"},
    {"factorZero", scaled("linear", {{"factor", 0}}), "rope_scaling.factor is 0, expected a positive number"},
    {"factorZeroInParameters",
     {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 0}}}},
     "rope_parameters.factor is 0, expected a positive number"},
    {"factorsShortInParameters",
     {{"rope_parameters", {{"rope_type", "longrope"}, {"factor", 2}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}}},
     "rope_parameters.short_factor has 1 values, expected half of the 4 rotary dimensions"},
    {"lowAboveHigh", scaled("llama3", {{"factor", 8}, {"low_freq_factor", 5}, {"high_freq_factor", 4}}),
     "high_freq_factor is 4"},
    {"contextZero", scaled("yarn", {{"factor", 8}, {"original_max_position_embeddings", 0}}),
     "original_max_position_embeddings is 0"},
    {"betaNegative", scaled("yarn", {{"factor", 8}, {"beta_fast", -1}}), "beta_fast is -1"},
    {"factorsShort", scaled("longrope", {{"short_factor", {1}}, {"long_factor", {1, 2}}}), "short_factor has 1 values"},
    {"factorsNegative", scaled("longrope", {{"short_factor", {1, -1}}, {"long_factor", {1, 2}}}), "short_factor is -1"},
    {"factorsNotNumbers", scaled("longrope", {{"short_factor", {1, "x"}}, {"long_factor", {1, 2}}}),
     "short_factor is '\"x\"', expected numbers"},
    {"quantizedByAnother",
     {{"quantization_config", {{"quant_method", "hqq"}}}},
     "quantization_config.quant_method is 'hqq', which is not supported; known: awq, "},
    {"quantizedByNone",
     {{"quantization_config", {{"bits", 4}}}},
     "quantization_config.quant_method is missing; known: awq, "},
    {"quantizedByNumber",
     {{"quantization_config", {{"quant_method", 4}}}},
     "quantization_config.quant_method is '4', expected a string"},
    {"quantizedBy3Bits",
     {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 3}}}},
     "quantization_config.bits is 3, which is not supported for gptq; expected 4 or 8"},
    {"quantizedByGroupOf0",
     {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 0}}}},
     "quantization_config.group_size is 0, expected a positive number"},
    {"quantizedByLayer",
     {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"dynamic", {{"a", 1}}}}}},
     "quantization_config.dynamic is set, which is not supported for gptq"},
    {"quantizedForMarlin",
     {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"checkpoint_format", "marlin"}}}},
     "quantization_config.checkpoint_format is 'marlin', which is not supported for gptq; expected gptq or gptq_v2"},
    {"quantizedByUnknownKey",
     {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"rotation", "hadamard"}}}},
     "quantization_config.rotation is \"hadamard\", a key that is not known for gptq"},
    {"awqGemv",
     {{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}}}},
     "quantization_config.version is 'gemv', which is not supported for awq; expected gemm"},
    {"awqWithoutZeros",
     {{"quantization_config", {{"quant_method", "awq"}, {"zero_point", false}}}},
     "quantization_config.zero_point is false, which is not supported for awq; expected true"},
    {"fp8E5m2",
     {{"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e5m2"}}}},
     "quantization_config.fmt is 'e5m2', which is not supported for fp8; expected e4m3"},
    {"fp8BlockOfOneSize",
     {{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128}}}}},
     "quantization_config.weight_block_size has 1 numbers, expected two that are positive"},
    {"compressedWithoutGroups",
     {{"quantization_config", {{"quant_method", "compressed-tensors"}}}},
     "quantization_config.config_groups has no group, expected one at least"},
    {"compressedSparse",
     {{"quantization_config", {{"quant_method", "compressed-tensors"}, {"format", "marlin-24"}}}},
     "quantization_config.format is 'marlin-24', which is not supported for compressed-tensors"},
    {"compressedRotated",
     {{"quantization_config", {{"quant_method", "compressed-tensors"}, {"transform_config", {{"a", 1}}}}}},
     "quantization_config.transform_config is set, which is not supported for compressed-tensors"},
    {"compressedBits",
     {{"quantization_config",
       {{"quant_method", "compressed-tensors"}, {"config_groups", {{"group_0", {{"weights", {{"num_bits", 2}}}}}}}}}},
     "quantization_config.config_groups.group_0.weights.num_bits is 2, which is not supported"},
    {"bitsandbytesStorage",
     {{"quantization_config", {{"quant_method", "bitsandbytes"}, {"bnb_4bit_quant_storage", "bfloat16"}}}},
     "quantization_config.bnb_4bit_quant_storage is 'bfloat16', which is not supported"},
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
    {"layerTypesLong",
     {{"model_type", "qwen2"}, {"layer_types", {"full_attention", "full_attention", "full_attention"}}},
     "layer_types has 3 entries, expected num_hidden_layers (2)"},
    {"layerTypesOfAnyFamily",
     {{"layer_types", {"full_attention"}}},
     "layer_types has 1 entries, expected num_hidden_layers (2)"},
    {"layerTypesNumber", {{"layer_types", 2}}, "layer_types is '2', expected an array of strings"},
    {"layerTypeUnknown",
     {{"model_type", "qwen2"}, {"layer_types", {"full_attention", "linear_attention"}}},
     "layer_types holds 'linear_attention'"},
    {"biasOfAFamilyWithout",
     {{"model_type", "mistral"}, {"attention_bias", true}},
     "attention_bias is true, which is not supported for mistral; expected false"},
    {"clipUnread", {{"clip_qkv", 8.0}}, "clip_qkv is 8.0, which is not supported for llama; expected null"},
    {"gateLimitUnread",
     {{"swiglu_limit", 7.0}},
     "swiglu_limit is 7.0, which is not supported for llama; expected null"},
    {"multiplierUnread", {{"residual_multiplier", 0.22}}, "residual_multiplier is 0.22"},
    {"layersApart",
     {{"per_layer_config", {{"0", {{"rms_norm_eps", 0.5}}}}}},
     "per_layer_config is set, which is not supported for llama; expected null"},
    {"expertsUnread", {{"num_experts", 4}}, "num_experts is 4, which is not supported for llama; expected 0"},
};

INSTANTIATE_TEST_SUITE_P(Config, ConfigRefused, testing::ValuesIn(badConfigs),
                         [](const auto &info) { return info.param.name; });

TEST(Config, slidingLayersNeedAWindow) {
  TemporaryFolder folder;
  json config = tinyConfig();
  config["model_type"] = "gemma2";
  config["sliding_window"] = nullptr;
  writeHuggingFace(folder, config, tinyTensors());
  EXPECT_NE(refusal(folder.path()).find("layer_types holds sliding_attention, but sliding_window is null"),
            std::string::npos);
}

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

TEST(Config, keysThatChangeNothingAreAccepted) {
  TemporaryFolder folder;
  json config = tinyConfig();
  config.merge_patch({{"attention_bias", false},
                      {"clip_qkv", nullptr},
                      {"embedding_multiplier", 1},
                      {"final_logit_softcapping", 0.0},
                      {"layer_types", {"full_attention", "full_attention"}},
                      {"logits_scaling", 1.0},
                      {"num_experts", 0},
                      {"sliding_window", 4096},
                      {"use_cache", true}});
  writeHuggingFace(folder, config, tinyTensors());
  EXPECT_EQ(refusal(folder.path()), "");
}

// What a family does not read is listed by it, or refused by name.
TEST(Config, everyTensorIsRead) {
  const std::string layer = "model.layers.0.self_attn.";
  for (const auto &[name, isKnown] : {std::pair<std::string, bool>{"model.foo.weight", false},
                                      {"foo.weight", false},
                                      {layer + "q_norm.weight", false},
                                      {layer + "q_proj.bias", false},
                                      {"model.layers.2.self_attn.q_proj.weight", false},
                                      {"model.layers..rotary_emb.inv_freq.weight", false},
                                      {layer + "rotary_emb.inv_freq", true},
                                      {"model.rotary_emb.inv_freq", true}}) {
    TemporaryFolder folder;
    std::vector<SafetensorsTensor> tensors = tinyTensors();
    tensors.push_back({name, "F32", {16}});
    writeHuggingFace(folder, tinyConfig(), tensors);
    EXPECT_EQ(refusal(folder.path()).find("tensor '" + name + "' is not part of a model of architecture 'llama'") !=
                  std::string::npos,
              !isKnown)
        << name << ": " << refusal(folder.path());
  }
}

TEST(Config, unreadTensorsAreCounted) {
  TemporaryFolder folder;
  std::vector<SafetensorsTensor> tensors = tinyTensors();
  for (const char *name : {"c", "a", "b"})
    tensors.push_back({name, "F32", {16}});
  writeHuggingFace(folder, tinyConfig(), tensors);
  EXPECT_NE(refusal(folder.path()).find("model.safetensors: tensor 'a' and 2 more are not part of a model"),
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
  for (const auto &[text, expected] : {std::pair<std::string, const char *>{"", "the end of the JSON text"},
                                       {"[]", "the JSON value is of type array, expected an object"},
                                       {"{\"hidden_size\": 1, \"hidden_size\": 2}", "duplicate key 'hidden_size'"},
                                       {"{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "duplicate key 'b'"},
                                       {"{\"rope_theta\": nan}", "byte 15: not a JSON value: 'nan}'"},
                                       {"{\"rope_theta\": -Inf}", "byte 16: not a JSON number"},
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

// Python writes them, where a model has no use for a number; none is one.
TEST(Config, numbersThatAreNotFinite) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  const std::string valid = tinyConfig().dump();
  for (const auto &[key, type] : {std::pair("rope_theta", "a number"), std::pair("vocab_size", "an integer")})
    for (std::string word : {"Infinity", "-Infinity", "NaN"}) {
      std::string text = valid, name = "\"" + std::string(key) + "\":";
      size_t begin = text.find(name) + name.size();
      text.replace(begin, text.find_first_of(",}", begin) - begin, word);
      folder.write("config.json", text);
      std::string message = refusal(folder.path());
      EXPECT_NE(message.find(key + (" is '" + word + "', expected ") + type), std::string::npos) << message;
    }
}

} // namespace
