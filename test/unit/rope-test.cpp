// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/TestModel.h"

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::reference;

namespace {

// A model whose rotary embedding changes beyond 20 tokens.
struct ScaledModel : TestModel {
  explicit ScaledModel(package::RopeScaling scaling) {
    package::RopeTableT &rope = *metadata.rope[0];
    rope.scaling = scaling;
    rope.original_context = 20;
    rope.theta = 10000;
    rope.factor = 2;
    rope.long_attention_factor = 1.25f;
    for (float frequency : rope.inverse_frequency)
      rope.long_inverse_frequency.push_back(frequency / 3);
    open();
  }
};

std::vector<int32_t> someIds(int count) {
  std::vector<int32_t> ids(count);
  for (int i = 0; i < count; ++i)
    ids[i] = 3 + (i * 37) % 250;
  return ids;
}

std::vector<float> lastLogits(Session &session) {
  return {session.logits(0), session.logits(0) + vocabSize};
}

float maxDifference(const std::vector<float> &a, const std::vector<float> &b) {
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

TEST(RopeTables, rowsAreCosinesThenSines) {
  TestModel model;
  RopeTables tables;
  ASSERT_TRUE(tables.create(model.package->metadata(), context).isOk());
  int32_t positions[] = {0, 100};
  tables.prepare(tables.modeOf(101), positions, 2);
  const float *row = tables.tables()[0] + int64_t(100) * headDim;
  float frequency = model.metadata.rope[0]->inverse_frequency[3];
  EXPECT_EQ(row[3], float(std::cos(double(100.0f * frequency))));
  EXPECT_EQ(row[headDim / 2 + 3], float(std::sin(double(100.0f * frequency))));
  EXPECT_EQ(tables.tables()[0][0], 1.0f);
}

// Twice as many places as positions, each of which has one number.
TEST(RopeTables, placesOfImagesHaveNumbers) {
  TestModel model;
  model.metadata.rope[0]->axes.assign(size_t(headDim / 2), 1);
  model.open();
  RopeTables tables;
  constexpr int32_t positions = 4;
  ASSERT_TRUE(tables.create(model.package->metadata(), positions).isOk());
  for (int round = 0; round < 2; ++round)
    for (int32_t i = 0; i < 2 * positions; ++i)
      EXPECT_EQ(tables.numberOf({0, {0, i, 0}, 9}), positions + i);
  EXPECT_EQ(tables.numberOf({0, {0, 99, 0}, 9}), -1);
  EXPECT_EQ(tables.numberOf({0, {0, 3, 0}, 9}), positions + 3);
  EXPECT_EQ(tables.placeOf(positions + 3)->positions[1], 3);
  EXPECT_EQ(tables.endBehind(positions), 3 * positions);
}

TEST(Longrope, aSequenceThatCrossesTheBorderIsComputedAgain) {
  ScaledModel model(package::RopeScaling::Longrope);
  std::vector<int32_t> ids = someIds(40);
  auto whole = model.session(), grown = model.session();
  ASSERT_TRUE(whole->append(0, ids.data(), 40).isOk());
  ASSERT_TRUE(grown->append(0, ids.data(), 15).isOk());
  for (int i = 15; i < 40; ++i)
    ASSERT_TRUE(grown->append(0, ids.data() + i, 1).isOk());
  EXPECT_EQ(grown->length(0), 40);
  EXPECT_LE(maxDifference(lastLogits(*whole), lastLogits(*grown)), 1e-5f);
  // Up to the border the short factors hold, as without scaling.
  TestModel plain;
  auto shorter = model.session(), unscaled = plain.session();
  ASSERT_TRUE(shorter->append(0, ids.data(), 20).isOk());
  ASSERT_TRUE(unscaled->append(0, ids.data(), 20).isOk());
  EXPECT_EQ(lastLogits(*shorter), lastLogits(*unscaled));
  ASSERT_TRUE(unscaled->append(0, ids.data() + 20, 20).isOk());
  EXPECT_GT(maxDifference(lastLogits(*whole), lastLogits(*unscaled)), 1e-2f);
}

// Interrupts a call after its chunk `chunk`, once.
struct InterruptAfter {
  int chunk;
  Progress progress() {
    return {[](void *user, int64_t, int64_t) { return --static_cast<InterruptAfter *>(user)->chunk != 0; }, this};
  }
};

TEST(Longrope, aCallBrokenOffLeavesEverySequenceAsItWas) {
  ScaledModel model(package::RopeScaling::Longrope);
  std::vector<int32_t> ids = someIds(40);
  for (int chunk = 1; chunk <= 4; ++chunk) { // sequence 0 is computed again: 25 tokens in chunks of 8
    SessionOptions options;
    options.maxSequences = 2;
    auto broken = model.session(options), whole = model.session(options);
    ASSERT_TRUE(broken->append(0, ids.data(), 15).isOk());
    ASSERT_TRUE(broken->append(1, ids.data(), 3).isOk());
    InterruptAfter interrupt = {chunk};
    broken->setProgress(interrupt.progress());
    Feed feeds[] = {{0, 10, ids.data() + 15, nullptr}, {1, 2, ids.data() + 3, nullptr}};
    EXPECT_EQ(broken->step(feeds, 2).message(), "interrupted");
    EXPECT_EQ(broken->length(0), 15);
    EXPECT_EQ(broken->length(1), 3);
    EXPECT_EQ(broken->logits(0), nullptr);
    // The next call gives what it gives without the one before: beyond the border, and short of it.
    for (int count : {10, 2}) {
      broken->fork(0, 1);
      ASSERT_TRUE(broken->append(1, ids.data() + 15, count).isOk());
      whole->truncate(0, 0);
      ASSERT_TRUE(whole->append(0, ids.data(), 15 + count).isOk());
      EXPECT_EQ(broken->length(1), 15 + count);
      EXPECT_LE(maxDifference(lastLogits(*broken), lastLogits(*whole)), 1e-5f) << chunk;
    }
  }
}

TEST(Longrope, aStepThatFailsLeavesTheSequenceAsItWas) {
  ScaledModel model(package::RopeScaling::Longrope);
  std::vector<int32_t> ids = someIds(40);
  ids[30] = 1;
  float nan = NAN;
  memcpy(model.weights.data() + hiddenSize * sizeof(float), &nan, sizeof nan); // of token 1's embedding
  model.open();
  auto failed = model.session(), whole = model.session();
  ASSERT_TRUE(failed->append(0, ids.data(), 15).isOk());
  EXPECT_EQ(failed->append(0, ids.data() + 15, 16).exitCode(), 1);
  EXPECT_EQ(failed->length(0), 15);
  ASSERT_TRUE(failed->append(0, ids.data() + 15, 15).isOk());
  ASSERT_TRUE(whole->append(0, ids.data(), 30).isOk());
  EXPECT_LE(maxDifference(lastLogits(*failed), lastLogits(*whole)), 1e-5f);
}

TEST(Longrope, sequencesOfABatchKeepTheirOwnFactors) {
  ScaledModel model(package::RopeScaling::Longrope);
  std::vector<int32_t> ids = someIds(30);
  SessionOptions options;
  options.maxSequences = 2;
  auto batch = model.session(options), single = model.session();
  Feed feeds[] = {{0, 30, ids.data(), nullptr}, {1, 10, ids.data(), nullptr}};
  ASSERT_TRUE(batch->step(feeds, 2).isOk());
  ASSERT_TRUE(single->append(0, ids.data(), 10).isOk());
  EXPECT_LE(maxDifference({batch->logits(1), batch->logits(1) + vocabSize}, lastLogits(*single)), 1e-5f);
}

void expectCosines(const RopeTables &tables, int64_t position, const std::vector<float> &expected) {
  const float *row = tables.tables()[0] + position * headDim;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(row[i], expected[i], 2e-6f) << i; // angles up to 25 of 1 to 2 units in the last place
}

TEST(Dynamic, thetaGrowsWithTheLength) {
  ScaledModel model(package::RopeScaling::Dynamic);
  RopeTables tables;
  ASSERT_TRUE(tables.create(model.package->metadata(), context).isOk());
  EXPECT_EQ(tables.modeOf(20).dynamicLength, 0);
  int32_t position = 25;
  tables.prepare(tables.modeOf(30), &position, 1);
  // numpy: theta = f32(1e4) * (f32(2) * f32(L) / f32(20) - f32(1)) ** f32(16 / 14);
  // cos(f64(f32(25) / theta ** (arange(0, 16, 2, f32) / f32(16))))
  expectCosines(tables, position,
                {0.991202831f, 0.639315665f, -0.461816341f, 0.832389474f, 0.985881388f, 0.998839319f, 0.999904752f,
                 0.999992192f});
  // The same position in a longer sequence has other angles.
  tables.prepare(tables.modeOf(60), &position, 1);
  expectCosines(tables, position,
                {0.991202831f, 0.999999106f, -0.00766607979f, 0.92236954f, 0.995037854f, 0.99968648f, 0.999980211f,
                 0.999998748f});
  tables.prepare(tables.modeOf(20), &position, 1);
  expectCosines(tables, position,
                {0.991202831f, -0.0516893305f, -0.801143587f, 0.703440666f, 0.968912423f, 0.996876597f, 0.999687493f,
                 0.999968767f});
  auto session = model.session();
  std::vector<int32_t> ids = someIds(40);
  ASSERT_TRUE(session->append(0, ids.data(), 30).isOk());
  ASSERT_TRUE(session->append(0, ids.data() + 30, 1).isOk());
  EXPECT_EQ(session->length(0), 31);
}

} // namespace
