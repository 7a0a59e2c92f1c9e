// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each family from GGUF: the tensors of data/families under the names that PyPI gguf's name map gives them
// (data/gguf-names.json), read back under Hugging Face's.
#include "ModelFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

json readJson(const std::string &name) {
  std::ifstream file(std::string(HEDDLE_TEST_DIR) + "/unit/data/" + name, std::ios::binary);
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

// Tensors with the shapes of the family's header. GGUF's order of dimensions is the other one, but that of names that end in one of
// "transposed" is Hugging Face's: a Conv1D is stored there as (in, out).
void addTensors(GgufBuilder &file, const std::string &family, const json &entry, int64_t experts) {
  json header = readJson("families/" + family + "/header.json");
  auto isTransposed = [&](const std::string &name) {
    json ends = entry.value("transposed", json::array());
    return std::any_of(ends.begin(), ends.end(), [&](const json &end) {
      std::string text = end;
      return name.size() > text.size() && name.compare(name.size() - text.size(), text.size(), text) == 0;
    });
  };
  for (const auto &[name, gguf] : entry["names"].items()) {
    // Of a matrix that Hugging Face's files hold in another, the entry has the shape.
    json shape = header.contains(name) ? header[name]["shape"] : entry["shapes"][name];
    std::vector<int64_t> dims = shape;
    if (!isTransposed(name))
      std::reverse(dims.begin(), dims.end());
    bool isExpert = name.find(".experts.") != std::string::npos;
    if (isExpert && name.find(".experts.0.") == std::string::npos)
      continue;
    if (isExpert)
      dims.push_back(experts);
    json stacks = entry.value("stacks", json::object()); // others that lie in one tensor, and how many
    if (stacks.contains(gguf) && name.find(".0.") == std::string::npos)
      continue;
    if (stacks.contains(gguf))
      dims.push_back(stacks[gguf]);
    size_t bytes = sizeof(float);
    for (int64_t dim : dims)
      bytes *= static_cast<size_t>(dim);
    file.tensors.push_back({gguf, dims, 0, zeros(bytes)});
  }
}

// The keys of all families, and those that gguf-names.json has of this one.
GgufBuilder familyFile(const std::string &family) {
  json entry = readJson("gguf-names.json")[family];
  GgufBuilder file;
  std::string architecture = entry["architecture"], prefix = architecture + ".";
  file.string("general.architecture", architecture);
  json keys = {{"context_length", 128},     {"embedding_length", 64},       {"block_count", 2},
               {"attention.head_count", 4}, {"attention.head_count_kv", 2}, {"feed_forward_length", 96}};
  keys.update(entry.value("keys", json::object()));
  if (!keys.contains("attention.layer_norm_epsilon"))
    keys["attention.layer_norm_rms_epsilon"] = 1e-6;
  for (const auto &[key, value] : keys.items()) {
    if (value.is_boolean())
      file.set(prefix + key, 7, bytesOf<uint8_t>(value.get<bool>()));
    else if (value.is_array()) { // of flags, or of numbers
      bool areFlags = value.front().is_boolean();
      std::string each;
      for (const json &entry : value)
        each += areFlags ? std::string(1, char(entry.get<bool>())) : bytesOf<int32_t>(entry.get<int32_t>());
      file.set(prefix + key, 9, bytesOf<uint32_t>(areFlags ? 7 : 5) + bytesOf<uint64_t>(value.size()) + each);
    } else if (value.is_number_float())
      file.f32(prefix + key, value);
    else
      file.u32(prefix + key, value);
  }
  json bare = entry.value("bare", json::object()); // without the architecture's name
  for (const auto &[key, value] : bare.items())
    file.f32(key, value);
  addTensors(file, family, entry, keys.value("expert_count", 0));
  return file;
}

std::vector<std::string> namedFamilies() {
  json families = readJson("gguf-names.json");
  std::vector<std::string> names;
  for (const auto &entry : families.items())
    names.push_back(entry.key());
  return names;
}

class GgufFamily : public testing::TestWithParam<std::string> {};

TEST_P(GgufFamily, hasHuggingFaceNames) {
  TemporaryFolder folder;
  std::string family = GetParam();
  Expected<Model> model = readModel(folder.write("m.gguf", familyFile(family).bytes()));
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.architecture, readJson("gguf-names.json")[family].value("model_type", family));
  bool rotates = readJson("gguf-names.json")[family].value("rotates", model->config.family->rope.hasRope);
  EXPECT_EQ(model->config.ropes.empty(), !rotates);
  EXPECT_EQ(model->config.normWeightOffset, 0.0);
  for (const RopeConfig &rope : model->config.ropes)
    EXPECT_EQ(rope.interleaved, readJson("gguf-names.json")[family].value("interleaved", false));
  json header = readJson("families/" + family + "/header.json");
  for (const auto &[name, tensor] : header.items()) {
    if (name == "__metadata__" || !readJson("gguf-names.json")[family]["names"].contains(name))
      continue;
    const TensorInfo *found = model->checkpoint.find(name);
    ASSERT_TRUE(found) << name;
    EXPECT_FALSE(found->transposed);
    uint64_t bytes = tensor["data_offsets"][1].get<uint64_t>() - tensor["data_offsets"][0].get<uint64_t>();
    EXPECT_EQ(found->bytes, bytes) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufFamily, testing::ValuesIn(namedFamilies()),
                         [](const auto &info) { return info.param; });

ModelConfig configOf(const GgufBuilder &file) {
  TemporaryFolder folder;
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  EXPECT_TRUE(model) << model.message();
  return model ? model->config : ModelConfig();
}

// Where layers differ, each rotation is within the heads of its own layers.
TEST(GgufConfig, rotationsAreNoWiderThanTheHeadsThatTurn) {
  GgufBuilder file = familyFile("gemma4_text");
  file.u32("gemma4.rope.dimension_count_swa", 32); // as wide as the other heads
  TemporaryFolder folder;
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_FALSE(model);
  EXPECT_NE(model.message().find("(16) give 32 rotary dimensions"), std::string::npos) << model.message();
}

// Experts stand beside the feed-forward block; their gates and ups may lie in one tensor.
TEST(GgufConfig, gemma4Experts) {
  GgufBuilder file = familyFile("gemma4_text_moe");
  MoeConfig moe = configOf(file).moe;
  EXPECT_TRUE(moe.splitGates && moe.normTopkProb);
  EXPECT_EQ(moe.layerIsMoe, std::vector<bool>(3, true));
  EXPECT_EQ(moe.numExperts, 4);
  EXPECT_EQ(moe.expertsPerToken, 2);
  EXPECT_EQ(moe.intermediateSize, 24);
  for (auto &tensor : file.tensors)
    if (tensor.name.find("ffn_gate_exps") != std::string::npos) {
      tensor.name.replace(tensor.name.find("gate"), 4, "gate_up");
      tensor.dims[1] *= 2;
      tensor.data += tensor.data;
    }
  auto isUp = [](const auto &tensor) { return tensor.name.find("ffn_up_exps") != std::string::npos; };
  file.tensors.erase(std::remove_if(file.tensors.begin(), file.tensors.end(), isUp), file.tensors.end());
  EXPECT_FALSE(configOf(file).moe.splitGates);
  file.u32("gemma4.expert_feed_forward_length", 32);
  TemporaryFolder folder;
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_FALSE(model);
  EXPECT_NE(model.message().find("ffn_gate_up_exps.weight) has shape (48, 64), the config asks for (64, 64)"),
            std::string::npos)
      << model.message();
}

// Layers without heads of keys keep a state.
TEST(GgufConfig, lfm2) {
  GgufBuilder file = familyFile("lfm2");
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(config.recurrent.convWidth, 3);
  EXPECT_EQ(config.numKvHeads, 2);
  EXPECT_EQ(config.intermediateSize, 64);
  TemporaryFolder folder;
  auto said = [&] { return refusal(folder.write("m.gguf", file.bytes())); };
  auto kvHeads = [&](int32_t first, int32_t second) {
    file.set("lfm2.attention.head_count_kv", 9,
             bytesOf<uint32_t>(5) + bytesOf<uint64_t>(2) + bytesOf(first) + bytesOf(second));
  };
  kvHeads(1, 2);
  EXPECT_NE(said().find("lfm2.attention.head_count_kv holds 1 and 2, expected one number, and 0 for layers that keep"),
            std::string::npos);
  kvHeads(0, 0);
  EXPECT_NE(said().find("lfm2.attention.head_count_kv is 0, expected 1 to 65536"), std::string::npos);
  file.u32("lfm2.attention.head_count_kv", 2);
  EXPECT_NE(said().find("lfm2.attention.head_count_kv is one number, expected one for each layer"), std::string::npos);
  kvHeads(0, 2);
  file.u32("lfm2.shortconv.l_cache", 4);
  EXPECT_NE(said().find("blk.0.shortconv.conv.weight) has shape (64, 3), the config asks for (64, 4)"),
            std::string::npos);
}

// Mamba 2's mixer in the place of attention, beside it, or alone in a layer; numbers of heads are (heads, 1), the norm's (groups, width).
TEST(GgufConfig, mambaStates) {
  ModelConfig config = configOf(familyFile("mamba2"));
  EXPECT_TRUE(config.isRecurrent(0) && config.isRecurrent(1) && !config.hasAttention());
  EXPECT_TRUE(config.recurrent.hasBias && config.recurrent.norm == StateNorm::BehindGate);
  EXPECT_EQ(config.recurrent.inputs(), 312);
  config = configOf(familyFile("falcon_h1"));
  EXPECT_TRUE(config.isRecurrent(1) && config.attends(1) && config.recurrent.norm == StateNorm::None);
  config = configOf(familyFile("nemotron_h"));
  EXPECT_EQ(config.recurrent.layers, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(config.attending, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(config.numKvHeads, 2);
  EXPECT_EQ(config.intermediateSize, 96);
  TemporaryFolder folder;
  GgufBuilder file = familyFile("mamba2");
  auto said = [&] { return refusal(folder.write("m.gguf", file.bytes())); };
  file.u32("mamba2.ssm.inner_size", 100);
  EXPECT_NE(said().find("mamba2.ssm.inner_size (100) must be a multiple of mamba2.ssm.time_step_rank (8)"),
            std::string::npos);
  file.u32("mamba2.ssm.inner_size", 128);
  file.u32("mamba2.ssm.conv_kernel", 1);
  EXPECT_NE(said().find("mamba2.ssm.conv_kernel is 1, expected 2 to 64"), std::string::npos) << said();
  file = familyFile("granitemoehybrid_experts");
  file.set("granitehybrid.rope.scaling.finetuned", 7, bytesOf<uint8_t>(1));
  EXPECT_EQ(configOf(file).ropes.size(), 1u);
  file.u32("granitehybrid.rope.dimension_count", 8);
  EXPECT_NE(said().find("granitehybrid.rope.dimension_count is 8, which is not supported for granitemoehybrid"),
            std::string::npos);
}

// What Qwen's converter says of linear attention; a file of Qwen3-Next has one matrix for a state's projections, or several.
TEST(GgufConfig, qwenStates) {
  GgufBuilder file = familyFile("qwen3_next");
  RecurrentConfig state = configOf(file).recurrent;
  EXPECT_EQ(state.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(state.channels(), 80);
  EXPECT_EQ(state.values(), 48);
  EXPECT_FALSE(state.isSplit || state.isTiled || state.ratesAreLogs);
  EXPECT_TRUE(configOf(familyFile("qwen3_5_text")).recurrent.isTiled);
  TemporaryFolder folder;
  auto said = [&] { return refusal(folder.write("m.gguf", file.bytes())); };
  file.u32("qwen3next.ssm.inner_size", 50);
  EXPECT_NE(said().find("qwen3next.ssm.inner_size (50) must be a multiple of qwen3next.ssm.time_step_rank (4)"),
            std::string::npos);
  file.u32("qwen3next.ssm.inner_size", 48);
  file.u32("qwen3next.full_attention_interval", 0);
  EXPECT_NE(said().find("qwen3next.full_attention_interval is 0, expected a positive number"), std::string::npos);
  file.u32("qwen3next.full_attention_interval", 2);
  // A list of two layers decides, whatever the interval is.
  GgufBuilder listed = familyFile("qwen3_next");
  listed.u32("qwen3next.full_attention_interval", 1);
  listed.set("qwen3next.attention.recurrent_layers", 9,
             bytesOf(uint32_t(7)) + bytesOf(uint64_t(2)) + std::string("\1\0", 2));
  EXPECT_EQ(configOf(listed).recurrent.layers, (std::vector<bool>{true, false}));
  listed.set("qwen3next.attention.recurrent_layers", 9,
             bytesOf(uint32_t(7)) + bytesOf(uint64_t(3)) + std::string("\1\0\1", 3));
  EXPECT_NE(refusal(folder.write("m.gguf", listed.bytes())).find("qwen3next.attention.recurrent_layers"),
            std::string::npos);
  file.u32("qwen3next.ssm.group_count", 3);
  EXPECT_NE(said().find("qwen3next.ssm.time_step_rank (4) must be a multiple of qwen3next.ssm.group_count (3)"),
            std::string::npos);
  file.u32("qwen3next.ssm.group_count", 0);
  EXPECT_NE(said().find("qwen3next.ssm.group_count is 0, expected 1 to 4096"), std::string::npos);
}

// A file that says how tokens are pooled embeds texts, unless somebody wants it to generate.
TEST(GgufConfig, decodersThatEmbedTexts) {
  GgufBuilder file = familyFile("qwen3");
  EXPECT_FALSE(configOf(file).encodes());
  file.u32("qwen3.pooling_type", 3);
  ModelConfig config = configOf(file);
  EXPECT_TRUE(config.encodes() && !config.attendsAhead);
  ASSERT_TRUE(config.pooling);
  EXPECT_EQ(config.pooling->modes, (std::vector{PoolingConfig::Mode::LastToken}));
  EXPECT_TRUE(config.pooling->normalizes);
  TemporaryFolder folder;
  Expected<Model> generates = readModel(folder.write("m.gguf", file.bytes()), DecoderUse::Generate);
  ASSERT_TRUE(generates) << generates.message();
  EXPECT_FALSE(generates->config.encodes());
  file.set("qwen3.attention.causal", 7, std::string(1, '\0'));
  EXPECT_TRUE(configOf(file).attendsAhead);
  EXPECT_FALSE(configOf(familyFile("bert")).embedsTexts);
  EXPECT_EQ(configOf(familyFile("bert")).pooling->modes, (std::vector{PoolingConfig::Mode::Mean}));
}

// A number of a way to pool that is none of tokens' means, a reranker's among them, is no embedding, of encoders and decoders.
TEST(GgufConfig, otherWaysToPoolAreRefused) {
  for (const char *family : {"bert", "qwen3"})
    for (auto [type, said] : {std::pair(4u, "pooling_type is 4, rank, which is not supported; expected 1 to 3"),
                              {99u, "pooling_type is 99, which is not supported; expected 1 to 3"}}) {
      GgufBuilder file = familyFile(family);
      file.u32(std::string(family) + ".pooling_type", type);
      TemporaryFolder folder;
      Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
      ASSERT_FALSE(model);
      EXPECT_NE(model.message().find(said), std::string::npos) << model.message();
    }
}

TEST(GgufConfig, gemmaWindowsAndRopes) {
  GgufBuilder gemma2 = familyFile("gemma2");
  gemma2.u32("gemma2.attention.sliding_window", 6);
  gemma2.f32("gemma2.attn_logit_softcapping", 5.0f);
  ModelConfig config = configOf(gemma2);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{6, 0}));
  EXPECT_EQ(config.attentionSoftcap, 5.0);
  EXPECT_EQ(config.finalSoftcap, 30.0);
  EXPECT_EQ(config.embeddingScale, 8.0);

  GgufBuilder gemma3 = familyFile("gemma3_text");
  gemma3.u32("gemma3.attention.sliding_window", 6);
  gemma3.u32("gemma3.attention.sliding_window_pattern", 2);
  gemma3.string("gemma3.rope.scaling.type", "linear");
  gemma3.f32("gemma3.rope.scaling.factor", 8.0f);
  config = configOf(gemma3);
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(config.ropes[0].factor, 8.0);
  EXPECT_EQ(config.ropes[0].theta, 1e6);
  EXPECT_EQ(config.ropes[1].theta, 1e4);

  // Or the file says of each layer whether it has a window.
  auto pattern = [&](const std::string &flags) {
    gemma3.set("gemma3.attention.sliding_window_pattern", 9,
               bytesOf<uint32_t>(7) + bytesOf<uint64_t>(flags.size()) + flags);
  };
  pattern(std::string("\0\1", 2));
  config = configOf(gemma3);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{0, 6}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{0, 1}));
  TemporaryFolder folder;
  pattern("\1");
  EXPECT_NE(refusal(folder.write("m.gguf", gemma3.bytes()))
                .find("'gemma3.attention.sliding_window_pattern' has 1 elements, expected one for each of 2 layers "
                      "(gemma3.block_count)"),
            std::string::npos);
}

