// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over tensors and over the cache. Queries and keys are chosen so that softmax weights are ratios of small
// integers: a logit of ln n weighs n.

#include "test/verify/Evaluate.h"

#include <cmath>

using namespace heddle;

static const double ln2 = std::log(2.0), ln3 = std::log(3.0), ln4 = std::log(4.0);

static std::string dims(llvm::ArrayRef<int64_t> shape) {
  std::string text = "tensor<";
  for (int64_t dim : shape)
    text += std::to_string(dim) + "x";
  return text + "f32>";
}

namespace {
struct Shapes {
  llvm::SmallVector<int64_t> query, key, value, bias{1, 1, 1, 1};
  int64_t numSinks = 1;
};
} // namespace

// @main(query, key, value, bias, sinks), of which `operands` names the optional ones.
static std::string module(const Shapes &s, const std::string &operands, const std::string &mask,
                          const std::string &attributes) {
  std::string q = dims(s.query), k = dims(s.key), v = dims(s.value), b = dims(s.bias), sinks = dims({s.numSinks});
  std::string out = dims({s.query[0], s.query[1], s.query[2], s.value[3]}), text;
  if (operands.find("bias") != std::string::npos)
    text += " bias(%b : " + b + ")";
  if (operands.find("sinks") != std::string::npos)
    text += " sinks(%s : " + sinks + ")";
  return "func.func @main(%q: " + q + ", %k: " + k + ", %v: " + v + ", %b: " + b + ", %s: " + sinks + ") -> " + out +
         " {\n  %0 = heddle.attention %q, %k, %v" + text + " <" + mask + "> {" + attributes + "} : " + q + ", " + k +
         ", " + v + " -> " + out + "\n  return %0 : " + out + "\n}";
}

// One query of 1 against four keys of one value.
static Reals attend(const std::string &mask, const std::string &attributes, const Reals &keys, const Reals &values,
                    const std::string &operands = "", const Reals &bias = {0, 0, 0, 0}, double sink = 0,
                    int64_t queries = 1) {
  Shapes shapes{{1, 1, queries, 1}, {1, 1, 4, 1}, {1, 1, 4, 1}, {1, 1, 1, 4}, 1};
  Evaluation run(module(shapes, operands, mask, attributes));
  return run.reals({run.f32(shapes.query, Reals(queries, 1)), run.f32(shapes.key, keys), run.f32(shapes.value, values),
                    run.f32(shapes.bias, bias), run.f32({1}, {sink})});
}

TEST(Attention, WeighsValuesBySoftmax) {
  // Weights 1, 2, 3, 4 of 10.
  expectNear(attend("full", "scale = 1.0", {0, ln2, ln3, ln4}, {10, 20, 30, 40}), {30}, 1e-6);
}

TEST(Attention, ScaleMultipliesScores) {
  expectNear(attend("full", "scale = 2.0", {0, ln2 / 2, ln3 / 2, ln4 / 2}, {10, 20, 30, 40}), {30}, 1e-6);
}

TEST(Attention, LargeScoresDoNotOverflow) {
  expectNear(attend("full", "scale = 1.0", {5000, 5000 + ln3, 0, 0}, {10, 20, 30, 40}), {17.5}, 1e-3);
}

TEST(Attention, SoftcapBoundsScoresBeforeTheBias) {
  double big = 2 * std::tanh(50.0), weight = std::exp(big);
  expectNear(attend("full", "scale = 1.0, softcap = 2.0", {0, 100, 0, 0}, {0, 1, 0, 0}), {weight / (3 + weight)}, 1e-6);
  double biased = std::exp(big + 5);
  expectNear(attend("full", "scale = 1.0, softcap = 2.0", {0, 100, 0, 0}, {0, 1, 0, 0}, "bias", {0, 5, 0, 0}),
             {biased / (3 + biased)}, 1e-6);
}

