// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixture of experts: routing, and products over the rows that an expert was chosen for.

#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/codegen/targets/cpu/RouteExperts.h"
#include "runtime/model/ModelAbi.h"
#include "test/execute/RandomWeights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

using RouteFunction = void(const float *logits, const float *correction, const float *scales, int32_t *experts,
                           float *weights, int64_t rowBegin, int64_t rowEnd);
using GroupFunction = void(int32_t *experts, const float *weights, int32_t *offsets, int32_t *rowIndex, float *rowScale,
                           int64_t rows, const heddle_sequence *sequences, int64_t numSequences);
using IndexedMatmul = void(const void *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                           const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                           int64_t panelBegin, int64_t panelEnd, void *scratch, const int32_t *rowIndex,
                           const float *rowScale);

class MoeTest : public testing::TestWithParam<std::string> {};

static std::string targetName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Targets, MoeTest, testing::ValuesIn(KernelLibrary::runnableTargets()), targetName);

// Experts by descending logit, the lower index first among equals.
static std::vector<int32_t> ranked(const float *logits, int64_t numExperts) {
  std::vector<int32_t> order(numExperts);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  return order;
}

static void expectRouted(const MoeRouteSpec &spec, const float *logits, const int32_t *experts, const float *weights) {
  std::vector<int32_t> order = ranked(logits, spec.numExperts);
  double top = logits[order[0]], total = 0, chosen = 0;
  for (int64_t e = 0; e < spec.numExperts; ++e)
    total += std::exp(logits[e] - top);
  for (int64_t i = 0; i < spec.topK; ++i)
    chosen += std::exp(logits[order[i]] - top);
  for (int64_t i = 0; i < spec.topK; ++i) {
    ASSERT_EQ(experts[i], order[i]) << i;
    double expected = std::exp(logits[order[i]] - top) / (spec.normalize ? chosen : total) * spec.scale;
    ASSERT_NEAR(weights[i], expected, 2e-6 * expected + 1e-37) << i;
  }
}

TEST_P(MoeTest, RoutesToTheLargestLogits) {
  const MoeRouteSpec specs[] = {{8, 2, true},   {8, 2, false}, {60, 4, false, 2.5f},
                                {128, 8, true}, {5, 5, true},  {1, 1}};
  KernelLibrary library(GetParam());
  for (size_t i = 0; i < std::size(specs); ++i)
    buildMoeRoute(library.module(), "route_" + std::to_string(i), specs[i]);
  ASSERT_TRUE(library.load());
  for (size_t i = 0; i < std::size(specs); ++i) {
    const MoeRouteSpec &spec = specs[i];
    auto *route = library.find<RouteFunction>("route_" + std::to_string(i));
    const int64_t rows = 6;
    Random random(i);
    std::vector<float> logits(rows * spec.numExperts), weights(rows * spec.topK, -1);
    for (float &logit : logits)
      logit = 10 * random.uniform();
    std::fill_n(&logits[1 * spec.numExperts], spec.numExperts, 3.0f); // all equal
    logits[2 * spec.numExperts + spec.numExperts - 1] = 90;           // the rest underflows
    for (int64_t e = 0; e < spec.numExperts; ++e)                     // pairs of equals
      logits[3 * spec.numExperts + e] = float(e / 2 % 3);
    std::vector<int32_t> experts(rows * spec.topK, -1);
    route(logits.data(), nullptr, nullptr, experts.data(), weights.data(), 0, 2);
    route(logits.data(), nullptr, nullptr, experts.data(), weights.data(), 2, rows - 1);
    for (int64_t row = 0; row < rows - 1; ++row) {
      SCOPED_TRACE("spec " + std::to_string(i) + ", row " + std::to_string(row));
      expectRouted(spec, &logits[row * spec.numExperts], &experts[row * spec.topK], &weights[row * spec.topK]);
    }
    EXPECT_EQ(experts[(rows - 1) * spec.topK], -1); // outside the slice
  }
}

