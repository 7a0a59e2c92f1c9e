// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelFiles.h"
#include "frontends/read/Inspect.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string inspected(const std::string &path, bool json, int expected) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspectModel(path, json), expected);
  return testing::internal::GetCapturedStdout();
}

TEST(Inspect, jsonHoldsConfigTensorsAndTotals) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  nlohmann::json out = nlohmann::json::parse(inspected(folder.path(), true, 0));
  EXPECT_EQ(out["config"]["model_type"], "llama");
  EXPECT_EQ(out["config"]["num_key_value_heads"], 2);
  EXPECT_EQ(out["tensors"].size(), tinyTensors().size());
  EXPECT_EQ(out["tensors"][0]["name"], "lm_head.weight");
  EXPECT_EQ(out["tensors"][0]["bytes"], 32 * 16 * 4);
  EXPECT_EQ(out["total"]["files"], 1);
}

// Names in the file are printed without their control bytes, and need not be UTF-8.
TEST(Inspect, textIsPrintable) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.string("general.name", "\xff\x1b[2J");
  std::string text = inspected(folder.write("m.gguf", file.bytes()), false, 0);
  EXPECT_NE(text.find("model.layers.1.mlp.down_proj.weight"), std::string::npos);
  EXPECT_NE(text.find("21 tensors, "), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Inspect, refusalIsOneLineOnStderr) {
  TemporaryFolder folder;
  testing::internal::CaptureStderr();
  EXPECT_EQ(inspected(folder.path("absent.gguf"), false, 2), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "heddle: error: " + folder.path("absent.gguf") + ": no such file or directory\n");
}

} // namespace