TEST(Attention, SinkJoinsTheSumOnly) {
  // Weights 1 + 1 + 1 + 1 and 4 of the sink.
  expectNear(attend("full", "scale = 1.0", {0, 0, 0, 0}, {8, 8, 8, 8}, "sinks", {0, 0, 0, 0}, ln4), {4}, 1e-6);
}

TEST(Attention, CausalQueriesEndWithTheKeys) {
  // Two queries at positions 2 and 3.
  expectNear(attend("causal", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 2), {6, 7.5}, 1e-6);
  expectNear(attend("full", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 2), {7.5, 7.5}, 1e-6);
}

TEST(Attention, WindowHidesOldKeys) {
  expectNear(attend("causal, window = 2", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 2),
             {7.5, 10.5}, 1e-6);
  expectNear(attend("causal, window = 1", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 4),
             {3, 6, 9, 12}, 1e-6);
}

TEST(Attention, ChunksHideEarlierChunks) {
  expectNear(attend("causal, chunk = 3", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 4),
             {3, 4.5, 6, 12}, 1e-6);
  expectNear(attend("causal, chunk = 1", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "", {0, 0, 0, 0}, 0, 2), {9, 12},
             1e-6);
}

TEST(Attention, NothingSeenGivesZero) {
  expectNear(attend("full", "scale = 1.0", {0, 0, 0, 0}, {3, 6, 9, 12}, "bias", Reals(4, -INFINITY)), {0}, 0);
}

TEST(Attention, QueryHeadsShareTheirGroupsKeys) {
  Shapes shapes{{1, 6, 1, 1}, {1, 2, 2, 1}, {1, 2, 2, 1}, {1, 1, 1, 1}, 1};
  Evaluation run(module(shapes, "", "full", "scale = 1.0"));
  // Heads 0 to 2 read KV head 0, the others KV head 1; weights 1 : n.
  Reals y = run.reals({run.f32(shapes.query, {0, 1, 2, 0, 1, 2}), run.f32(shapes.key, {0, ln2, 0, ln3}),
                       run.f32(shapes.value, {0, 30, 0, 400}), run.f32({1, 1, 1, 1}, {0}), run.f32({1}, {0})});
  expectNear(y, {15, 20, 24, 200, 300, 360}, 1e-6);
}

TEST(Attention, HeadDimensionsOfKeyAndValueDiffer) {
  Shapes shapes{{2, 1, 1, 2}, {2, 1, 1, 2}, {2, 1, 1, 3}, {1, 1, 1, 1}, 1};
  Evaluation run(module(shapes, "", "causal", "scale = 1.0"));
  Reals y = run.reals({run.f32(shapes.query, {1, 2, 3, 4}), run.f32(shapes.key, {1, 2, 3, 4}),
                       run.f32(shapes.value, {1, 2, 3, 4, 5, 6}), run.f32({1, 1, 1, 1}, {0}), run.f32({1}, {0})});
  EXPECT_EQ(y, (Reals{1, 2, 3, 4, 5, 6}));
}

//===- cache --------------------------------------------------------------===//

// Appends a step's rows to layer 1 and attends: by the model op on a view, by the kernel op, and returns the view.
static const char *step = R"(
  func.func @main(%cache: !heddle.kv_cache<2 x 1 x 1 x f32>, %q: tensor<?x2xf32>, %k: tensor<?x1xf32>, %v: tensor<?x1xf32>)
      -> (tensor<1x2x?x1xf32>, tensor<?x2xf32>) {
    %layer = arith.constant 1 : index
    %zero = arith.constant 0 : index
    %rows = tensor.dim %q, %zero : tensor<?x2xf32>
    heddle.kv_append %cache[%layer], %k, %v : <2 x 1 x 1 x f32>, tensor<?x1xf32>, tensor<?x1xf32>
    %keys, %values = heddle.kv_view %cache[%layer] : <2 x 1 x 1 x f32> -> tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>
    %heads = tensor.empty(%rows) : tensor<1x2x?x1xf32>
    %split = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [1, %rows, 2, 1] : tensor<?x2xf32> into tensor<1x?x2x1xf32>
    %query = linalg.transpose ins(%split : tensor<1x?x2x1xf32>) outs(%heads : tensor<1x2x?x1xf32>) permutation = [0, 2, 1, 3]
    %0 = heddle.attention %query, %keys, %values <causal, window = 3> {scale = 1.0}
      : tensor<1x2x?x1xf32>, tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32> -> tensor<1x2x?x1xf32>
    %empty = tensor.empty(%rows) : tensor<?x2xf32>
    %1 = heddle.online_attention <causal, window = 3> ins(%q, %cache[%layer] : tensor<?x2xf32>, <2 x 1 x 1 x f32>)
      outs(%empty : tensor<?x2xf32>) {num_heads = 2 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x2xf32>
    return %0, %1 : tensor<1x2x?x1xf32>, tensor<?x2xf32>
  })";

