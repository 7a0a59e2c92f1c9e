// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention within the sequences of a ragged batch, compiled, beside the formula in double precision. Query, key and value are columns of
// one buffer, as a fused projection leaves them.

#include "compiler/codegen/targets/cpu/FlashAttention.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/KernelLibrary.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

// RaggedAttentionCall (compiler/codegen/kernel/KernelCalls.h) as C++ sees it.
using Kernel = void(const float *query, const float *key, const float *value, float *out, const float *sinks,
                    const int32_t *sequences, int64_t numSequences, int64_t queryRow, int64_t keyRow, int64_t valueRow,
                    int64_t outRow, int32_t thread, int32_t numThreads);
using KernelOfPositions = void(const float *query, const float *key, const float *value, float *out, const float *sinks,
                               const void *positions, const int32_t *sequences, int64_t numSequences, int64_t queryRow,
                               int64_t keyRow, int64_t valueRow, int64_t outRow, int32_t thread, int32_t numThreads);
using KernelOfTokenPositions = void(const float *query, const float *key, const float *value, float *out,
                                    const float *sinks, const void *positions, const int32_t *sequences,
                                    int64_t numSequences, int64_t queryRow, int64_t keyRow, int64_t valueRow,
                                    int64_t outRow, int64_t positionsRow, int32_t thread, int32_t numThreads);
using KernelOfGlobals = void(const float *query, const float *key, const float *value, float *out, const float *sinks,
                             const int32_t *globals, const int32_t *sequences, int64_t numSequences, int64_t queryRow,
                             int64_t keyRow, int64_t valueRow, int64_t outRow, int32_t thread, int32_t numThreads);

namespace {

constexpr int64_t gap = 5; // columns behind those of a row, which nobody may read or write
const float canary = -12345.678f;

// The rows of one sequence: its number makes its values, wherever it stands.
struct Sequence {
  int64_t number, length;
};

// Tokens that are global: none of every third sequence, else the first and a few others, and the last of every other one.
bool isGlobal(const Sequence &sequence, int64_t token) {
  if (sequence.number % 3 == 0)
    return false;
  return token == 0 || token % 83 == 7 || (sequence.number % 2 && token == sequence.length - 1);
}

class Batch {
public:
  Batch(const AttentionSpec &spec, std::vector<Sequence> sequences) : spec(spec), sequences(std::move(sequences)) {
    for (const Sequence &sequence : this->sequences) {
      places.insert(places.end(), {int32_t(rows()), int32_t(sequence.length)});
      std::vector<float> values = randomFloats(sequence.length * width(), 1, unsigned(sequence.number));
      for (int64_t row = 0; row < sequence.length; ++row) {
        inputs.insert(inputs.end(), values.begin() + row * width(), values.begin() + (row + 1) * width());
        inputs.insert(inputs.end(), gap, NAN);
        globals.push_back(isGlobal(sequence, row) ? 1 + int32_t(row) : 0);
      }
      std::vector<float> given = randomFloats(sequence.length * givenWidth(), 1, 1000 + unsigned(sequence.number));
      for (int64_t row = 0; row < sequence.length && givenWidth(); ++row) {
        tokenTerms.insert(tokenTerms.end(), given.begin() + row * givenWidth(),
                          given.begin() + (row + 1) * givenWidth());
        tokenTerms.insert(tokenTerms.end(), gap, NAN);
      }
    }
  }

  // (rows, num_heads * value_dim)
  std::vector<float> run(KernelLibrary &library, int32_t threads) const {
    std::vector<float> out(rows() * (outWidth() + gap), canary);
    const float *key = inputs.data() + queryWidth(), *value = key + spec.numKvHeads * spec.headDim;
    int64_t count = int64_t(sequences.size()), row = width() + gap, outRow = outWidth() + gap;
    for (int32_t thread = 0; thread < threads; ++thread)
      if (spec.globals != GlobalTokens::None)
        library.find<KernelOfGlobals>("ragged")(inputs.data(), key, value, out.data(), sinks.data(), globals.data(),
                                                places.data(), count, row, row, row, outRow, thread, threads);
      else if (spec.positions.kind == PositionSpec::Tokens)
        library.find<KernelOfTokenPositions>("ragged")(inputs.data(), key, value, out.data(), sinks.data(),
                                                       tokenTerms.data(), places.data(), count, row, row, row, outRow,
                                                       givenWidth() + gap, thread, threads);
      else if (spec.positions.kind)
        library.find<KernelOfPositions>("ragged")(inputs.data(), key, value, out.data(), sinks.data(), positions.data(),
                                                  places.data(), count, row, row, row, outRow, thread, threads);
      else
        library.find<Kernel>("ragged")(inputs.data(), key, value, out.data(), sinks.data(), places.data(), count, row,
                                       row, row, outRow, thread, threads);
    std::vector<float> dense;
    for (int64_t row = 0; row < rows(); ++row) {
      const float *first = out.data() + row * (outWidth() + gap), *behind = first + outWidth();
      dense.insert(dense.end(), first, behind);
      for (int64_t i = 0; i < gap; ++i)
        EXPECT_EQ(behind[i], canary) << "written behind row " << row;
    }
    return dense;
  }

