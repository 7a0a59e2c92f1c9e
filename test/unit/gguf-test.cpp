// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelFiles.h"
#include "frontends/gguf/Gguf.h"
#include "frontends/read/ReadModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string refusalOf(const GgufBuilder &file) {
  TemporaryFolder folder;
  return refusal(folder.write("model.gguf", file.bytes()));
}

// A case bends a valid file; the message must name the file and what is wrong with it.
struct BadGguf {
  const char *name;
  std::function<void(GgufBuilder &)> bend;
  const char *expected;
};

class GgufRefused : public testing::TestWithParam<BadGguf> {};

TEST_P(GgufRefused, saysWhy) {
  GgufBuilder file = tinyGguf();
  GetParam().bend(file);
  std::string message = refusalOf(file);
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
  EXPECT_NE(message.find("model.gguf: "), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const char *const q = "blk.0.attn_q.weight";

const BadGguf badFiles[] = {
    {"version0", [](auto &f) { f.version = 0; }, "version 0 is not supported"},
    {"version1", [](auto &f) { f.version = 1; }, "version 1 is not supported"},
    {"version4", [](auto &f) { f.version = 4; }, "version 4 is not supported"},
    {"bigEndian", [](auto &f) { f.version = 0x03000000; }, "big-endian"},
    {"tensorCountAbsurd", [](auto &f) { f.numTensors = 1'000'000'000; }, "tensor count 1000000000"},
    {"tensorCountAboveThoseThere", [](auto &f) { f.numTensors = static_cast<int64_t>(f.tensors.size()) + 1; }, "byte "},
    {"pairCountAbsurd", [](auto &f) { f.numPairs = 1LL << 40; }, "metadata count"},
    {"keyEmpty", [](auto &f) { f.u32("", 1); }, "metadata key of 0 bytes"},
    {"keyHuge", [](auto &f) { f.u32(std::string(70000, 'k'), 1); }, "metadata key of 70000 bytes"},
    {"keyWithControlBytes", [](auto &f) { f.u32("llama.\x1b\n", 1); },
     "llama.\\x1b\\x0a is 1, a key that is not known"},
    {"keyTwice", [](auto &f) { f.pairs.push_back(f.pairs[3]); }, "duplicate metadata key 'llama.block_count'"},
    {"valueTypeUnknown", [](auto &f) { f.set("x.y", 99, ""); }, "'x.y' has unknown value type 99"},
    {"boolOfTwo", [](auto &f) { f.set("x.y", 7, "\x02"); }, "expected 0 or 1"},
    {"arrayNested", [](auto &f) { f.set("x.deep", 9, bytesOf<uint32_t>(9) + bytesOf<uint64_t>(1)); }, "nested"},
    {"arrayTypeUnknown", [](auto &f) { f.set("x.y", 9, bytesOf<uint32_t>(13) + bytesOf<uint64_t>(1)); },
     "unknown value type 13"},
    {"arrayPastEnd", [](auto &f) { f.set("x.y", 9, bytesOf<uint32_t>(4) + bytesOf<uint64_t>(1 << 30)); },
     "past the end"},
    {"arrayCountWraps", [](auto &f) { f.set("x.y", 9, bytesOf<uint32_t>(10) + bytesOf<uint64_t>(1ULL << 61)); },
     "past the end"},
    {"stringPastEnd", [](auto &f) { f.set("x.y", 8, bytesOf<uint64_t>(1 << 30)); }, "truncated in the string 'x.y'"},
    {"stringArrayPastEnd",
     [](auto &f) { f.set("x.y", 9, bytesOf<uint32_t>(8) + bytesOf<uint64_t>(1) + bytesOf<uint64_t>(1 << 30)); },
     "element 0 of 'x.y'"},
    {"alignment0", [](auto &f) { f.u32("general.alignment", 0); }, "'general.alignment' is 0"},
    {"alignment13", [](auto &f) { f.u32("general.alignment", 13); }, "'general.alignment' is 13"},
    {"alignment2to31", [](auto &f) { f.u32("general.alignment", 1u << 31); }, "'general.alignment' is 2147483648"},
    {"alignmentNotInteger", [](auto &f) { f.f32("general.alignment", 32.0f); }, "of type f32, expected u32"},
    {"nameTooLong", [](auto &f) { f.tensors[0].name = std::string(65, 'n'); }, "tensor name of 65 bytes"},
    {"nameEmpty", [](auto &f) { f.tensors[0].name = ""; }, "tensor name of 0 bytes"},
    {"nameTwice", [](auto &f) { f.tensors[1].name = f.tensors[0].name; }, "duplicate tensor 'token_embd.weight'"},
    {"nameWithControlBytes", [](auto &f) { f.tensors[0] = {"\x1b[2J\n", {16, 32}, 9999, ""}; },
     "'\\x1b[2J\\x0a' has unknown type 9999"},
    {"fiveDimensions", [](auto &f) { f.tensor(q).dims = {16, 16, 1, 1, 1}; }, "n_dims is 5"},
    {"dimensionNegative", [](auto &f) { f.tensor(q).dims = {16, -16}; }, "dimension 1 is negative (-16)"},
    {"dimensionsWrap", [](auto &f) { f.tensor(q).dims = {1LL << 32, 1LL << 32}; }, "overflows"},
    {"bytesWrapToZero", [](auto &f) { f.tensor(q).dims = {1LL << 31, 1LL << 31}; }, "overflows"},
    {"rowNotMultipleOfBlock", [](auto &f) { f.tensor(q).type = 8; }, "not a multiple of the block of q8_0 (32)"},
    {"typeRemoved", [](auto &f) { f.tensor(q).type = 4; }, "type 4 (q4_2), which is not supported"},
    {"typeUnknown", [](auto &f) { f.tensor(q).type = 77; }, "unknown type 77"},
    {"offsetUnaligned", [](auto &f) { f.tensor(q).offset = 33; }, "offset 33 is not a multiple of the alignment 32"},
    {"offsetPastEnd", [](auto &f) { f.tensor(q).offset = 1 << 20; }, "past the end"},
    {"offsetWraps", [](auto &f) { f.tensor(q).offset = INT64_MAX - 31; }, "past the end"},
    {"overlap", [](auto &f) { f.tensor(q).offset = 0; }, "overlap at byte"},
    {"architectureMissing", [](auto &f) { f.erase("general.architecture"); }, "'general.architecture' is missing"},
    {"architectureUnknown", [](auto &f) { f.string("general.architecture", "frobnitz"); },
     "'frobnitz' (general.architecture) is not supported; known"},
    {"architectureNotString", [](auto &f) { f.u32("general.architecture", 1); },
     "'general.architecture' is of type u32, expected a string"},
    {"blocksMissing", [](auto &f) { f.erase("llama.block_count"); }, "'llama.block_count' is missing"},
    {"blocksAbsurd", [](auto &f) { f.u32("llama.block_count", 1'000'000'000); }, "llama.block_count is 1000000000"},
    {"blocksOfWrongType", [](auto &f) { f.f32("llama.block_count", 2.0f); },
     "'llama.block_count' is of type f32, expected an integer"},
    {"blocksAboveSigned", [](auto &f) { f.set("llama.block_count", 10, bytesOf(UINT64_MAX)); },
     "18446744073709551615, out of range"},
    {"headsZero", [](auto &f) { f.u32("llama.attention.head_count", 0); }, "llama.attention.head_count is 0"},
    {"headsDiffer",
     [](auto &f) {
       f.set("llama.attention.head_count_kv", 9, bytesOf<uint32_t>(4) + bytesOf<uint64_t>(2) + bytesOf(2) + bytesOf(1));
     },
     "differs between layers (2, 1)"},
    {"headsOfTooFewLayers",
     [](auto &f) { f.set("llama.attention.head_count", 9, bytesOf<uint32_t>(4) + bytesOf<uint64_t>(1) + bytesOf(4)); },
     "'llama.attention.head_count' has 1 elements, expected one for each of 2 layers (llama.block_count)"},
    {"headsOfTooManyLayers",
     [](auto &f) {
       f.set("llama.attention.head_count_kv", 9,
             bytesOf<uint32_t>(4) + bytesOf<uint64_t>(3) + bytesOf(2) + bytesOf(2) + bytesOf(2));
     },
     "'llama.attention.head_count_kv' has 3 elements, expected one for each of 2 layers"},
    {"widthsOfNoLayer",
     [](auto &f) { f.set("llama.feed_forward_length", 9, bytesOf<uint32_t>(4) + bytesOf<uint64_t>(0)); },
     "'llama.feed_forward_length' has 0 elements, expected one for each of 2 layers"},
    {"headsOfNoLayers",
     [](auto &f) {
       f.u32("llama.block_count", 0);
       f.set("llama.attention.head_count", 9, bytesOf<uint32_t>(4) + bytesOf<uint64_t>(0));
     },
     "'llama.attention.head_count' is empty"},
    {"headsOfFloats",
     [](auto &f) {
       f.set("llama.attention.head_count", 9,
             bytesOf<uint32_t>(6) + bytesOf<uint64_t>(2) + bytesOf(4.0f) + bytesOf(4.0f));
     },
     "'llama.attention.head_count' is of type array of f32, expected an array of integers"},
    {"headsAboveSigned",
     [](auto &f) {
       f.set("llama.attention.head_count", 9,
             bytesOf<uint32_t>(10) + bytesOf<uint64_t>(2) + bytesOf<uint64_t>(4) + bytesOf(UINT64_MAX));
     },
     "'llama.attention.head_count': element 1 is out of range"},
    {"kvHeadsDoNotDivide", [](auto &f) { f.u32("llama.attention.head_count_kv", 3); },
     "llama.attention.head_count (4) must be a multiple of llama.attention.head_count_kv (3)"},
    {"epsNan", [](auto &f) { f.f32("llama.attention.layer_norm_rms_epsilon", NAN); },
     "llama.attention.layer_norm_rms_epsilon is nan"},
    {"thetaInfinite", [](auto &f) { f.f32("llama.rope.freq_base", INFINITY); }, "llama.rope.freq_base is inf"},
    {"rotaryOdd", [](auto &f) { f.u32("llama.rope.dimension_count", 3); }, "give 3 rotary dimensions"},
    {"scalingUnknown", [](auto &f) { f.string("llama.rope.scaling.type", "warp"); }, "'warp', which is not supported"},
    {"scalingByZero",
     [](auto &f) {
       f.string("llama.rope.scaling.type", "linear");
       f.f32("llama.rope.scaling.factor", 0.0f);
     },
     "llama.rope.scaling.factor is 0"},
    {"vocabularyNotRows", [](auto &f) { f.u32("llama.vocab_size", 33); }, "the config asks for (33, 16)"},
    {"tokensNotRows", [](auto &f) { f.strings("tokenizer.ggml.tokens", {"a", "b"}); },
     "tokenizer.ggml.tokens has 2 tokens, but token_embd.weight has 32 rows"},
    {"eosBeyondVocabulary", [](auto &f) { f.u32("tokenizer.ggml.eos_token_id", 32); }, "eos_token_id is 32"},
    {"tensorMissing", [](auto &f) { f.tensor(q).name = "other"; },
     "tensor model.layers.0.self_attn.q_proj.weight (blk.0.attn_q.weight) is missing"},
    {"tensorOfUnknownLayer", [](auto &f) { f.tensors.push_back({"blk.2.attn_q.weight", {16, 16}, 0, zeros(1024)}); },
     "'blk.2.attn_q.weight' is not part of a model"},
    {"tensorOfNoLayer", [](auto &f) { f.tensors.push_back({"foo.weight", {16}, 0, zeros(64)}); },
     "'foo.weight' is not part of a model of architecture 'llama' with llama.block_count 2"},
    {"clampUnread", [](auto &f) { f.f32("llama.attention.clamp_kqv", 8.0f); },
     "llama.attention.clamp_kqv is 8, which is not supported for llama; expected 0"},
    {"causalFalse",
     [](auto &f) {
       f.set("llama.attention.causal", 7, std::string(1, '\0'));
       f.u32("llama.attention.sliding_window", 4);
     },
     "llama.attention.causal is false, which is not supported for llama; expected true"},
    {"alibiOfWrongType", [](auto &f) { f.string("llama.attention.max_alibi_bias", "much"); },
     "llama.attention.max_alibi_bias is 'much', which is not supported for llama; expected 0"},
    {"keyUnknown", [](auto &f) { f.string("llama.hidden_act", "relu"); },
     "llama.hidden_act is 'relu', a key that is not known for llama; expected a file without it"},
    {"arrayUnknown", [](auto &f) { f.strings("llama.layer_kinds", {"a", "b"}); },
     "llama.layer_kinds is an array of string, a key that is not known for llama"},
    {"temperatureUnread", [](auto &f) { f.f32("llama.attention.temperature_scale", 0.1f); },
     "llama.attention.temperature_scale is 0.100000001, which is not supported"},
    {"predictingLayers", [](auto &f) { f.u32("llama.nextn_predict_layers", 1); },
     "llama.nextn_predict_layers is 1, which is not supported"},
    {"weightsOfIntegers", [](auto &f) { f.tensor(q).type = 26; }, "has type i32, expected f32"},
    {"expertsPerTokenAboveExperts",
     [](auto &f) {
       f.u32("llama.expert_count", 2);
       f.u32("llama.expert_used_count", 3);
     },
     "llama.expert_used_count is 3, expected 1 to llama.expert_count (2)"},
};

INSTANTIATE_TEST_SUITE_P(Gguf, GgufRefused, testing::ValuesIn(badFiles),
                         [](const auto &info) { return info.param.name; });

// Keys of other namespaces, and those that say nothing of what this architecture computes, are no reason to refuse a file.
TEST(Gguf, harmlessKeys) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.string("llama.tensor_data_layout", "Meta AI original pth");
  file.u32("llama.expert_used_count", 0);
  file.u32("llama.pooling_type", 3);
  file.f32("llama.logit_scale", 1);
  file.set("llama.rope.scaling.finetuned", 7, std::string(1, '\0'));
  file.u32("quantize.imatrix.entries_count", 224);
  file.u32("general.quantization_version", 2);
  file.string("llamas.hidden_act", "relu");
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  EXPECT_TRUE(model) << model.message();
}

// A factor alone asks for linear scaling, as in llama.cpp.
TEST(Gguf, ropeFactorWithoutType) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.f32("llama.rope.scaling.factor", 4);
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.ropes[0].scaling, RopeScalingKind::Linear);
  EXPECT_EQ(model->config.ropes[0].factor, 4.0);
}

TEST(Gguf, readsTinyModel) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.tensors[0].data = floats(std::vector<float>(512, 1.5f));
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.architecture, "llama");
  EXPECT_EQ(model->config.headDim, 4);
  EXPECT_FALSE(model->config.tieWordEmbeddings);
  EXPECT_TRUE(model->config.ropes[0].interleaved);
  const TensorInfo *embedding = model->checkpoint.find("model.embed_tokens.weight");
  ASSERT_TRUE(embedding);
  EXPECT_EQ(embedding->shape, (std::vector<int64_t>{32, 16}));
  float first;
  std::memcpy(&first, model->checkpoint.data(*embedding), sizeof(first));
  EXPECT_EQ(first, 1.5f);
  EXPECT_EQ(model->checkpoint.find("model.layers.1.mlp.down_proj.weight")->shape, (std::vector<int64_t>{16, 24}));
}

TEST(Gguf, version2AndOtherAlignmentsAreRead) {
  GgufBuilder file = tinyGguf();
  file.version = 2;
  EXPECT_EQ(refusalOf(file), "");
  file.alignment = 64;
  file.u32("general.alignment", 64);
  EXPECT_EQ(refusalOf(file), "");
}

TEST(Gguf, tiedWithoutOutput) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.tensors.erase(file.tensors.begin() + 2);
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_TRUE(model) << model.message();
  EXPECT_TRUE(model->config.tieWordEmbeddings);
}

// Wherever the file is cut, it is refused, and never by a crash. Padding behind the last tensor may be missing.
// What converters copy of a generation_config.json, which has no do_sample there.
TEST(Gguf, samplingDefaults) {
  TemporaryFolder folder;
  auto read = [&](const GgufBuilder &file) {
    Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
    EXPECT_TRUE(model) << model.message();
    return model ? model->config : ModelConfig();
  };
  GgufBuilder file = tinyGguf();
  EXPECT_FALSE(read(file).doSample);
  EXPECT_EQ(read(file).samplingSource, "");
  file.f32("general.sampling.penalty_repeat", 1.25f);
  EXPECT_FALSE(read(file).doSample);
  EXPECT_EQ(read(file).repetitionPenalty, 1.25);
  file.f32("general.sampling.top_p", 0.5f);
  ModelConfig warm = read(file);
  EXPECT_TRUE(warm.doSample);
  EXPECT_EQ(warm.temperature, 1.0);
  EXPECT_EQ(warm.topP, 0.5);
  EXPECT_EQ(warm.topK, 50);
  EXPECT_EQ(warm.samplingSource, "GGUF keys general.sampling");
  file.u32("general.sampling.top_k", 20);
  file.f32("general.sampling.temp", 0.75f);
  file.f32("general.sampling.min_p", 0.125f);
  file.u32("general.sampling.mirostat", 2);
  ModelConfig all = read(file);
  EXPECT_EQ(all.temperature, 0.75);
  EXPECT_EQ(all.topK, 20);
  EXPECT_EQ(all.minP, 0.125);
  EXPECT_EQ(all.samplingSource, "GGUF keys general.sampling");
  EXPECT_EQ(all.notApplied, std::vector<std::string>{"mirostat 2"});
  file.f32("general.sampling.temp", 0);
  EXPECT_FALSE(read(file).doSample);
  file.f32("general.sampling.top_p", 2);
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes())).find("top_p is 2"), std::string::npos);
  file.string("general.sampling.top_p", "most");
  EXPECT_NE(refusal(folder.write("m.gguf", file.bytes())).find("general.sampling.top_p"), std::string::npos);
}