TEST(Cache, SequencesOfAStepAreRaggedAndKept) {
  Evaluation run(step);
  auto cache = run.cache(0);
  // All keys are 0: a query sees the mean of the last three values of its own sequence.
  cache->beginStep({0, 1, 1, 0});
  auto first =
      run.call({cache, run.f32({4, 2}, Reals(8, 1)), run.f32({4, 1}, Reals(4, 0)), run.f32({4, 1}, {1, 10, 20, 3})});
  expectNear(std::get<TensorRef>(first[1])->reals, {1, 1, 10, 10, 15, 15, 2, 2}, 1e-6);
  expectNear(std::get<TensorRef>(first[0])->reals, {1, 10, 15, 2, 1, 10, 15, 2}, 1e-6);
  EXPECT_EQ(cache->tokens(0), 2);
  cache->beginStep({1, 0, 0});
  auto second =
      run.call({cache, run.f32({3, 2}, Reals(6, 1)), run.f32({3, 1}, Reals(3, 0)), run.f32({3, 1}, {60, 5, 7})});
  expectNear(std::get<TensorRef>(second[1])->reals, {30, 30, 3, 3, 5, 5}, 1e-6);
  EXPECT_EQ(cache->tokens(1), 3);
}

TEST(Cache, HeadsOfAGroupWeighTheSameKeys) {
  Evaluation run(step);
  auto cache = run.cache(0);
  cache->beginStep({0, 0});
  // Second query: weights 1 : 3 in head 0 (query 1) and 1 : 9 in head 1 (query 2).
  Reals y = run.reals({cache, run.f32({2, 2}, {1, 2, 1, 2}), run.f32({2, 1}, {0, ln3}), run.f32({2, 1}, {0, 40})}, 1);
  expectNear(y, {0, 0, 30, 36}, 1e-6);
}

//===- splits -------------------------------------------------------------===//

// Attention as a whole, and the merge of its splits of two keys each; whether splits would be preferred for this step.
static const char *splitStep = R"(
  func.func @main(%cache: !heddle.kv_cache<1 x 1 x 2 x f32>, %q: tensor<?x4xf32>, %k: tensor<?x2xf32>, %v: tensor<?x2xf32>,
                  %sinks: tensor<2xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<3x8xf32>, i1) {
    %layer = arith.constant 0 : index
    %rows = tensor.dim %q, %layer : tensor<?x4xf32>
    heddle.kv_append %cache[%layer], %k, %v : <1 x 1 x 2 x f32>, tensor<?x2xf32>, tensor<?x2xf32>
    %out = tensor.empty(%rows) : tensor<?x4xf32>
    %whole = heddle.online_attention <causal, window = 3> ins(%q, %cache[%layer] sinks %sinks : tensor<?x4xf32>, <1 x 1 x 2 x f32>, tensor<2xf32>)
      outs(%out : tensor<?x4xf32>) {num_heads = 2 : i64, scale = 0.5, softcap = 3.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x4xf32>
    %o = tensor.empty() : tensor<3x16xf32>
    %m = tensor.empty() : tensor<3x8xf32>
    %s:3 = heddle.online_attention <causal, window = 3> ins(%q, %cache[%layer] : tensor<?x4xf32>, <1 x 1 x 2 x f32>)
      outs(%o, %m, %m : tensor<3x16xf32>, tensor<3x8xf32>, tensor<3x8xf32>)
      {num_heads = 2 : i64, scale = 0.5, softcap = 3.0, block_kv = 64 : i64, share_kv = true, split_kv = 2 : i64}
      -> tensor<3x16xf32>, tensor<3x8xf32>, tensor<3x8xf32>
    %merged = heddle.combine_splits <causal, window = 3> ins(%s#0, %s#1, %s#2, %cache sinks %sinks : tensor<3x16xf32>, tensor<3x8xf32>,
      tensor<3x8xf32>, <1 x 1 x 2 x f32>, tensor<2xf32>) outs(%out : tensor<?x4xf32>) {num_heads = 2 : i64, split_kv = 2 : i64} -> tensor<?x4xf32>
    %few = heddle.prefer_splits %cache, %rows {items = 1 : i64, max_rows = 2 : i64, split_kv = 2 : i64} : <1 x 1 x 2 x f32>
    return %whole, %merged, %s#2, %few : tensor<?x4xf32>, tensor<?x4xf32>, tensor<3x8xf32>, i1
  })";