// What no key says is that of the published models; a window of 0 says that all layers rotate and see everything.
TEST(GgufConfig, llama4) {
  GgufBuilder file = familyFile("llama4_text");
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{8192, 8192}));
  EXPECT_TRUE(config.windowsAreChunks && config.normsHeads && config.moe.splitGates && config.moe.scalesInput);
  EXPECT_EQ(config.ropes[1].floor, 8192);
  file.u32("llama4.attention.chunk_size", 7);
  EXPECT_EQ(configOf(file).layerWindow, (std::vector<int64_t>{7, 7}));
  TemporaryFolder folder;
  file.u32("llama4.attention.sliding_window", 6);
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes()))
                .find("llama4.attention.sliding_window is 6, expected 0 or a chunk of 7 tokens"),
            std::string::npos);
  file = familyFile("llama4_text");
  file.u32("llama4.attention.sliding_window", 0);
  config = configOf(file);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(config.ropes.size(), 1u);
  file.u32("llama4.expert_gating_func", 1);
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes())).find("llama4.expert_gating_func is 1, expected 2 (sigmoid)"),
            std::string::npos);
  file = familyFile("llama4_text");
  file.u32("llama4.interleave_moe_layer_step", 1);
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes()))
                .find("llama4.interleave_moe_layer_step is 1, but layer 0 has no experts"),
            std::string::npos);
}