TEST(Gguf, everyTruncationIsRefused) {
  TemporaryFolder folder;
  std::string bytes = tinyGguf().bytes();
  for (size_t length = 0; length < bytes.size(); length += length < 3000 ? 5 : 97)
    EXPECT_NE(refusal(folder.write("m.gguf", bytes.substr(0, length))), "") << length;
}

TEST(Gguf, notGgufNamesTheMagic) {
  TemporaryFolder folder;
  EXPECT_NE(refusal(folder.write("m.gguf", "GGUX" + zeros(64))).find("magic is 'GGUX', expected 'GGUF'"),
            std::string::npos);
  EXPECT_NE(refusal(folder.write("m.gguf", "GG")).find("too short"), std::string::npos);
  EXPECT_NE(refusal(folder.path("absent.gguf")).find("no such file"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("not a regular file"), std::string::npos);
}

TEST(Gguf, onnxIsToldByItsContent) {
  TemporaryFolder folder;
  EXPECT_NE(refusal(folder.write("m.bin", "\x08\x08\x12\x07pytorch")).find("has no graph"), std::string::npos);
}

// Stacked experts (experts, out, in) become one tensor per expert.
TEST(Gguf, stackedExpertsAreViews) {
  GgufBuilder file = tinyGguf();
  file.u32("llama.expert_count", 2);
  file.u32("llama.expert_used_count", 1);
  std::vector<GgufTensor> kept;
  for (const GgufTensor &tensor : file.tensors)
    if (tensor.name.find("ffn_gate") == std::string::npos && tensor.name.find("ffn_up") == std::string::npos &&
        tensor.name.find("ffn_down") == std::string::npos)
      kept.push_back(tensor);
  for (const char *layer : {"blk.0.", "blk.1."}) {
    std::string prefix = layer;
    kept.push_back({prefix + "ffn_gate_inp.weight", {16, 2}, 0, zeros(128)});
    kept.push_back({prefix + "ffn_gate_exps.weight", {16, 24, 2}, 0, zeros(3072)});
    kept.push_back({prefix + "ffn_up_exps.weight", {16, 24, 2}, 0, zeros(3072)});
    kept.push_back({prefix + "ffn_down_exps.weight", {24, 16, 2}, 0, zeros(3072)});
  }
  file.tensors = kept;
  TemporaryFolder folder;
  Expected<Model> model = readModel(folder.write("m.gguf", file.bytes()));
  ASSERT_TRUE(model) << model.message();
  EXPECT_EQ(model->config.architecture, "mixtral");
  const TensorInfo *first = model->checkpoint.find("model.layers.1.block_sparse_moe.experts.0.w2.weight");
  const TensorInfo *second = model->checkpoint.find("model.layers.1.block_sparse_moe.experts.1.w2.weight");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->shape, (std::vector<int64_t>{16, 24}));
  EXPECT_EQ(second->bytes, 1536u);
  EXPECT_EQ(second->offset, first->offset + 1536);

  file.tensor("blk.0.ffn_up_exps.weight").dims = {16, 48};
  EXPECT_NE(refusalOf(file).find("expected (expert_count 2, out, in)"), std::string::npos);
}

