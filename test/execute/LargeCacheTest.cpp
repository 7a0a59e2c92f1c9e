// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guards the index arithmetic of attention and of the cache: planes of a layer that lie behind 2^28, 2^31 and 2^32 bytes of a page,
// queries, results, scores and states of splits whose rows lie gigabytes apart. What a kernel reads there has the bits that it has
// near, and so has its answer. Memory is reserved, and only what a kernel touches is real.

#include "compiler/codegen/targets/cpu/KvAppend.h"
#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/KernelLibrary.h"
#include "test/execute/SparseMemory.h"

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using Whole = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t, int64_t, int64_t,
                   const float *, int32_t, int32_t);
using Stored = void(const float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t, int64_t, int64_t,
                    const float *, float *, int64_t, int32_t, int32_t);
using Split = void(const float *, float *, float *, float *, const heddle_sequence *, int64_t, int64_t, int64_t,
                   int64_t, int64_t, int32_t, int32_t);
using Combine = void(const float *, const float *, const float *, float *, const heddle_sequence *, int64_t, int64_t,
                     int64_t, const float *, int32_t, int32_t);
using Append = void(const float *, const float *, int64_t, int64_t, const int32_t *, const int32_t *,
                    const heddle_sequence *, int64_t, int64_t, int64_t, int64_t);

namespace {

// 70 tokens in the cache, of which the last 6 are queries.
constexpr int64_t length = 70, rows = 6, numPages = 2;
constexpr int64_t farBytes = (int64_t(1) << 30) + 4096, farStride = farBytes / 4;

AttentionSpec testSpec(KvType kv) {
  AttentionSpec spec;
  spec.numHeads = 4;
  spec.numKvHeads = 2;
  spec.headDim = 32;
  spec.scale = 1 / std::sqrt(32.0);
  spec.kv = kv;
  return spec;
}

int64_t planeBytes(const AttentionSpec &spec) {
  return spec.numKvHeads * kvPlaneBytes(spec.kv, spec.headDim);
}

// The planes of a small cache, in pages where they begin at `kOffset` and `vOffset`.
struct FarCache {
  FarCache(const AttentionSpec &spec, const PagedCache &near, int64_t kOffset)
      : kOffset(kOffset), vOffset(kOffset + planeBytes(spec) + 64),
        pageBytes((vOffset + planeBytes(spec) + 4095) / 4096 * 4096), memory(numPages * pageBytes) {
    for (int64_t page = 0; page < numPages; ++page) {
      pages.push_back(memory.at<uint8_t>(page * pageBytes));
      std::memcpy(pages[page] + kOffset, near.pages(0)[page] + near.keyOffset(), planeBytes(spec));
      std::memcpy(pages[page] + vOffset, near.pages(0)[page] + near.valueOffset(), planeBytes(spec));
    }
  }

  const int64_t kOffset, vOffset, pageBytes;
  SparseMemory memory;
  std::vector<uint8_t *> pages;
};

// A page's planes lie across the border, and the second page behind it.
std::vector<int64_t> offsetsOf(const AttentionSpec &spec) {
  std::vector<int64_t> offsets;
  for (int64_t border : borders)
    offsets.push_back(border - planeBytes(spec) / 2 / 64 * 64);
  return offsets;
}

class LargeCache : public testing::TestWithParam<KvType> {
protected:
  LargeCache() : spec(testSpec(GetParam())), near(spec, {length}, 3), width(spec.numHeads * spec.headDim) {
    AttentionSpec stored = spec;
    stored.storesScores = true;
    buildAttention(library.module(), "whole", library.withRegisters(spec), library.target());
    buildAttention(library.module(), "stored", library.withRegisters(stored), library.target());
    buildAttentionSplit(library.module(), "split", library.withRegisters(spec), library.target());
    buildCombineSplits(library.module(), "combine", spec, library.target());
    EXPECT_TRUE(library.load());
    queries = randomFloats(rows * width, 1.0f, 9);
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(farQueries.at<float>(row * farBytes), &queries[row * width], width * sizeof(float));
    heddle_sequence sequence = {0, rows, length - rows, 0, near.pages(0)};
    expected.resize(rows * width);
    library.find<Whole>("whole")(queries.data(), expected.data(), &sequence, 1, near.keyOffset(), near.valueOffset(),
                                 width, width, nullptr, 0, 1);
  }
  void expectSame(const SparseMemory &out) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < width; ++column)
        ASSERT_EQ(out.at<float>(row * farBytes)[column], expected[row * width + column]) << row << ", " << column;
  }

  const AttentionSpec spec;
  const PagedCache near;
  const int64_t width;
  KernelLibrary library{"native"};
  std::vector<float> queries, expected;
  SparseMemory farQueries{rows * farBytes};
};
INSTANTIATE_TEST_SUITE_P(Types, LargeCache, testing::Values(KvType::F32, KvType::BF16, KvType::F16, KvType::Q8_0));