// The layer behind the last is counted in block_count, and predicts; the rotation of a window is never scaled.
TEST(GgufConfig, predictionAndWindows) {
  GgufBuilder file = familyFile("glm4_moe");
  file.u32("glm4moe.block_count", 3);
  file.u32("glm4moe.nextn_predict_layers", 1);
  file.tensors.push_back({"blk.2.nextn.enorm.weight", {64}, 0, zeros(256)});
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.numHiddenLayers, 2);
  EXPECT_TRUE(config.normsHeads);
  TemporaryFolder folder;
  file.u32("glm4moe.nextn_predict_layers", 3);
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes()))
                .find("glm4moe.nextn_predict_layers is 3, expected 0 to less than glm4moe.block_count (3)"),
            std::string::npos);
  file = familyFile("olmo3");
  EXPECT_EQ(configOf(file).ropes.size(), 1u);
  file.u32("olmo2.attention.sliding_window", 7);
  file.string("olmo2.rope.scaling.type", "yarn");
  file.f32("olmo2.rope.scaling.factor", 8.0f);
  file.f32("olmo2.rope.scaling.attn_factor", 1.25f);
  config = configOf(file);
  EXPECT_EQ(config.layerWindow, (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(config.layerRope, (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(config.ropes[0].attentionFactor, 1.25);
  EXPECT_EQ(config.ropes[1].scaling, RopeScalingKind::None);
  file.f32("olmo2.rope.freq_base_swa", 20000.0f);
  file.f32("olmo2.rope.scaling.yarn_attn_factor", 1.5f);
  file.f32("olmo2.rope.scaling.attn_factor", 1.5f);
  config = configOf(file);
  EXPECT_EQ(config.ropes[0].attentionFactor, 1.5);
  EXPECT_EQ(config.ropes[1].theta, 20000.0);
}

// The converter of Cohere's experts writes no other width where no layer is dense.
TEST(GgufConfig, widthOfExpertsAlone) {
  GgufBuilder file = familyFile("qwen3_moe");
  int64_t width = configOf(file).moe.intermediateSize;
  file.erase("qwen3moe.feed_forward_length");
  EXPECT_EQ(configOf(file).intermediateSize, width);
  EXPECT_EQ(configOf(file).moe.intermediateSize, width);
}

// What no key says is that of the published models, whose first 20 layers have keys of their own.
TEST(GgufConfig, gemma3n) {
  GgufBuilder file = familyFile("gemma3n_text");
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.keyLayers, (std::vector<int64_t>{0, 1, 2, 2, 1, 2}));
  EXPECT_EQ(config.streams.laurelRank, 4);
  EXPECT_EQ(config.layerInputs.vocabSize, 240);
  EXPECT_EQ(config.ropes[1].theta, 10000.0);
  EXPECT_NEAR(config.gateCutoffs[5].value_or(0.0), 1.64485, 1e-5);
  auto cutoffs = [&](const std::vector<float> &values) {
    file.set("gemma3n.activation_sparsity_scale", 9,
             bytesOf<uint32_t>(6) + bytesOf<uint64_t>(values.size()) + floats(values));
  };
  cutoffs({1.5f, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY});
  config = configOf(file);
  EXPECT_EQ(config.gateCutoffs[0], 1.5);
  EXPECT_EQ(config.gateCutoffs[1], 0.0);
  EXPECT_FALSE(config.gateCutoffs[2]);
  TemporaryFolder folder;
  auto expect = [&](const char *message) {
    std::string said = refusal(folder.write("m.gguf", file.bytes()));
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  cutoffs({NAN, 0, 0, 0, 0, 0});
  expect("gemma3n.activation_sparsity_scale holds nan, expected numbers, or -inf for none");
  cutoffs({1.5f});
  expect("'gemma3n.activation_sparsity_scale' has 1 elements, expected one for each of 6 layers");
  file = familyFile("gemma3n_text");
  file.u32("gemma3n.attention.shared_kv_layers", 6);
  expect("gemma3n.attention.shared_kv_layers is 6, expected 0 to 5");
  file.u32("gemma3n.attention.shared_kv_layers", 5);
  expect("gemma3n.attention.shared_kv_layers is 5: no layer before the last 5 is of the kind of layer 1");
  file = familyFile("gemma3n_text");
  file.u32("gemma3n.altup.num_inputs", 4);
  expect("tensor 'altup_proj.weight' has shape (2, 32, 32), expected (3, out, in)");
}

// The numbers of activations stand under keys without the architecture's name, one for all layers or one for each.
TEST(GgufConfig, apertus) {
  GgufBuilder file = familyFile("apertus");
  ModelConfig config = configOf(file);
  ASSERT_EQ(config.activationTerms.size(), 2u);
  EXPECT_NEAR(config.activationTerms[1][0], std::log1p(std::exp(0.9)), 1e-6);
  EXPECT_NEAR(config.activationTerms[1][1], 0.5 + std::log1p(std::exp(1.1)), 1e-6);
  EXPECT_EQ(config.activationTerms[0][2], 0.5f);
  EXPECT_EQ(config.activationTerms[0][3], -1e-6f);
  auto alphas = [&](const std::vector<float> &values) {
    file.set("xielu.alpha_p", 9, bytesOf<uint32_t>(6) + bytesOf<uint64_t>(values.size()) + floats(values));
  };
  alphas({30.0f, 0.0f});
  config = configOf(file);
  EXPECT_EQ(config.activationTerms[0][0], 30.0f);
  EXPECT_NEAR(config.activationTerms[1][0], std::log(2.0), 1e-6);
  TemporaryFolder folder;
  auto expect = [&](const char *message) {
    std::string said = refusal(folder.write("m.gguf", file.bytes()));
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  alphas({1.0f});
  expect("'xielu.alpha_p' has 1 elements, expected one for each of 2 layers (apertus.block_count)");
  alphas({1.0f, INFINITY});
  expect("layer 1 has a number of its activation that is inf, expected finite ones");
}

TEST(GgufConfig, mpt) {
  GgufBuilder file = familyFile("mpt");
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.clipQkv, 1.5);
  EXPECT_EQ(config.alibiMaxBias, 8.0);
  file.f32("mpt.attention.max_alibi_bias", 0.0f);
  TemporaryFolder folder;
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes()))
                .find("mpt.attention.max_alibi_bias is 0.000000, expected a positive number"),
            std::string::npos);
}