static llvm::SmallVector<RuntimeValue> runSplitStep(Evaluation &run, std::shared_ptr<KvCache> cache, int64_t rows,
                                                    double seed) {
  auto values = [&](int64_t count, double step) {
    Reals x(count);
    for (int64_t i = 0; i < count; ++i)
      x[i] = 2 * std::sin(seed + step * i);
    return x;
  };
  return run.call({cache, run.f32({rows, 4}, values(rows * 4, 1.1)), run.f32({rows, 2}, values(rows * 2, 0.7)),
                   run.f32({rows, 2}, values(rows * 2, 1.9)), run.f32({2}, {0.3, -0.2})});
}

TEST(Splits, MergeIsAttentionToAllKeys) {
  Evaluation run(splitStep);
  auto cache = run.cache(0);
  for (const auto &step : {std::vector<int64_t>{0, 0, 1}, {0, 1}, {1, 0}, {0, 0}}) {
    cache->beginStep(step);
    auto results = runSplitStep(run, cache, step.size(), cache->tokens(0));
    expectNear(std::get<TensorRef>(results[1])->reals, std::get<TensorRef>(results[0])->reals, 1e-6);
  }
  // Six tokens: the last row, at position 5 with a window of 3, sees nothing of the first split and one key of the second.
  Reals sums = std::get<TensorRef>(runSplitStep(run, cache, 2, 9)[2])->reals;
  EXPECT_EQ(sums[1 * 8 + 0], 0);
  EXPECT_EQ(sums[1 * 8 + 2], 1);
  EXPECT_GT(sums[1 * 8 + 4], 1);
}

TEST(Splits, ArePreferredForFewRowsOfLongSequences) {
  Evaluation run(splitStep);
  auto cache = run.cache(0);
  auto preferred = [&](const std::vector<int64_t> &rows) {
    cache->beginStep(rows);
    return std::get<TensorRef>(runSplitStep(run, cache, rows.size(), 1)[3])->integers[0];
  };
  EXPECT_EQ(preferred({0, 0}), 0); // one split holds both
  EXPECT_EQ(preferred({0}), 1);
  EXPECT_EQ(preferred({0, 1, 1}), 0); // three rows
}

TEST(Splits, MustHaveRoom) {
  Evaluation run(splitStep);
  auto cache = run.cache(0);
  auto error = [&](const std::vector<int64_t> &rows) {
    cache->beginStep(rows);
    int64_t n = rows.size();
    return run.error({cache, run.f32({n, 4}, Reals(4 * n, 1)), run.f32({n, 2}, Reals(2 * n, 1)),
                      run.f32({n, 2}, Reals(2 * n, 1)), run.f32({2}, {0, 0})});
  };
  EXPECT_NE(error({0, 1, 2, 3}).find("has 4 rows and room for 3"), std::string::npos);
  cache->beginStep({0, 0, 0, 0, 0, 0, 0});
  EXPECT_NE(error({0}).find("has a sequence of 9 tokens and room for 8"), std::string::npos);
}