TEST_P(LargeCache, attentionReadsPlanesAndRowsFarApart) {
  for (int64_t offset : offsetsOf(spec)) {
    SCOPED_TRACE(offset);
    FarCache cache(spec, near, offset);
    heddle_sequence sequence = {0, rows, length - rows, 0, cache.pages.data()};
    SparseMemory out(rows * farBytes);
    library.find<Whole>("whole")(farQueries.at<float>(), out.at<float>(), &sequence, 1, cache.kOffset, cache.vOffset,
                                 farStride, farStride, nullptr, 0, 1);
    expectSame(out);
  }
}

// Scores of (rows, heads, keys) with room for 2^28 keys: 4 GiB for a row of the step.
TEST_P(LargeCache, scoresOfALongContext) {
  const int64_t keys = int64_t(1) << 28;
  FarCache cache(spec, near, 0);
  heddle_sequence sequence = {0, rows, length - rows, 0, cache.pages.data()};
  std::vector<float> nearScores(rows * spec.numHeads * 128), nearOut(rows * width);
  library.find<Stored>("stored")(queries.data(), nearOut.data(), &sequence, 1, cache.kOffset, cache.vOffset, width,
                                 width, nullptr, nearScores.data(), 128, 0, 1);
  SparseMemory out(rows * farBytes), scores(rows * spec.numHeads * keys * 4);
  library.find<Stored>("stored")(farQueries.at<float>(), out.at<float>(), &sequence, 1, cache.kOffset, cache.vOffset,
                                 farStride, farStride, nullptr, scores.at<float>(), keys, 0, 1);
  expected = nearOut;
  expectSame(out);
}

// States of (rows, splits, heads, head_dim) with room for 2^22 splits: 2 GiB of sums for a row of the step.
TEST_P(LargeCache, statesOfManySplits) {
  const int64_t splits = int64_t(1) << 22, states = rows * splits * spec.numHeads;
  FarCache cache(spec, near, 0);
  heddle_sequence sequence = {0, rows, length - rows, 0, cache.pages.data()};
  SparseMemory out(rows * farBytes), outputs(states * spec.headDim * 4), maxima(states * 4), sums(states * 4);
  library.find<Split>("split")(farQueries.at<float>(), outputs.at<float>(), maxima.at<float>(), sums.at<float>(),
                               &sequence, 1, cache.kOffset, cache.vOffset, farStride, splits, 0, 1);
  library.find<Combine>("combine")(outputs.at<float>(), maxima.at<float>(), sums.at<float>(), out.at<float>(),
                                   &sequence, 1, farStride, splits, nullptr, 0, 1);
  expectSame(out);
}

TEST_P(LargeCache, appendWritesPlanesFarApart) {
  KvAppendSpec append{spec.numKvHeads, spec.headDim, spec.headDim, spec.kv};
  KernelLibrary kernels("native");
  buildKvAppend(kernels.module(), "append", append, kernels.target());
  ASSERT_TRUE(kernels.load());
  // The step's rows are written again, as the reference stored them.
  int64_t kvWidth = spec.numKvHeads * spec.headDim;
  SparseMemory keys(rows * farBytes), values(rows * farBytes);
  int32_t sequenceOfRow[rows] = {}, positions[rows];
  for (int64_t row = 0; row < rows; ++row) {
    positions[row] = int32_t(length - rows + row);
    for (int64_t i = 0; i < kvWidth; ++i) {
      keys.at<float>(row * farBytes)[i] = near.key(0, positions[row], i / spec.headDim, i % spec.headDim);
      values.at<float>(row * farBytes)[i] = near.value(0, positions[row], i / spec.headDim, i % spec.headDim);
    }
  }
  for (int64_t offset : offsetsOf(spec)) {
    SCOPED_TRACE(offset);
    FarCache cache(spec, near, offset);
    for (int64_t row = 0; row < rows; ++row)
      for (bool isValue : {false, true})
        for (int64_t i = 0; i < kvWidth; ++i) {
          cpu::PlaneOrder order = cpu::planeOrder(cpu::hasPairedPages(spec), isValue);
          int64_t slot = positions[row] % HEDDLE_KV_PAGE_SIZE, head = i / spec.headDim;
          int64_t place = head * kvPlaneBytes(spec.kv, spec.headDim) +
                          cpu::elementOf(order, spec.headDim, slot, i % spec.headDim) * kvBytes(spec.kv);
          std::memset(cache.pages[positions[row] / HEDDLE_KV_PAGE_SIZE] + (isValue ? cache.vOffset : cache.kOffset) +
                          place,
                      0, kvBytes(spec.kv));
        }
    heddle_sequence sequence = {0, rows, length - rows, 0, cache.pages.data()};
    kernels.find<Append>("append")(keys.at<float>(), values.at<float>(), farStride, farStride, sequenceOfRow, positions,
                                   &sequence, cache.kOffset, cache.vOffset, 0, rows);
    for (int64_t page = 0; page < numPages; ++page) {
      EXPECT_FALSE(
          std::memcmp(cache.pages[page] + cache.kOffset, near.pages(0)[page] + near.keyOffset(), planeBytes(spec)))
          << "keys of page " << page;
      EXPECT_FALSE(
          std::memcmp(cache.pages[page] + cache.vOffset, near.pages(0)[page] + near.valueOffset(), planeBytes(spec)))
          << "values of page " << page;
    }
  }
}

} // namespace