TEST(GgufConfig, miniMaxM2) {
  GgufBuilder file = familyFile("minimax_m2");
  ModelConfig config = configOf(file);
  EXPECT_TRUE(config.moe.sigmoidScores && config.moe.normTopkProb && config.moe.hasCorrection);
  EXPECT_EQ(config.ropes[0].rotaryDim, 8);
  file.u32("minimax-m2.expert_gating_func", 1);
  TemporaryFolder folder;
  EXPECT_NE(
      refusal(folder.write("m.gguf", file.bytes()))
          .find("minimax-m2.expert_gating_func is 1, which is not supported for minimax_m2; expected 2 (sigmoid)"),
      std::string::npos);
}

TEST(GgufConfig, qwen2HasBiases) {
  EXPECT_TRUE(configOf(familyFile("qwen2")).attentionBias);
}

TEST(GgufConfig, frequencyDivisors) {
  GgufBuilder file = familyFile("llama");
  file.tensors.push_back({"rope_freqs.weight", {8}, 0, floats({1, 1, 1, 1, 2, 4, 8, 8})});
  ModelConfig config = configOf(file);
  EXPECT_EQ(config.ropes[0].scaling, RopeScalingKind::None);
  EXPECT_EQ(config.ropes[0].shortFactor, (std::vector<double>{1, 1, 1, 1, 2, 4, 8, 8}));
  TemporaryFolder folder;
  file.tensor("rope_freqs.weight") = {"rope_freqs.weight", {7}, 0, zeros(28)};
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes())).find("has 7 values, expected half of the 16"),
            std::string::npos);
  file.tensor("rope_freqs.weight") = {"rope_freqs.weight", {8}, 1, zeros(16)};
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes())).find("has type f16 and shape (8), expected f32"),
            std::string::npos);
}

