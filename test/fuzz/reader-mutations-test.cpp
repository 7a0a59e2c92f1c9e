// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A few thousand changes of good inputs, the same ones every time. The fuzzers go on from there.
#include "test/fuzz/SafetensorsMutations.h"
#include "test/fuzz/Targets.h"

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

TEST(Mutations, safetensors) { EXPECT_EQ(fuzz::mutateSafetensors(fuzz::safetensors), ""); }

TEST(Mutations, checkpoints) {
  std::string config = readFile(HEDDLE_TEST_DIR "/models/llama/config.json");
  Mutator mutator(2, {"null", "true", "[]", "{}", "-1", "0", "1e400", "\"llama\"", "\"hidden_size\":", "\"num_key_value_heads\":",
                      "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.0},", "\"sliding_window\":4,", "[[[[[[[["});
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
  Mutator mutator(6, {"GGUF", "llama.block_count", "general.alignment", std::string("\0\0\0\0\0\0\0\0", 8), "\xff\xff\xff\xff\xff\xff\xff\x7f"});
  for (int i = 0; i < 1500; ++i)
    ASSERT_EQ(fuzz::gguf(mutator.mutate(head) + numbers), "") << "case " << i;
}

} // namespace