// An expert's own number multiplies its weight behind the sum, and does not change which is chosen.
TEST_P(MoeTest, ScalesWeightsOfTheChosen) {
  MoeRouteSpec spec{20, 3, true, 2.0f};
  spec.hasScales = true;
  KernelLibrary library(GetParam());
  buildMoeRoute(library.module(), "route", spec);
  ASSERT_TRUE(library.load());
  const int64_t rows = 4;
  Random random(5);
  std::vector<float> logits(rows * spec.numExperts), scales(spec.numExperts), weights(rows * spec.topK, -1);
  for (float &logit : logits)
    logit = 4 * random.uniform();
  for (float &scale : scales)
    scale = 1.5f + random.uniform();
  std::vector<int32_t> experts(rows * spec.topK, -1);
  library.find<RouteFunction>("route")(logits.data(), nullptr, scales.data(), experts.data(), weights.data(), 0, rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = row * spec.topK; i < (row + 1) * spec.topK; ++i)
      weights[i] /= scales[experts[i]];
    SCOPED_TRACE("row " + std::to_string(row));
    expectRouted(spec, &logits[row * spec.numExperts], &experts[row * spec.topK], &weights[row * spec.topK]);
  }
}

// Logits 10, 9, 1 and so on: each chosen expert is weighed among those that are left and near to it, in every lane.
TEST_P(MoeTest, ASparseMixerWeighsNeighbours) {
  MoeRouteSpec spec{20, 3};
  spec.jitter = 0.1f;
  KernelLibrary library(GetParam());
  buildMoeRoute(library.module(), "route", spec);
  ASSERT_TRUE(library.load());
  Random random(1);
  std::vector<float> logits(40, 1.0f), weights(6); // of two rows
  std::vector<int32_t> experts(6, -1);
  logits[17] = 10, logits[2] = 9, logits[19] = 8;
  for (int64_t e = 0; e < 20; ++e)
    logits[20 + e] = random.uniform(); // either sign
  library.find<RouteFunction>("route")(logits.data(), nullptr, nullptr, experts.data(), weights.data(), 0, 2);
  for (int64_t row = 0; row < 2; ++row) {
    const float *l = &logits[row * 20];
    std::vector<int32_t> order = ranked(l, 20);
    for (size_t i = 0; i < 3; ++i) {
      double own = l[order[i]], sum = 0;
      for (size_t j = i; j < order.size(); ++j)
        if (double other = l[order[j]]; !((own - other) / std::max(std::abs(other), own) > 2 * 0.1))
          sum += std::exp(other - own);
      EXPECT_EQ(experts[row * 3 + i], order[i]);
      EXPECT_NEAR(weights[row * 3 + i], 1 / sum, 1e-6) << row << ", " << i;
    }
  }
  EXPECT_LT(weights[0], 0.8f); // 9 is near to 10
  EXPECT_EQ(weights[2], 1.0f); // and nothing to 8
}

// Corrected scores may be negative: those of the groups that stay are still chosen before any other expert.
TEST_P(MoeTest, ExpertsOfOtherGroupsAreNotChosen) {
  MoeRouteSpec spec{6, 3};
  spec.sigmoid = spec.hasCorrection = true;
  spec.numGroups = 2;
  spec.topGroups = 1;
  KernelLibrary library(GetParam());
  buildMoeRoute(library.module(), "route", spec);
  ASSERT_TRUE(library.load());
  const std::vector<float> logits(6, 0.0f); // p = 1 / 2
  const float correction[] = {-0.9f, -0.9f, -0.9f, 0.25f, -0.8f, 0.5f};
  std::vector<int32_t> experts(3, -1);
  std::vector<float> weights(3);
  library.find<RouteFunction>("route")(logits.data(), correction, nullptr, experts.data(), weights.data(), 0, 1);
  EXPECT_EQ(experts, (std::vector<int32_t>{5, 3, 4}));
}