// An array of bytes where a config has a number for each layer: read as numbers it would take eight times the file.
TEST(Gguf, arraysAreCountedBeforeTheyAreRead) {
  GgufBuilder file = tinyGguf();
  std::string many(64 << 20, '\x04');
  file.u32("llama.block_count", 1'000'000'000);
  file.set("llama.attention.head_count", 9, bytesOf<uint32_t>(0) + bytesOf<uint64_t>(many.size()) + many);
  EXPECT_NE(refusalOf(file).find("has 67108864 elements, expected one for each of 1000000000 layers"),
            std::string::npos);
  file.u32("llama.block_count", static_cast<uint32_t>(many.size()));
  TemporaryFolder folder;
  std::string path = folder.write("model.gguf", file.bytes());
  auto peak = [] { // KiB
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  long before = peak();
  EXPECT_NE(refusal(path).find("llama.block_count is 67108864, expected 1 to"), std::string::npos);
  EXPECT_LT(peak() - before, 256 << 10);
}

class GgufSplit : public testing::Test {
protected:
  GgufSplit() {
    first = tinyGguf();
    second.tensors.assign(first.tensors.begin() + 5, first.tensors.end());
    first.tensors.resize(5);
    mark(first, 0);
    mark(second, 1);
  }
  static void mark(GgufBuilder &part, uint16_t number) {
    part.set("split.no", 2, bytesOf(number));
    part.set("split.count", 2, bytesOf<uint16_t>(2));
    part.set("split.tensors.count", 5, bytesOf<int32_t>(21));
  }
  std::string refused(const char *given = "m-00001-of-00002.gguf") {
    folder.write("m-00001-of-00002.gguf", first.bytes());
    folder.write("m-00002-of-00002.gguf", second.bytes());
    return refusal(folder.path(given));
  }
  TemporaryFolder folder;
  GgufBuilder first, second;
};

TEST_F(GgufSplit, anyPartWillDo) {
  EXPECT_EQ(refused(), "");
  EXPECT_EQ(refused("m-00002-of-00002.gguf"), "");
}

TEST_F(GgufSplit, missingPart) {
  std::string path = folder.write("m-00001-of-00002.gguf", first.bytes());
  EXPECT_NE(refusal(path).find("m-00002-of-00002.gguf: cannot be opened"), std::string::npos);
}

TEST_F(GgufSplit, lyingNumber) {
  mark(second, 7);
  EXPECT_NE(refused().find("'split.no' is 7, expected 1 by the file's name"), std::string::npos);
}

TEST_F(GgufSplit, lyingCount) {
  second.set("split.count", 2, bytesOf<uint16_t>(3));
  EXPECT_NE(refused().find("'split.count' is 3, expected 2"), std::string::npos);
}

TEST_F(GgufSplit, partWithoutSplitKeys) {
  second.erase("split.no");
  EXPECT_NE(refused().find("'split.no' is missing"), std::string::npos);
}

TEST_F(GgufSplit, lyingTensorCount) {
  first.set("split.tensors.count", 5, bytesOf<int32_t>(22));
  EXPECT_NE(refused().find("'split.tensors.count' is 22, but the parts hold 21"), std::string::npos);
}

TEST_F(GgufSplit, tensorInTwoParts) {
  second.tensors[0].name = "token_embd.weight";
  EXPECT_NE(refused().find("m-00002-of-00002.gguf: duplicate tensor 'token_embd.weight'"), std::string::npos);
}

TEST_F(GgufSplit, nameWithoutNumbers) {
  EXPECT_NE(refusal(folder.write("m.gguf", first.bytes())).find("is not named PREFIX-00001-of-00002.gguf"),
            std::string::npos);
}

TEST(GgufFile, gettersCheckTypes) {
  TemporaryFolder folder;
  GgufBuilder builder = tinyGguf();
  builder.strings("a.strings", {"one", "", "three"});
  builder.set("a.i32s", 9, bytesOf<uint32_t>(5) + bytesOf<uint64_t>(2) + bytesOf<int32_t>(-1) + bytesOf<int32_t>(7));
  builder.set("a.f32s", 9, bytesOf<uint32_t>(6) + bytesOf<uint64_t>(1) + bytesOf(0.5f));
  builder.set("a.bool", 7, "\x01");
  builder.set("a.f64", 12, bytesOf(0.25));
  builder.set("a.bools", 9, bytesOf<uint32_t>(7) + bytesOf<uint64_t>(2) + std::string("\x01\x00", 2));
  builder.set("a.u8s", 9, bytesOf<uint32_t>(0) + bytesOf<uint64_t>(3) + std::string("\x00\xff\x05", 3));
  builder.set("a.equal", 9, bytesOf<uint32_t>(3) + bytesOf<uint64_t>(2) + bytesOf<int16_t>(-3) + bytesOf<int16_t>(-3));
  ModelFiles files(folder.write("m.gguf", builder.bytes()));
  Expected<GgufFile> file = GgufFile::open(files);
  ASSERT_TRUE(file) << file.message();
  const GgufCount one{1, "things", "a.things"}, two{2, "things", "a.things"};
  EXPECT_EQ(*file->strings("a.strings"), (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(*file->integers("a.i32s", two), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(*file->floats("a.f32s", one), std::vector<float>{0.5f});
  EXPECT_EQ(*file->booleans("a.bools", two), (std::vector<bool>{true, false}));
  EXPECT_EQ(*file->bytes("a.u8s"), std::string_view("\x00\xff\x05", 3));
  EXPECT_EQ(*file->uniform("a.equal", two), -3);
  for (const std::string &message : {file->integers("a.i32s", one).message(), file->floats("a.f32s", two).message(),
                                     file->booleans("a.bools", one).message(), file->uniform("a.equal", one).message()})
    EXPECT_NE(message.find("elements, expected one for each of "), std::string::npos) << message;
  EXPECT_NE(file->uniform("a.i32s", two).message().find("'a.i32s' differs between things (-1, 7)"), std::string::npos);
  EXPECT_TRUE(*file->boolean("a.bool"));
  EXPECT_EQ(*file->number("a.f64"), 0.25);
  EXPECT_EQ(*file->number("llama.block_count"), 2.0);
  EXPECT_EQ(*file->string("general.architecture"), "llama");
  for (const std::string &message :
       {file->strings("a.i32s").message(), file->integers("a.f32s", one).message(),
        file->floats("a.i32s", two).message(), file->booleans("a.f32s", one).message(), file->bytes("a.i32s").message(),
        file->uniform("a.bools", two).message(), file->boolean("a.f64").message(), file->integer("a.bool").message(),
        file->number("general.architecture").message(), file->string("a.strings").message(),
        file->strings("general.architecture").message()})
    EXPECT_NE(message.find("is of type"), std::string::npos) << message;
  EXPECT_NE(file->integer("b").message().find("'b' is missing"), std::string::npos);
}

} // namespace
