// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frequencies against values computed with NumPy in f32 from the formulas of the papers, in the order of Hugging Face's
// code.
#include "frontends/ModelConfig.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

RopeConfig rope(RopeScalingKind kind, double theta, int64_t dim, double factor, int64_t context) {
  RopeConfig out;
  out.scaling = kind;
  out.theta = theta;
  out.rotaryDim = dim;
  out.factor = factor;
  out.originalContext = context;
  return out;
}

void expectFrequencies(const RopeConfig &rope, const std::vector<float> &expected, double attention,
                       bool longContext = false, int64_t positions = 0) {
  float factor = 0.0f;
  std::vector<float> actual = rope.inverseFrequency(longContext, factor, positions);
  EXPECT_NEAR(factor, attention, 1e-7 * attention);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 2e-7 * expected[i]) << i; // 1 to 2 units in the last place
}

TEST(Rope, plain) {
  expectFrequencies(rope(RopeScalingKind::None, 1e4, 16, 1.0, 0),
                    {1.0f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f, 0.00316227786f, 0.00100000005f,
                     0.000316227786f},
                    1.0);
}

TEST(Rope, ggufDivisors) {
  RopeConfig config = rope(RopeScalingKind::None, 1e4, 4, 1.0, 0);
  config.shortFactor = {1.0, 8.0};
  expectFrequencies(config, {1.0f, 0.00125f}, 1.0);
}

TEST(Rope, linear) {
  expectFrequencies(rope(RopeScalingKind::Linear, 1e6, 16, 8.0, 0),
                    {0.125f, 0.0222284924f, 0.00395284733f, 0.000702926656f, 0.000125000006f, 2.22284925e-05f,
                     3.95284678e-06f, 7.02926684e-07f},
                    1.0);
}

TEST(Rope, dynamicGrowsBeyondTheContextOnly) {
  RopeConfig config = rope(RopeScalingKind::Dynamic, 1e4, 16, 2.0, 64);
  float attention;
  std::vector<float> unscaled = rope(RopeScalingKind::None, 1e4, 16, 1.0, 0).inverseFrequency(false, attention, 0);
  expectFrequencies(config, unscaled, 1.0, false, 64);
  expectFrequencies(config,
                    {1.0f, 0.283945143f, 0.0806248412f, 0.0228930302f, 0.00650036521f, 0.00184574723f, 0.000524090894f,
                     0.000148813066f},
                    1.0, false, 100);
}

TEST(Rope, llama3) {
  RopeConfig config = rope(RopeScalingKind::Llama3, 5e5, 16, 32.0, 8192);
  expectFrequencies(config,
                    {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000429556705f, 8.57025589e-06f,
                     1.66196764e-06f, 3.22293289e-07f},
                    1.0);
}

TEST(Rope, yarn) {
  RopeConfig config = rope(RopeScalingKind::Yarn, 1e6, 32, 4.0, 32768);
  expectFrequencies(config,
                    {1.0f, 0.421696514f, 0.177827939f, 0.0749894157f, 0.0316227786f, 0.0133352149f, 0.00477990136f,
                     0.00165996165f, 0.000549999997f, 0.000168678613f, 4.44569851e-05f, 1.87473561e-05f,
                     7.90569356e-06f, 3.33380399e-06f, 1.40585337e-06f, 5.92843435e-07f},
                    1.138629436111989);
}

TEST(Rope, yarnUntruncated) {
  RopeConfig config = rope(RopeScalingKind::Yarn, 150000, 16, 32.0, 4096);
  config.truncate = false;
  expectFrequencies(config,
                    {1.0f, 0.225418001f, 0.05081328f, 0.00679495931f, 0.000456483918f, 1.8188337e-05f, 4.09997847e-06f,
                     9.24208962e-07f},
                    1.3465735902799727);
}

TEST(Rope, yarnAttentionFactors) {
  RopeConfig config = rope(RopeScalingKind::Yarn, 1e4, 16, 4.0, 32);
  float factor;
  config.mscale = config.mscaleAllDim = 0.7;
  config.inverseFrequency(false, factor, 0);
  EXPECT_EQ(factor, 1.0f);
  config.mscale = 1.0;
  config.inverseFrequency(false, factor, 0);
  EXPECT_NEAR(factor, (0.1 * std::log(4.0) + 1.0) / (0.07 * std::log(4.0) + 1.0), 1e-7);
  config.attentionFactor = 0.5;
  config.inverseFrequency(false, factor, 0);
  EXPECT_EQ(factor, 0.5f);
}

TEST(Rope, longropeChoosesFactors) {
  RopeConfig config = rope(RopeScalingKind::Longrope, 1e4, 8, 6.4, 20);
  config.shortFactor = {1.0, 1.5, 2.0, 4.0};
  config.longFactor = {1.0, 3.0, 4.0, 8.0};
  expectFrequencies(config, {1.0f, 0.0666666701f, 0.00499999989f, 0.000250000012f}, 1.2726537204276402, false);
  expectFrequencies(config, {1.0f, 0.0333333351f, 0.00249999994f, 0.000125000006f}, 1.2726537204276402, true);
}

} // namespace
