// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/Target.h"

#include "gtest/gtest.h"

using namespace heddle;

static const std::vector<std::string> avx512 = {"avx2",     "fma",      "f16c",       "avx512f",   "avx512bw",
                                                "avx512vl", "avx512dq", "avx512vnni", "avx512bf16"};

TEST(Target, IntelMultipliesBf16OnTilesOrNotAtAll) {
  std::vector<std::string> withTiles = avx512;
  withTiles.insert(withTiles.end(), {"amx-tile", "amx-bf16"});
  CpuTarget whole = x86Target("native", "emeraldrapids", withTiles),
            hidden = x86Target("native", "emeraldrapids", avx512);
  EXPECT_TRUE(whole.hasBf16Tiles());
  EXPECT_TRUE(whole.hasBf16Dot());
  EXPECT_FALSE(hidden.hasBf16Dot());
  EXPECT_FALSE(hidden.has("avx512bf16")); // which its programs do not ask for either
  EXPECT_TRUE(hidden.hasByteDot());
  EXPECT_TRUE(x86Target("native", "znver4", avx512).hasBf16Dot());
  EXPECT_TRUE(x86Target("native", "cooperlake", avx512).hasBf16Dot());
}

TEST(Target, SchedulesKnowProcessorsByTheFirstOfTheirKind) {
  EXPECT_EQ(x86Target("native", "emeraldrapids", avx512).tune, "sapphirerapids");
  EXPECT_EQ(x86Target("native", "graniterapids", avx512).tune, "sapphirerapids");
  EXPECT_EQ(x86Target("native", "znver4", avx512).tune, "znver4");
  EXPECT_EQ(x86Target("native", "icelake-server", avx512).tune, "");
}