TEST(GgufConfig, longropeFactorsAreTensors) {
  GgufBuilder file = familyFile("phi3");
  file.u32("phi3.rope.scaling.original_context_length", 20);
  file.f32("phi3.rope.scaling.attn_factor", 1.25f);
  file.tensors.push_back({"rope_factors_long.weight", {8}, 0, floats({1, 2, 3, 4, 5, 6, 7, 8})});
  file.tensors.push_back({"rope_factors_short.weight", {8}, 0, floats({1, 1, 1, 1, 1, 1, 1, 2})});
  RopeConfig rope = configOf(file).ropes[0];
  EXPECT_EQ(rope.scaling, RopeScalingKind::Longrope);
  EXPECT_EQ(rope.originalContext, 20);
  EXPECT_EQ(rope.attentionFactor, 1.25);
  EXPECT_EQ(rope.longFactor[7], 8.0);
  EXPECT_EQ(rope.shortFactor[7], 2.0);
}

// Queries that grow do so behind the original context, of which a file without a scaling may speak as well.
TEST(GgufConfig, ministral3KeepsWithinTheOriginalContext) {
  const char *context = "mistral3.rope.scaling.original_context_length";
  GgufBuilder file = familyFile("ministral3");
  file.u32(context, 32);
  EXPECT_EQ(configOf(file).contextLength, 128);
  file.f32("mistral3.attention.temperature_scale", 0.1f);
  EXPECT_EQ(configOf(file).contextLength, 32);
  for (const char *scaling : {"none", "linear"}) {
    file.string("mistral3.rope.scaling.type", scaling);
    EXPECT_EQ(configOf(file).contextLength, 32);
  }
  TemporaryFolder folder;
  for (const char *scaling : {"none", "linear"}) {
    file.string("mistral3.rope.scaling.type", scaling);
    file.u32(context, 0);
    std::string said = refusal(folder.write("m.gguf", file.bytes()));
    EXPECT_NE(said.find(std::string(context) + " is 0, expected at least 1"), std::string::npos) << said;
  }
  file.erase(context);
  EXPECT_EQ(configOf(file).contextLength, 128);
}