  // What the formula gives for sequence `index`.
  std::vector<double> expected(size_t index) const {
    std::vector<double> out;
    for (int64_t i = 0; i < sequences[index].length; ++i)
      for (int64_t h = 0; h < spec.numHeads; ++h)
        appendRow(index, i, h, out);
    return out;
  }

  // Of what `run` gave: the rows of sequence `index`.
  std::vector<float> take(const std::vector<float> &out, size_t index) const {
    auto first = out.begin() + places[2 * index] * outWidth();
    return {first, first + sequences[index].length * outWidth()};
  }

  const AttentionSpec spec;
  const std::vector<Sequence> sequences;

private:
  int64_t rows() const { return int64_t(inputs.size()) / (width() + gap); }
  int64_t queryWidth() const { return spec.numHeads * spec.headDim; }
  int64_t width() const { return queryWidth() + spec.numKvHeads * (spec.headDim + spec.valueDim()); }
  int64_t outWidth() const { return spec.numHeads * spec.valueDim(); }
  // Of what a token gives for distances: (2, num_heads, num_buckets).
  int64_t givenWidth() const { return 2 * spec.numHeads * spec.positions.numBuckets; }
  double termsAt(size_t index, int64_t h, int64_t i, int64_t j) const {
    const PositionSpec &positions = spec.positions;
    if (positions.kind != PositionSpec::Tokens)
      return 0;
    int64_t run =
        std::count_if(positions.starts.begin(), positions.starts.end(), [&](int64_t start) { return start <= i - j; });
    auto given = [&](int64_t token, int64_t head) {
      int64_t row = places[2 * index] + token;
      return double(tokenTerms[row * (givenWidth() + gap) + head * positions.numBuckets + positions.rows[run]]);
    };
    return given(i, h) + given(j, spec.numHeads + h);
  }
  const float *row(size_t index, int64_t i) const { return inputs.data() + (places[2 * index] + i) * (width() + gap); }

  void appendRow(size_t index, int64_t i, int64_t h, std::vector<double> &out) const {
    int64_t kvHead = h / spec.group(), keys = sequences[index].length;
    const float *query = row(index, i) + h * spec.headDim;
    double sum = spec.hasSinks ? std::exp(double(sinks[h])) : 0;
    std::vector<double> weighted(spec.valueDim());
    if (spec.globals == GlobalTokens::Queries && !isGlobal(sequences[index], i)) {
      out.insert(out.end(), spec.valueDim(), canary);
      return;
    }
    for (int64_t j = 0; j < keys; ++j) {
      bool isAhead = spec.causal ? j > i : spec.ahead && j >= i + spec.ahead;
      bool isSeen = spec.globals == GlobalTokens::Keys && isGlobal(sequences[index], j);
      if (!isSeen && (isAhead || (spec.window && j <= i - spec.window)))
        continue;
      const float *key = row(index, j) + queryWidth() + kvHead * spec.headDim;
      const float *value = row(index, j) + queryWidth() + spec.numKvHeads * spec.headDim + kvHead * spec.valueDim();
      double weight = std::exp(spec.scale * std::inner_product(query, query + spec.headDim, key, 0.0) +
                               positions.at(h, i - j) + termsAt(index, h, i, j));
      sum += weight;
      for (int64_t d = 0; d < spec.valueDim(); ++d)
        weighted[d] += weight * value[d];
    }
    for (double element : weighted)
      out.push_back(element / sum);
  }

