// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A few hundred changes of each op's own test, the same ones every time.
#include "test/fuzz/Mutator.h"
#include "test/fuzz/Targets.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;
using fuzz::Mutator;

namespace {

// Modules of the dialect's tests, each up to its first split; those of invalid ones are no start.
std::vector<std::string> modules() {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(HEDDLE_TEST_DIR "/dialect")) {
    std::string name = entry.path().filename();
    if (entry.path().extension() == ".mlir" && name.find("-invalid") == name.npos && name.find("tiling") == name.npos)
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const std::filesystem::path &path : paths) {
    std::ifstream file(path);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

TEST(Mutations, dialect) {
  std::vector<std::string> texts = modules();
  ASSERT_GT(texts.size(), 30u);
  Mutator mutator(10, {"?",
                       "0",
                       "-1",
                       "9223372036854775807",
                       "x",
                       "f32",
                       "bf16",
                       "i8",
                       "tensor<",
                       ">",
                       "<",
                       "array<i64>",
                       "array<f32: 0.0>",
                       "#heddle.quant<q4_0>",
                       "!heddle.kv_cache<1 x 1 x 4 x f32>",
                       "dense<0.0>",
                       "causal",
                       "half",
                       "window = -1",
                       "%0",
                       "{",
                       "}"});
  for (const std::string &text : texts) {
    ASSERT_EQ(fuzz::dialectText(text), "");
    for (int i = 0; i < 200; ++i) {
      std::string changed = mutator.mutate(text);
      ASSERT_EQ(fuzz::dialectText(changed), "") << "case " << i << ": " << changed;
    }
  }
}

} // namespace