// Indices stay valid, so that nothing is read out of bounds before the NaN is reported.
TEST_P(MoeTest, NaNLogitsGiveValidExpertsAndNaNWeights) {
  KernelLibrary library(GetParam());
  buildMoeRoute(library.module(), "route", {20, 3, true});
  ASSERT_TRUE(library.load());
  std::vector<float> logits(20, std::numeric_limits<float>::quiet_NaN()), weights(3);
  std::vector<int32_t> experts(3, -1);
  library.find<RouteFunction>("route")(logits.data(), nullptr, nullptr, experts.data(), weights.data(), 0, 1);
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(weights[0]));
}

TEST_P(MoeTest, GroupsRowsByExpert) {
  const MoeRouteSpec spec{4, 2};
  KernelLibrary library(GetParam());
  buildMoeGroup(library.module(), "group", spec);
  ASSERT_TRUE(library.load());
  int32_t experts[] = {3, 0, /**/ 0, 3, /**/ 3, 2};
  const float weights[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
  std::vector<int32_t> offsets(spec.numExperts + 2, -7), rowIndex(7, -7);
  std::vector<float> rowScale(7, -7);
  library.find<GroupFunction>("group")(experts, weights, offsets.data(), rowIndex.data(), rowScale.data(), 3, nullptr,
                                       0);
  EXPECT_EQ(offsets, (std::vector<int32_t>{0, 2, 2, 3, 6, -7}));
  EXPECT_EQ(rowIndex, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, -7}));
  EXPECT_EQ(rowScale, (std::vector<float>{0.2f, 0.3f, 0.6f, 0.1f, 0.4f, 0.5f, -7}));
}

// Each sequence fills its experts anew, in the order of its tokens; a token that finds one full keeps the other.
TEST_P(MoeTest, TokensBeyondTheCapacityAreNotListed) {
  MoeRouteSpec spec{3, 2};
  spec.capacity = 2;
  KernelLibrary library(GetParam());
  buildMoeGroup(library.module(), "group", spec);
  ASSERT_TRUE(library.load());
  const heddle_sequence sequences[] = {{0, 4, 0, 0, nullptr}, {4, 1, 7, 0, nullptr}, {5, 1, 0, 0, nullptr}};
  int32_t experts[] = {0, 1, /**/ 0, 2, /**/ 1, 0, /**/ 0, 1, /* 2nd */ 0, 1, /* 3rd */ 1, 0};
  const float weights[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 1.0f, 1.1f, 1.2f};
  std::vector<int32_t> offsets(spec.numExperts + 2, -7), rowIndex(13, -7);
  std::vector<float> rowScale(13, -7);
  library.find<GroupFunction>("group")(experts, weights, offsets.data(), rowIndex.data(), rowScale.data(), 6, sequences,
                                       3);
  EXPECT_EQ(offsets, (std::vector<int32_t>{0, 4, 8, 9, -7}));
  rowIndex.resize(10), rowScale.resize(10);
  EXPECT_EQ(rowIndex, (std::vector<int32_t>{0, 1, 4, 5, 0, 2, 4, 5, 1, -7}));
  EXPECT_EQ(rowScale, (std::vector<float>{0.1f, 0.3f, 0.9f, 1.2f, 0.2f, 0.5f, 1.0f, 1.1f, 0.4f, -7}));
  const int32_t taken[] = {0, 1, 0, 2, 1, 3, 3, 3, 0, 1, 1, 0};
  EXPECT_EQ(std::vector<int32_t>(experts, std::end(experts)), std::vector<int32_t>(taken, std::end(taken)));
}

