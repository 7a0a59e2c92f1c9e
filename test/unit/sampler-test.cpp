// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/HostChoice.h"
#include "runtime/session/Sampler.h"

#include "runtime/text/tokenizer/StopMatcher.h"

#include <algorithm>
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

TEST(Sampler, aMaskLeavesOutWhatItDoesNotAllow) {
  std::vector<float> logits(40, 0);
  logits[35] = 5, logits[3] = 4, logits[39] = 3;
  uint32_t mask[2] = {~0u, ~0u};
  EXPECT_EQ(Sampler(SamplerOptions(), 40).sample(logits.data(), mask), 35);
  mask[1] = 0;
  EXPECT_EQ(Sampler(SamplerOptions(), 40).sample(logits.data(), mask), 3);
  mask[0] = 0;
  EXPECT_EQ(Sampler(SamplerOptions(), 40).sample(logits.data(), mask), -1);
  EXPECT_EQ(Sampler(warm(), 40).sample(logits.data(), mask), -1);
  // Probabilities are those of the allowed ones among themselves: e : 1.
  mask[0] = 1u << 3, mask[1] = 1u << (39 - 32);
  Sampler sampler(warm(), 40);
  std::map<int32_t, double> counts;
  for (int i = 0; i < 20000; ++i)
    counts[sampler.sample(logits.data(), mask)] += 1 / 20000.0;
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[3], std::exp(1.0) / (1 + std::exp(1.0)), 0.02);
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
  EXPECT_EQ(sampler.sample(positive.data()), 1); // 3 / 2 < 2
  EXPECT_EQ(Sampler(options, 3).sample(positive.data()), 0);
  Sampler other(options, 3);
  other.accept(0);
  EXPECT_EQ(other.sample(negative.data()), 1); // -1 * 2 < -1.5
}

