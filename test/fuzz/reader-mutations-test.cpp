// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A few thousand changes of good inputs, the same ones every time. The fuzzers go on from there.
#include "frontends/read/ReadModel.h"
#include "test/fuzz/SafetensorsMutations.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;
using fuzz::Mutator;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << path;
  return bytes;
}

TEST(Mutations, safetensors) {
  EXPECT_EQ(fuzz::mutateSafetensors(fuzz::safetensors), "");
}

TEST(Mutations, checkpoints) {
  std::string config = readFile(HEDDLE_TEST_DIR "/models/llama/config.json");
  Mutator mutator(2, {"null", "true", "[]", "{}", "-1", "0", "1e400", "\"llama\"", "\"hidden_size\":",
                      "\"num_key_value_heads\":", "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.0},",
                      "\"sliding_window\":4,", "[[[[[[[["});
  for (int i = 0; i < 1500; ++i) {
    std::string changed = mutator.mutate(config), length = {char(changed.size()), char(changed.size() >> 8)};
    ASSERT_EQ(fuzz::huggingFace(length + changed + fuzz::tinySafetensors()), "") << "case " << i << ": " << changed;
  }
}

TEST(Mutations, gguf) {
  std::string model = readFile(HEDDLE_TEST_DIR "/models/gguf/bf16.gguf");
  // Metadata and tensor table; what lies behind them is numbers.
  std::string head = model.substr(0, 4096), numbers = model.substr(4096);
  ASSERT_EQ(fuzz::gguf(model), "");
  Mutator mutator(6, {"GGUF", "llama.block_count", "general.alignment", std::string("\0\0\0\0\0\0\0\0", 8),
                      "\xff\xff\xff\xff\xff\xff\xff\x7f"});
  for (int i = 0; i < 1500; ++i)
    ASSERT_EQ(fuzz::gguf(mutator.mutate(head) + numbers), "") << "case " << i;
}

TEST(Mutations, mmproj) {
  for (const char *kind : {"gemma3", "idefics3", "internvl", "llava", "llava_next", "llava_pixtral", "mistral3",
                           "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "qwen3_vl_moe"}) {
    std::string seed = readFile(std::string(HEDDLE_TEST_DIR "/fuzz/seeds/mmproj/") + kind);
    ASSERT_EQ(fuzz::mmproj(seed), "") << kind;
    ModelFiles good(fuzzFolder() + "/text.gguf"), seeing(fuzzFolder() + "/mmproj.gguf");
    Expected<Model> model = readModelWithImages(good, seeing);
    ASSERT_TRUE(model) << kind << ": " << model.message();
    size_t split = 2 + (uint8_t(seed[0]) | uint8_t(seed[1]) << 8);
    std::string text = seed.substr(2, split - 2), mmproj = seed.substr(split);
    Mutator mutator(10, {"GGUF", "clip.vision.image_size", "clip.vision.projector.scale_factor",
                         "v.blk.0.attn_q.weight", "v.post_ln.weight", "mm.0.bias", "mlp", "pixtral", "idefics3",
                         "model.image_newline", "clip.use_silu", std::string("\0\0\0\0\0\0\0\0", 8),
                         std::string("\0\0\0\x80", 4), "\xff\xff\xff\x7f", "\xff\xff\xff\xff\xff\xff\xff\x7f"});
    for (int i = 0; i < 400; ++i) { // now and then in the decoder's file
      std::string decoder = i % 8 ? text : mutator.mutate(text),
                  length = {char(decoder.size()), char(decoder.size() >> 8)};
      ASSERT_EQ(fuzz::mmproj(length + decoder + (i % 8 ? mutator.mutate(mmproj) : mmproj)), "")
          << kind << ", case " << i;
    }
  }
}

TEST(Mutations, onnx) {
  // One with weights in the file, one with a function's attributes, one with an inner graph.
  for (const char *name : {"linear-attention-fp16", "gemm-all-attributes", "reflect-pad"}) {
    std::string model = readFile(std::string(HEDDLE_TEST_DIR "/onnx/node/") + name + ".onnx");
    ASSERT_EQ(fuzz::onnx(model), "") << name;
    Mutator mutator(7, {"\x08\x07", "\x12", "\x0a", "\x7a", std::string(1, '\0'),
                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ai.onnx", "com.microsoft", "Gemm", "Reshape",
                        "raw_data", "\x4a\x04"});
    for (int i = 0; i < 1500; ++i)
      ASSERT_EQ(fuzz::onnx(mutator.mutate(model)), "") << name << ", case " << i;
  }
}

TEST(Mutations, tokenizers) {
  std::string json = '\0' + readFile(HEDDLE_TEST_DIR "/docs/Inputs/tokenizer.json") + "\1{\"bos_token\": \"<s>\"}";
  std::string lists = "\1{\"<s>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3}\1#version: 0.2\na b\n",
              words = "\2[UNK]\na\n##a\nb\n";
  for (const std::string &good : {json, lists, words}) {
    ASSERT_EQ(fuzz::tokenizerFiles(good), "");
    Mutator mutator(8, {"null", "true", "[]", "{}", "-1", "4294967296", "1e400",
                        "\"vocab\":", "\"merges\":", "\"id\":", "[[[[[[[[", "\"type\":\"Unigram\"",
                        "\"type\":\"WordPiece\"", "\"Regex\": \"(a+)+$\"", "\xff", "\xC4\xA0", "<0x-1>"});
    for (int i = 0; i < 1000; ++i) {
      std::string changed = mutator.mutate(good);
      ASSERT_EQ(fuzz::tokenizerFiles(changed), "") << "case " << i << ": " << changed;
    }
  }
}

TEST(Mutations, texts) {
  Mutator mutator(9, {"<s>", "ab", " ", "\n", "\xC3\xA9", "\xE2\x96\x81", "\xF0\x9F\x98\x80", "e\xCC\x81", "\xff",
                      std::string(1, '\0')});
  for (char kind : {'\0', '\1', '\2'})
    for (int i = 0; i < 1000; ++i) {
      std::string text = kind + mutator.mutate("Hi there, ab \xC3\xA9  42\n<s>aab");
      ASSERT_EQ(fuzz::tokenizerText(text), "") << "case " << i << ": " << text;
    }
}

} // namespace