// The rows of an expert give the same bits gathered as dense, and are added where they belong.
static void expectIndexFollowed(const std::string &targetName, MatmulActivation activation) {
  const int64_t tokens = 43, n = 40, k = 64;
  std::vector<int32_t> index = {42, 3, 4, 19, 0, 7, 11, 12, 13, 40, 41, 1, 2, 20, 21, 22, 31, 30, 39};
  const int64_t rows = index.size();
  bool q8 = activation == MatmulActivation::Q8;
  MatmulSpec spec{*layoutFor(TensorType::Q4_1), n, k, activation};
  KernelLibrary library(targetName);
  const char *names[] = {"dense", "gathered", "scattered"};
  for (int i = 0; i < 3; ++i) {
    spec.rows = MatmulRows(i);
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), names[i], spec, library.matmulSchedule(), library.target())));
  }
  ASSERT_TRUE(library.load());
  RandomWeights weights(TensorType::Q4_1, n, k, 8);
  Random random(6);
  std::vector<float> act(tokens * k), scales(tokens * k / 32), rowScale(rows);
  std::vector<int8_t> codes(tokens * k);
  std::vector<int32_t> sums(tokens * k / 16);
  std::vector<uint16_t> halves;
  for (float &value : act) {
    value = random.uniform();
    halves.push_back(uint16_t(0x3f00 | random.bits() % 256 | (random.bits() & 0x8000))); // 0.5 to 2, either sign
  }
  for (float &scale : scales)
    scale = 0.01f * random.uniform();
  for (float &scale : rowScale)
    scale = random.uniform();
  for (int64_t i = 0; i < tokens * k; ++i)
    sums[i / 16] += codes[i] = int8_t(int(random.bits() % 255) - 127);
  auto call = [&](const char *name, int64_t first, int64_t count, GuardedMatrix &out, const int32_t *rowIndex) {
    const void *from = q8                                     ? (const void *)&codes[first * k]
                       : activation == MatmulActivation::Bf16 ? (const void *)&halves[first * k]
                                                              : &act[first * k];
    library.find<IndexedMatmul>(name)(from, &scales[first * k / 32], &sums[first * k / 16], weights.packed, nullptr,
                                      out.row(0), count, k, out.stride, 0, 3, library.scratch(), rowIndex,
                                      rowScale.data());
    EXPECT_TRUE(out.guardsIntact());
  };
  GuardedMatrix gathered(rows, n), scattered(tokens, n);
  call("gathered", 0, rows, gathered, index.data());
  for (int64_t token = 0; token < tokens; ++token)
    std::fill_n(scattered.row(token), n, float(token));
  call("scattered", 0, rows, scattered, index.data());
  std::vector<bool> touched(tokens);
  for (int64_t row = 0; row < rows; ++row) {
    GuardedMatrix source(1, n), target(1, n);
    call("dense", index[row], 1, source, nullptr);
    EXPECT_EQ(std::memcmp(source.row(0), gathered.row(row), 4 * n), 0) << row;
    call("dense", row, 1, target, nullptr);
    touched[index[row]] = true;
    for (int64_t column = 0; column < n; ++column)
      ASSERT_EQ(scattered.at(index[row], column), std::fma(rowScale[row], target.at(0, column), float(index[row])));
  }
  for (int64_t token = 0; token < tokens; ++token)
    if (!touched[token]) {
      EXPECT_EQ(scattered.at(token, 0), float(token));
    }
}

TEST_P(MoeTest, GatheredAndScatteredProductsFollowTheIndex) {
  for (MatmulActivation activation : {MatmulActivation::F32, MatmulActivation::Bf16, MatmulActivation::Q8}) {
    SCOPED_TRACE("activation " + std::to_string(int(activation)));
    expectIndexFollowed(GetParam(), activation);
  }
}

TEST(Moe, GatheredAndScatteredBf16ProductsFollowTheIndex) {
  for (const std::string &target : KernelLibrary::bf16Targets()) {
    SCOPED_TRACE(target);
    expectIndexFollowed(target, MatmulActivation::Bf16);
  }
}

TEST(Moe, GatheredAndScatteredProductsOnInt8TilesFollowTheIndex) {
  for (const std::string &target : KernelLibrary::int8TileTargets()) {
    SCOPED_TRACE(target);
    expectIndexFollowed(target, MatmulActivation::Q8);
  }
}