TEST(Sampler, sameSeedSameTokens) {
  std::vector<float> logits(100, 0.0f);
  auto draw = [&](uint64_t seed) {
    SamplerOptions options = warm();
    options.seed = seed;
    Sampler sampler(options, 100);
    std::vector<int32_t> ids;
    ids.reserve(20);
    for (int i = 0; i < 20; ++i)
      ids.push_back(sampler.sample(logits.data()));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

// TokenChoice.h in its words.
int32_t chooseByTheBook(const std::vector<float> &logits, const heddle_token_choice &choice) {
  float top = *std::max_element(logits.begin(), logits.end());
  std::vector<std::pair<float, int32_t>> tokens; // x and id
  tokens.reserve(logits.size());
  for (size_t id = 0; id < logits.size(); ++id)
    tokens.emplace_back(heddle_scaled_logit(logits[id], top, choice.inverse_temperature), int32_t(id));
  std::sort(tokens.begin(), tokens.end(),
            [](auto a, auto b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  if (choice.top_k && size_t(choice.top_k) < tokens.size())
    tokens.resize(choice.top_k);
  unsigned __int128 all = 0, sum = 0;
  for (auto [x, id] : tokens)
    all += heddle_token_weight(x);
  for (size_t i = 0; choice.top_p && i < tokens.size(); ++i) {
    sum += heddle_token_weight(tokens[i].first);
    if (sum << 32 >= all * choice.top_p)
      tokens.resize(i + 1);
  }
  std::sort(tokens.begin(), tokens.end(), [](auto a, auto b) { return a.second < b.second; });
  auto weight = [&](float x) { return x < choice.least ? 0 : heddle_token_weight(x); };
  all = sum = 0;
  for (auto [x, id] : tokens)
    all += weight(x);
  for (auto [x, id] : tokens) {
    sum += weight(x);
    if (sum > all * choice.random >> 64)
      return id;
  }
  return -1;
}

TEST(Sampler, choosesByTheBook) {
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<float> logits(1 + random.next() % 700);
    float step = round % 3 ? 0.25f : 1e-5f; // many are equal
    for (float &logit : logits)
      logit = step * std::round(float(int64_t(random.next() >> 44) - (1 << 19)) * 0x1p-16f / step);
    SamplerOptions options = warm(round % 5 ? 0.7f : 4.0f);
    options.topK = round % 4 ? int32_t(random.next() % 50) : 0;
    options.topP = round % 2 ? float(1 + random.next() % 1000) / 1000 : 1;
    options.minP = round % 7 ? 0 : 0.1f;
    options.seed = random.next();
    heddle_token_choice choice = Sampler(options, int64_t(logits.size())).draw();
    if (choice.inverse_temperature == 0)
      continue; // top-k 1
    std::vector<uint64_t> ranks(logits.size());
    int32_t expected = chooseByTheBook(logits, choice);
    EXPECT_EQ(chooseToken(logits.data(), int64_t(logits.size()), choice, ranks.data()), expected) << round;
    EXPECT_EQ(Sampler(options, int64_t(logits.size())).sample(logits.data()), expected) << round;
  }
}

TEST(Sampler, weightsAreExponentials) {
  EXPECT_EQ(heddle_token_weight(0), uint64_t(1) << 40);
  EXPECT_EQ(heddle_token_weight(-1e30f), 0u);
  uint64_t last = uint64_t(1) << 40;
  for (int step = 0; step < 30 << 10; ++step) {
    float x = -0x1p-10f * float(step);
    uint64_t weight = heddle_token_weight(x);
    EXPECT_NEAR(double(weight), std::ldexp(std::exp(double(x)), 40), 2 + 4e-6 * double(weight)) << x;
    EXPECT_LE(weight, last) << x;
    last = weight;
  }
}

TEST(Sampler, partsOfWeightsAreExact) {
  Random random(9);
  for (int i = 0; i < 10000; ++i) {
    uint64_t total = random.next() >> (1 + i % 60), by = random.next();
    auto part = uint32_t(by >> 32);
    EXPECT_EQ(heddle_random_weight(total, by), uint64_t(((unsigned __int128)total * by) >> 64));
    EXPECT_EQ(heddle_part_of_weights(total, part), uint64_t(((unsigned __int128)total * part + 0xffffffffu) >> 32));
  }
}

TEST(Sampler, anyTemperatureIsDefined) {
  std::vector<float> logits = {1, 30, 29.5f, -100, 2};
  for (float temperature : {1e-38f, 1e-45f, 1e-3f})
    EXPECT_EQ(Sampler(warm(temperature), 5).sample(logits.data()), 1) << temperature;
  EXPECT_EQ(Sampler(warm(NAN), 5).sample(logits.data()), 1);
  EXPECT_EQ(frequencies(logits, warm(1e30f)).size(), 5u);
  SamplerOptions options = warm(1e-38f);
  options.topK = 3;
  options.topP = 0.9f;
  options.minP = 0.1f;
  EXPECT_EQ(Sampler(options, 5).sample(logits.data()), 1);
  // A penalty takes no logit out of the floats, where differences would be undefined.
  options.repetitionPenalty = 1e-3f;
  std::vector<float> large = {3e38f, 1, -3e38f, 0, 0};
  Sampler sampler(options, 5);
  sampler.accept(0);
  sampler.accept(2);
  EXPECT_EQ(sampler.sample(large.data()), 0);
}

TEST(Sampler, optionsOutOfRangeAreNamed) {
  auto refuse = [](const char *message, auto change) {
    SamplerOptions options;
    change(options);
    Status status = checkSamplerOptions(options);
    EXPECT_EQ(status.exitCode(), 2);
    EXPECT_EQ(status.message(), message);
  };
  refuse("temperature is nan, expected a number in [0, 1000]", [](SamplerOptions &o) { o.temperature = NAN; });
  refuse("temperature is -1, expected a number in [0, 1000]", [](SamplerOptions &o) { o.temperature = -1; });
  refuse("temperature is inf, expected a number in [0, 1000]", [](SamplerOptions &o) { o.temperature = INFINITY; });
  refuse("top_k is -1, expected a number from 0", [](SamplerOptions &o) { o.topK = -1; });
  refuse("top_p is nan, expected a number in [0, 1]", [](SamplerOptions &o) { o.topP = NAN; });
  refuse("top_p is 0, which leaves no token, expected a number above it", [](SamplerOptions &o) { o.topP = 0; });
  refuse("min_p is 1.5, expected a number in [0, 1]", [](SamplerOptions &o) { o.minP = 1.5f; });
  refuse("repetition_penalty is nan, expected a number in [0.001, 1000]",
         [](SamplerOptions &o) { o.repetitionPenalty = NAN; });
  SamplerOptions edges;
  edges.temperature = 1000;
  edges.minP = 1;
  edges.repetitionPenalty = 1e-3f;
  EXPECT_TRUE(checkSamplerOptions(edges).isOk());
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