TEST(Cache, RowsMustBeThoseOfTheStep) {
  Evaluation run(step);
  auto cache = run.cache(0);
  cache->beginStep({0});
  EXPECT_NE(run.error({cache, run.f32({2, 2}, Reals(4, 1)), run.f32({2, 1}, {0, 0}), run.f32({2, 1}, {0, 0})})
                .find("appends 2 rows in a step of 1"),
            std::string::npos);
}

TEST(Cache, ViewsAreRoundedToTheCachesType) {
  Evaluation run(R"(
    func.func @main(%cache: !heddle.kv_cache<1 x 2 x 1 x bf16>, %k: tensor<?x2xf32>, %layer: index) -> (tensor<1x2x?x1xbf16>, tensor<1x2x?x1xbf16>) {
      heddle.kv_append %cache[%layer], %k, %k : <1 x 2 x 1 x bf16>, tensor<?x2xf32>, tensor<?x2xf32>
      %0, %1 = heddle.kv_view %cache[%layer] : <1 x 2 x 1 x bf16> -> tensor<1x2x?x1xbf16>, tensor<1x2x?x1xbf16>
      %keys = arith.addf %0, %0 : tensor<1x2x?x1xbf16>
      %values = arith.negf %1 : tensor<1x2x?x1xbf16>
      return %keys, %values : tensor<1x2x?x1xbf16>, tensor<1x2x?x1xbf16>
    })");
  auto cache = run.cache(0);
  cache->beginStep({0, 0});
  // 257 lies halfway between the bf16 numbers 256 and 258: ties to even.
  auto k = run.f32({2, 2}, {257, 1, 3, 4});
  EXPECT_EQ(run.reals({cache, k, run.index(0)}, 0), (Reals{512, 6, 2, 8}));
  EXPECT_EQ(run.reals({cache, k, run.index(0)}, 1), (Reals{-256, -3, -1, -4}));
  EXPECT_NE(run.error({cache, k, run.index(1)}).find("layer 1 is not one of the cache's 1"), std::string::npos);
  cache->beginStep({1, 1});
  EXPECT_NE(run.error({cache, k, run.index(0)}).find("cannot read a view of a cache of 2 sequences"),
            std::string::npos);
}

static Reals positionBias(const std::string &table, const std::string &attributes, llvm::ArrayRef<int64_t> shape,
                          const Reals &values) {
  Evaluation run("func.func @main(%t: " + table +
                 ", %n: index, %m: index) -> tensor<1x2x?x?xf32> {\n  %0 = heddle.position_bias %t[%n, %m] " +
                 attributes + " : " + table + " -> tensor<1x2x?x?xf32>\n  return %0 : tensor<1x2x?x?xf32>\n}");
  return run.reals({run.f32(shape, values), run.index(2), run.index(3)});
}

TEST(PositionBias, SlopesFallWithTheDistance) {
  // Two queries at positions 1 and 2 of three keys: distances 1, 0, -1 and 2, 1, 0.
  expectNear(positionBias("tensor<2xf32>", "", {2}, {0.5, 2}), {-0.5, 0, 0.5, -1, -0.5, 0, -2, 0, 2, -4, -2, 0}, 0);
}

TEST(PositionBias, RowsOfRunsOfDistances) {
  // Below 0 row 1, 0 and 1 row 2, from 2 on row 0; columns are heads.
  expectNear(positionBias("tensor<3x2xf32>", "{starts = array<i64: 0, 2>, rows = array<i64: 1, 2, 0>}", {3, 2},
                          {1, 2, 3, 4, 5, 6}),
             {5, 5, 3, 1, 5, 5, 6, 6, 4, 2, 6, 6}, 0);
}