  std::vector<float> inputs;     // (rows, query | key | value | gap)
  std::vector<float> tokenTerms; // (rows, as a query | as a key | gap)
  std::vector<int32_t> places, globals;
  const std::vector<float> sinks = randomFloats(spec.numHeads, 2, 71);
  const PositionTable positions{spec};
};

class Compiled {
public:
  explicit Compiled(const AttentionSpec &spec, const std::string &target = "native")
      : library(std::make_unique<KernelLibrary>(target)) {
    buildRaggedAttention(library->module(), "ragged", library->withRegisters(spec), library->target());
    EXPECT_TRUE(library->load());
  }
  std::vector<float> run(const Batch &batch, int32_t threads) const { return batch.run(*library, threads); }

private:
  std::unique_ptr<KernelLibrary> library;
};

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

// Lengths around tiles and blocks; one token; numbers make each sequence another.
const std::vector<Sequence> odd = {{1, 1}, {2, 7}, {3, 33}, {4, 64}, {5, 65}, {6, 130}, {7, 3}, {8, 1}, {9, 200}};

void checkFormula(const AttentionSpec &spec, const std::string &target = "native") {
  Compiled compiled(spec, target);
  Batch batch(spec, odd);
  std::vector<float> out = compiled.run(batch, 1);
  for (size_t i = 0; i < odd.size(); ++i)
    EXPECT_LE(nmse(batch.take(out, i), batch.expected(i)), 1e-10) << "sequence of " << odd[i].length;
  for (int32_t threads : {2, 3, 7})
    EXPECT_TRUE(sameBits(out, compiled.run(batch, threads))) << threads << " threads";
}

TEST(RaggedAttention, OddLengths) {
  checkFormula(denseSpec(4, 4, 16));
}

TEST(RaggedAttention, OddHeadDim) {
  checkFormula(denseSpec(3, 3, 21));
}

TEST(RaggedAttention, GroupsAndValuesOfAnotherHeadDim) {
  AttentionSpec spec = denseSpec(6, 2, 24);
  spec.valueHeadDim = 13;
  checkFormula(spec);
}

TEST(RaggedAttention, Sinks) {
  AttentionSpec spec = denseSpec(4, 2, 32);
  spec.hasSinks = true;
  checkFormula(spec);
}

TEST(RaggedAttention, Slopes) {
  AttentionSpec spec = denseSpec(5, 5, 24, true);
  spec.positions = slopes();
  checkFormula(spec);
}

TEST(RaggedAttention, BucketsOnBothSides) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    AttentionSpec spec = denseSpec(6, 6, 21);
    spec.positions = buckets();
    spec.scale = 1;
    checkFormula(spec, target);
    spec.numKvHeads = 2;
    spec.hasSinks = true;
    spec.positions = buckets(KvType::BF16);
    checkFormula(spec, target);
  }
}

// What query and key give for the bucket of their distance; windows, and keys in splits.
TEST(RaggedAttention, BucketsOfTokens) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    AttentionSpec spec = denseSpec(3, 3, 20);
    spec.positions = buckets();
    spec.positions.kind = PositionSpec::Tokens;
    spec.positions.numBuckets = 1 + *std::max_element(spec.positions.rows.begin(), spec.positions.rows.end());
    checkFormula(spec, target);
    spec.splitKv = 64;
    spec.window = spec.ahead = 70;
    spec.numKvHeads = 1;
    checkFormula(spec, target);
  }
}

TEST(RaggedAttention, CausalWithinEachSequence) {
  checkFormula(denseSpec(4, 2, 32, true));
}

TEST(RaggedAttention, WindowWithinEachSequence) {
  AttentionSpec spec = denseSpec(4, 2, 32, true);
  spec.window = 5;
  checkFormula(spec);
}

// A mask with one side open, and the same on both; windows within a block and across some.
TEST(RaggedAttention, WindowsOnBothSides) {
  for (auto [window, ahead] :
       {std::pair(5, 5), std::pair(1, 1), std::pair(70, 70), std::pair(0, 9), std::pair(66, 2)}) {
    SCOPED_TRACE(window);
    AttentionSpec spec = denseSpec(4, 2, 32);
    spec.window = window;
    spec.ahead = ahead;
    checkFormula(spec);
  }
}

TEST(RaggedAttention, GlobalKeysAreSeenFromEverywhere) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    AttentionSpec spec = denseSpec(4, 2, 24);
    spec.globals = GlobalTokens::Keys;
    spec.window = spec.ahead = 9;
    checkFormula(spec, target);
    spec.splitKv = 64;
    spec.numKvHeads = 4;
    checkFormula(spec, target);
  }
}

TEST(RaggedAttention, GlobalQueriesAloneAreWritten) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    AttentionSpec spec = denseSpec(4, 2, 24);
    spec.globals = GlobalTokens::Queries;
    checkFormula(spec, target);
  }
}

TEST(RaggedAttention, EveryRunnableTarget) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    checkFormula(denseSpec(4, 2, 40), target);
  }
}

TEST(RaggedAttention, NeighboursLeaveTheSameBits) {
  AttentionSpec spec = denseSpec(12, 12, 32);
  Compiled compiled(spec);
  Batch forwards(spec, odd), backwards(spec, {odd.rbegin(), odd.rend()});
  std::vector<float> out = compiled.run(forwards, 2), reversed = compiled.run(backwards, 3);
  for (size_t i = 0; i < odd.size(); ++i) {
    Batch alone(spec, {odd[i]});
    std::vector<float> expected = compiled.run(alone, 1);
    EXPECT_TRUE(sameBits(expected, forwards.take(out, i))) << "sequence of " << odd[i].length;
    EXPECT_TRUE(sameBits(expected, backwards.take(reversed, odd.size() - 1 - i))) << "sequence of " << odd[i].length;
  }
}

TEST(RaggedAttention, NoSequences) {
  AttentionSpec spec = denseSpec(4, 4, 16);
  EXPECT_TRUE(Compiled(spec).run(Batch(spec, {}), 2).empty());
}

} // namespace
