// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/Sampler.h"

#include "runtime/StopMatcher.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace heddle;

namespace {

// How often each of the tokens of `logits` is picked in 20000 draws.
std::map<int32_t, double> frequencies(const std::vector<float> &logits, SamplerOptions options) {
  Sampler sampler(options, int64_t(logits.size()));
  std::map<int32_t, double> counts;
  for (int i = 0; i < 20000; ++i)
    counts[sampler.sample(logits.data())] += 1 / 20000.0;
  return counts;
}

std::vector<float> logsOf(std::vector<float> probabilities) {
  for (float &p : probabilities)
    p = std::log(p);
  return probabilities;
}

SamplerOptions warm(float temperature = 1) {
  SamplerOptions options;
  options.temperature = temperature;
  options.seed = 42;
  return options;
}

TEST(Sampler, greedyTakesTheFirstOfEquals) {
  std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(Sampler(SamplerOptions(), 4).sample(logits.data()), 1);
}

TEST(Sampler, followsTheDistribution) {
  auto seen = frequencies(logsOf({0.1f, 0.2f, 0.3f, 0.4f}), warm());
  for (int id = 0; id < 4; ++id)
    EXPECT_NEAR(seen[id], 0.1 * (id + 1), 0.015);
}

TEST(Sampler, temperatureSharpens) {
  auto seen = frequencies(logsOf({0.2f, 0.8f}), warm(0.5f));
  EXPECT_NEAR(seen[1], 0.64 / (0.64 + 0.04), 0.015);
}

TEST(Sampler, topKKeepsTheLargest) {
  SamplerOptions options = warm();
  options.topK = 2;
  auto seen = frequencies(logsOf({0.1f, 0.2f, 0.3f, 0.4f}), options);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[3], 0.4 / 0.7, 0.015);
}

TEST(Sampler, topPKeepsTheSmallestSetThatReachesIt) {
  SamplerOptions options = warm();
  options.topP = 0.65f;
  auto seen = frequencies(logsOf({0.1f, 0.2f, 0.3f, 0.4f}), options);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[2], 0.3 / 0.7, 0.015);
  // More candidates than are sorted at once: 1000 equal tokens, half of which remain.
  options.topP = 0.5f;
  EXPECT_LE(frequencies(std::vector<float>(1000, 0.0f), options).rbegin()->first, 500);
}

TEST(Sampler, minPIsRelativeToTheBest) {
  SamplerOptions options = warm();
  options.minP = 0.6f;
  auto seen = frequencies(logsOf({0.1f, 0.2f, 0.3f, 0.4f}), options);
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Sampler, repetitionPenaltyHasTheSignOfTheLogit) {
  SamplerOptions options;
  options.repetitionPenalty = 2;
  Sampler sampler(options, 3);
  std::vector<float> positive = {3, 2, 1}, negative = {-1, -1.5f, -5};
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(positive.data()), 1);  // 3 / 2 < 2
  EXPECT_EQ(Sampler(options, 3).sample(positive.data()), 0);
  Sampler other(options, 3);
  other.accept(0);
  EXPECT_EQ(other.sample(negative.data()), 1);    // -1 * 2 < -1.5
}

TEST(Sampler, sameSeedSameTokens) {
  std::vector<float> logits(100, 0.0f);
  auto draw = [&](uint64_t seed) {
    SamplerOptions options = warm();
    options.seed = seed;
    Sampler sampler(options, 100);
    std::vector<int32_t> ids;
    for (int i = 0; i < 20; ++i)
      ids.push_back(sampler.sample(logits.data()));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, logSoftmaxIsNormalized) {
  std::vector<float> logits = {1000, 1001, 999}, out(3);
  logSoftmax(logits.data(), 3, out.data());
  double sum = 0;
  for (float value : out)
    sum += std::exp(value);
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(topTokens(logits.data(), 3, 2)[0].id, 1);
}

TEST(StopMatcher, holdsBackWhatMayBecomeAStop) {
  StopMatcher stops({"END", "\n\n"});
  std::string out;
  EXPECT_FALSE(stops.append("abE", out));
  EXPECT_EQ(out, "ab");
  EXPECT_FALSE(stops.append("Nx\n", out));
  EXPECT_EQ(out, "abENx");
  EXPECT_TRUE(stops.append("\nrest", out));
  stops.finish(out);
  EXPECT_EQ(out, "abENx");
}

TEST(StopMatcher, finishGivesWhatWasHeld) {
  StopMatcher stops({"END"});
  std::string out;
  EXPECT_FALSE(stops.append("xEN", out));
  stops.finish(out);
  EXPECT_EQ(out, "xEN");
}

} // namespace