// Families whose every layer has experts.
TEST(GgufConfig, expertsAreMissing) {
  TemporaryFolder folder;
  auto expect = [&](const GgufBuilder &file, const std::string &message) {
    std::string said = refusal(folder.write("m.gguf", file.bytes()));
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  for (const char *family : {"granitemoeshared", "hunyuan_v1_moe", "olmoe", "mixtral", "phimoe"}) {
    std::string prefix = readJson("gguf-names.json")[family]["architecture"].get<std::string>() + ".";
    GgufBuilder file = familyFile(family);
    file.tensors.erase(std::find_if(file.tensors.begin(), file.tensors.end(), [](const GgufTensor &tensor) {
      return tensor.name == "blk.1.ffn_gate_inp.weight";
    }));
    expect(file, "(blk.1.ffn_gate_inp.weight) is missing");
    if (prefix == "llama.") // without experts the name stands for another family
      continue;
    file.u32(prefix + "expert_count", 0);
    expect(file, prefix + "expert_count is 0, expected at least 1");
    file.erase(prefix + "expert_count");
    expect(file, prefix + "expert_count is 0, expected at least 1");
  }
}

// Files from before experts were stacked have one tensor per expert.
TEST(GgufConfig, unstackedExperts) {
  GgufBuilder file = familyFile("mixtral");
  std::vector<GgufTensor> tensors;
  for (const GgufTensor &tensor : file.tensors) {
    size_t at = tensor.name.find("_exps.");
    for (int expert = 0; at != std::string::npos && expert < 4; ++expert)
      tensors.push_back({tensor.name.substr(0, at) + "." + std::to_string(expert) + ".weight",
                         {tensor.dims[0], tensor.dims[1]},
                         0,
                         zeros(tensor.data.size() / 4)});
    if (at == std::string::npos)
      tensors.push_back(tensor);
  }
  file.tensors = tensors;
  EXPECT_EQ(configOf(file).moe.numExperts, 4);
}

} // namespace
