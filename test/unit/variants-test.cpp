// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which variant of a file runs, on machines that are made up.
#include "runtime/model/Variants.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

const VariantNeeds v3 = {"x86-64-v3", {"avx2", "fma", "f16c"}};
const VariantNeeds v4 = {"x86-64-v4", {"avx2", "fma", "f16c", "avx512f", "avx512bw"}};
const VariantNeeds tiles = {"sapphirerapids", {"avx2", "fma", "f16c", "avx512f", "avx512bw", "amx-tile"}};

// What the machine of a test has.
std::vector<std::string_view> machine;

bool has(std::string_view feature) {
  return std::find(machine.begin(), machine.end(), feature) != machine.end();
}

// The name of the target that is chosen, or what is said instead.
std::string choose(const std::vector<VariantNeeds> &variants, std::vector<std::string_view> features,
                   std::string_view wanted = "") {
  machine = std::move(features);
  size_t index = variants.size();
  Status status = chooseVariant(variants, wanted, has, index);
  return status.isOk() ? variants.at(index).target : std::to_string(status.exitCode()) + ": " + status.message();
}

TEST(Variants, theOneWithMostFeaturesOfThoseThatRun) {
  for (const std::vector<VariantNeeds> &variants :
       {std::vector{v3, v4, tiles}, std::vector{tiles, v4, v3}, std::vector{v4, tiles, v3}}) {
    EXPECT_EQ(choose(variants, {"avx2", "fma", "f16c"}), "x86-64-v3");
    EXPECT_EQ(choose(variants, {"avx2", "fma", "f16c", "avx512f"}), "x86-64-v3"); // a part of what another needs
    EXPECT_EQ(choose(variants, {"avx2", "fma", "f16c", "avx512f", "avx512bw"}), "x86-64-v4");
    EXPECT_EQ(choose(variants, {"amx-tile", "avx2", "fma", "f16c", "avx512f", "avx512bw", "more"}), "sapphirerapids");
  }
}

TEST(Variants, ofEqualsTheFirst) {
  VariantNeeds native = v4;
  native.target = "native";
  EXPECT_EQ(choose({v3, native, v4}, v4.features), "native");
  EXPECT_EQ(choose({v3, v4, native}, v4.features), "x86-64-v4");
}

TEST(Variants, whatLacksIsSaidOfEach) {
  EXPECT_EQ(choose({v3}, {"fma"}), "1: compiled for x86-64-v3, but this machine lacks avx2, f16c");
  EXPECT_EQ(choose({v3, v4}, {"fma", "f16c", "avx512f"}),
            "1: compiled for x86-64-v3 and x86-64-v4, but this machine lacks for x86-64-v3 avx2; for x86-64-v4 avx2, "
            "avx512bw");
}

TEST(Variants, theOneThatIsAskedFor) {
  EXPECT_EQ(choose({v3, v4}, v4.features, "x86-64-v3"), "x86-64-v3");
  EXPECT_EQ(choose({v3, v4}, v4.features, "x86-64-v4"), "x86-64-v4");
  EXPECT_EQ(choose({v3, v4, tiles}, v4.features, "sapphirerapids"),
            "1: cpu sapphirerapids: this machine lacks amx-tile");
  EXPECT_EQ(choose({v3, v4, tiles}, v4.features, "znver5"),
            "2: cpu 'znver5': the code is for x86-64-v3, x86-64-v4 and sapphirerapids");
}

TEST(Variants, codeThatNeedsNothingRunsAnywhere) {
  EXPECT_EQ(choose({{"opencl", {}}}, {}), "opencl");
}

} // namespace
