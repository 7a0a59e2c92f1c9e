// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuDriver.h"
#include "test/execute/GpuKernel.h"
#include "test/execute/GpuTiles.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <optional>

using namespace heddle;
using namespace heddle::test;

namespace {

AttentionSpec makeSpec(int64_t heads, int64_t kvHeads, int64_t headDim) {
  AttentionSpec spec;
  spec.numHeads = heads;
  spec.numKvHeads = kvHeads;
  spec.headDim = headDim;
  spec.scale = 1.0 / std::sqrt(double(headDim));
  spec.kv = KvType::BF16;
  spec.tileRows = 64;
  return spec;
}

// One step on a device: its cache is one allocation, in which the pages of all sequences lie in no order.
struct Step {
  Step(const AttentionSpec &spec, const PagedCache &cache, const std::vector<StepPart> &parts)
      : pageStride(cache.pageBytes()) {
    size_t pages = 0;
    for (StepPart part : parts)
      pages += pagesOf(part), pagesPerSequence = std::max(pagesPerSequence, int32_t(pagesOf(part)));
    memory.assign((pages + 1) * pageStride / 8, ~uint64_t(0));
    table.assign(parts.size() * pagesPerSequence, -1);
    size_t placed = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      sequenceRows.insert(sequenceRows.end(), {rows, parts[i].rows});
      for (int32_t row = 0; row < parts[i].rows; ++row)
        positions.push_back(parts[i].past + row);
      rows += parts[i].rows;
      longest = std::max<int64_t>(longest, parts[i].rows);
      for (size_t page = 0; page < pagesOf(parts[i]); ++page) {
        size_t place = pages - placed++; // page 0 belongs to nobody
        table[i * pagesPerSequence + page] = int32_t(place);
        std::memcpy(reinterpret_cast<uint8_t *>(memory.data()) + place * pageStride, cache.pages(i)[page], pageStride);
      }
    }
  }
  static size_t pagesOf(StepPart part) {
    return (part.past + part.rows + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  }

  int64_t pageStride, longest = 0;
  int32_t rows = 0, pagesPerSequence = 0;
  std::vector<uint64_t> memory;
  std::vector<int32_t> table, sequenceRows, positions;
};

std::vector<int64_t> lengthsOf(const std::vector<StepPart> &parts) {
  std::vector<int64_t> lengths;
  lengths.reserve(parts.size());
  for (StepPart part : parts)
    lengths.push_back(part.past + part.rows);
  return lengths;
}

enum class Keys : uint8_t { Whole, InSplits, OfWarpgroups };

class GpuAttention {
public:
  explicit GpuAttention(const AttentionSpec &spec)
      : spec(spec), sinks(sinksOf(spec)), whole(kernelOf(buildGpuAttention)), split(kernelOf(buildGpuAttentionSplit)),
        combine(kernelOf(buildGpuCombineSplits)) {
    if (runsWarpgroups(spec))
      warpgroups.emplace(
          [&](mlir::gpu::GPUModuleOp module) {
            buildWarpgroupAttention(module, "attention", *warpgroupAttention(spec));
          },
          "cuda:sm_90a");
  }

  // Warpgroups multiply on sm_90a alone.
  static bool runsWarpgroups(const AttentionSpec &spec) {
    GpuDriver *driver = GpuDriver::get();
    return warpgroupAttention(spec) && (!driver || driver->capability() == 90);
  }

  // A sink for each head, of either sign.
  static std::vector<float> sinksOf(const AttentionSpec &spec) { return randomFloats(spec.numHeads, 2.0f, 17); }

  std::vector<float> run(const PagedCache &cache, const std::vector<StepPart> &parts, const std::vector<float> &q,
                         ptx::WarpOrder order = ptx::WarpOrder::Ascending, Keys form = Keys::Whole) const {
    Step step(spec, cache, parts);
    int64_t width = spec.numHeads * spec.headDim, outStride = width + 6, qStride = width;
    std::vector<float> out((step.rows + 2) * outStride, canary);
    float *first = out.data() + outStride;
    ptx::Memory memory;
    using Access = ptx::Memory::Access;
    memory.allow(q.data(), q.size() * 4, Access::Read);
    memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
    memory.allow(step.memory.data(), step.memory.size() * 8, Access::Read);
    memory.allow(sinks.data(), sinks.size() * 4, Access::Read);
    for (const std::vector<int32_t> *numbers : {&step.table, &step.sequenceRows, &step.positions})
      memory.allow(numbers->data(), numbers->size() * 4, Access::Read);
    const void *queries = q.data(), *pages = step.memory.data(), *table = step.table.data();
    const void *sequenceRows = step.sequenceRows.data(), *positions = step.positions.data(), *ofHeads = sinks.data();
    int64_t keys = cache.keyOffset(), values = cache.valueOffset();
    using Argument = const void *;
    if (form != Keys::InSplits) {
      const GpuKernel &kernel = form == Keys::Whole ? whole : *warpgroups;
      kernel.run(form == Keys::Whole ? attentionLaunch(spec, step.longest, parts.size())
                                     : warpgroupAttentionLaunch(*warpgroupAttention(spec), step.longest, parts.size()),
                 {Argument(&queries), Argument(&first), Argument(&pages), Argument(&table), Argument(&sequenceRows),
                  Argument(&positions), &keys, &values, &step.pageStride, &qStride, &outStride, &step.pagesPerSequence,
                  Argument(&ofHeads)},
                 memory, order);
    } else {
      std::vector<int64_t> lengths = lengthsOf(parts);
      int64_t longest = *std::max_element(lengths.begin(), lengths.end());
      // Room for more splits than there are. What is not written is no number.
      int64_t maxSplits = longest / spec.splitKv + 2;
      std::vector<float> outputs(step.rows * maxSplits * width, NAN),
          maxima(step.rows * maxSplits * spec.numHeads, NAN);
      std::vector<float> sums = maxima;
      for (std::vector<float> *states : {&outputs, &maxima, &sums})
        memory.allow(states->data(), states->size() * 4, Access::ReadWrite);
      void *ofSplits = outputs.data(), *ofMaxima = maxima.data(), *ofSums = sums.data();
      split.run(splitLaunch(spec, step.longest, longest, parts.size()),
                {Argument(&queries), Argument(&ofSplits), Argument(&pages), Argument(&table), Argument(&sequenceRows),
                 Argument(&positions), &keys, &values, &step.pageStride, &qStride, &maxSplits, &step.pagesPerSequence,
                 Argument(&ofMaxima), Argument(&ofSums)},
                memory, order);
      combine.run(combineLaunch(spec, step.rows),
                  {Argument(&ofSplits), Argument(&ofMaxima), Argument(&ofSums), Argument(&first), Argument(&positions),
                   &outStride, &maxSplits, Argument(&ofHeads)},
                  memory, order);
    }
    return takeRows(out, step.rows, outStride, width);
  }

private:
  GpuKernel kernelOf(mlir::gpu::GPUFuncOp (*build)(mlir::gpu::GPUModuleOp, llvm::StringRef,
                                                   const AttentionSpec &)) const {
    return GpuKernel([&](mlir::gpu::GPUModuleOp module) {
      std::string error;
      EXPECT_TRUE(succeeded(verifyGpuAttention(spec, error))) << error;
      build(module, "attention", spec);
    });
  }

  AttentionSpec spec;
  std::vector<float> sinks;
  GpuKernel whole, split, combine;
  std::optional<GpuKernel> warpgroups;
};

// Queries that bf16 holds: what is left of rounding is that of the weights.
std::vector<float> queriesOf(const AttentionSpec &spec, const std::vector<StepPart> &parts) {
  int64_t rows = 0;
  for (StepPart part : parts)
    rows += part.rows;
  std::vector<float> q = randomFloats(rows * spec.numHeads * spec.headDim, 1.0f, 5);
  for (float &value : q)
    value = roundToBf16(value);
  return q;
}

void check(const AttentionSpec &spec, const std::vector<StepPart> &parts, double limit = 5e-6) {
  GpuAttention attention(spec);
  PagedCache cache(spec, lengthsOf(parts), 11, PagesOf::Device);
  std::vector<float> q = queriesOf(spec, parts), out = attention.run(cache, parts, q);
  std::vector<float> sinks = spec.hasSinks ? GpuAttention::sinksOf(spec) : std::vector<float>();
  std::vector<double> expected = referenceAttention(spec, cache, parts, q, sinks, PositionTable(spec));
  EXPECT_LE(nmse(out, expected), limit);
  EXPECT_EQ(out, attention.run(cache, parts, q, ptx::WarpOrder::Descending)) << "warps in another order";
  EXPECT_EQ(out, attention.run(cache, parts, q, ptx::WarpOrder::Ascending, Keys::InSplits)) << "in splits";
  if (!GpuAttention::runsWarpgroups(spec))
    return;
  std::vector<float> ofWarpgroups = attention.run(cache, parts, q, ptx::WarpOrder::Ascending, Keys::OfWarpgroups);
  EXPECT_LE(nmse(ofWarpgroups, expected), limit) << "of warpgroups";
  EXPECT_EQ(ofWarpgroups, attention.run(cache, parts, q, ptx::WarpOrder::Descending, Keys::OfWarpgroups))
      << "of warpgroups in another order";
}

const std::vector<StepPart> shortSteps = {{0, 1}, {63, 2}, {40, 33}, {0, 17}, {150, 1}, {0, 0}};

TEST(GpuAttention, RaggedBatchMeetsEveryPageBoundary) {
  check(makeSpec(4, 2, 32), {{0, 1},
                             {62, 1},
                             {63, 1},
                             {64, 1},
                             {0, 63},
                             {0, 64},
                             {0, 65},
                             {5, 17},
                             {95, 33},
                             {126, 2},
                             {127, 2},
                             {0, 128},
                             {1, 128},
                             {0, 0},
                             {300, 1}});
}

TEST(GpuAttention, EveryHeadDim) {
  for (int64_t headDim : {8, 16, 24, 40, 64, 72, 80, 96, 128}) {
    SCOPED_TRACE(headDim);
    check(makeSpec(2, 1, headDim), {{0, 1}, {63, 2}, {40, 33}});
  }
}

TEST(GpuAttention, TileRowsLeaveTheSameBits) {
  std::vector<float> whole;
  for (int64_t rows : {64, 16, 32, 128}) {
    SCOPED_TRACE(rows);
    AttentionSpec spec = makeSpec(6, 2, 64);
    spec.tileRows = rows;
    std::vector<StepPart> parts = {{80, 70}, {36, 1}};
    PagedCache cache(spec, lengthsOf(parts), 5, PagesOf::Device);
    std::vector<float> out = GpuAttention(spec).run(cache, parts, queriesOf(spec, parts));
    if (whole.empty())
      whole = out;
    EXPECT_EQ(out, whole);
    check(spec, {{0, 1}, {63, 2}, {40, 33}});
  }
}

TEST(GpuAttention, EveryGroup) {
  for (int64_t group : {1, 2, 3, 5, 7, 8, 12}) {
    SCOPED_TRACE(group);
    check(makeSpec(2 * group, 2, 16), shortSteps);
  }
}

TEST(GpuAttention, Window) {
  for (int64_t window : {1, 3, 63, 64, 65, 100, 5000}) {
    SCOPED_TRACE(window);
    AttentionSpec spec = makeSpec(4, 2, 16);
    spec.window = window;
    check(spec, {{0, 150}, {63, 2}, {300, 33}, {257, 1}});
  }
}

TEST(GpuAttention, Sinks) {
  AttentionSpec spec = makeSpec(4, 2, 32);
  spec.hasSinks = true;
  spec.splitKv = 64;
  check(spec, shortSteps);
  spec.window = 70;
  check(spec, shortSteps);
}

// Lengths at the edges of splits, more splits than are merged at once, and windows that begin in another split for each row.
TEST(GpuAttention, SplitsLeaveTheBitsOfWholeAttention) {
  AttentionSpec spec = makeSpec(4, 2, 32);
  for (auto [splitKv, window] : {std::pair<int64_t, int64_t>(64, 0), {128, 0}, {128, 100}, {64, 65}}) {
    SCOPED_TRACE(std::to_string(splitKv) + ", window " + std::to_string(window));
    spec.splitKv = splitKv;
    spec.window = window;
    check(spec, {{0, 1}, {126, 1}, {127, 2}, {128, 1}, {255, 40}, {0, 0}, {330, 1}, {600, 2}});
  }
  spec = makeSpec(8, 1, 128);
  spec.splitKv = 64;
  check(spec, {{300, 12}, {63, 1}});
}

// One page, several, rows of several tiles, and whatever makes scores or states.
TEST(GpuAttention, Warpgroups) {
  for (int64_t headDim : {64, 72, 128}) {
    SCOPED_TRACE(headDim);
    AttentionSpec spec = makeSpec(4, 2, headDim);
    check(spec, {{0, 1}, {62, 2}, {126, 2}, {191, 2}, {0, 150}, {0, 0}, {300, 70}});
    spec.window = 100;
    spec.hasSinks = true;
    spec.softcap = 5;
    check(spec, {{0, 1}, {0, 200}, {300, 70}});
  }
}

TEST(GpuAttention, Softcap) {
  AttentionSpec spec = makeSpec(4, 2, 32);
  for (double softcap : {50.0, 0.5}) {
    spec.softcap = softcap;
    check(spec, shortSteps);
  }
}

TEST(GpuAttention, LargeScores) {
  AttentionSpec spec = makeSpec(4, 2, 64);
  spec.scale = 30;
  check(spec, shortSteps);
}

TEST(GpuAttention, WeightsAreRoundedBeforeNormalisation) {
  // With equal scores every weight is 1 before the sum divides it, so nothing is lost by rounding.
  AttentionSpec spec = makeSpec(4, 2, 32);
  spec.scale = 0;
  check(spec, shortSteps, 1e-10);
}

TEST(GpuAttention, SharingKvHeadsLeavesTheSameBits) {
  AttentionSpec spec = makeSpec(6, 2, 24);
  PagedCache cache(spec, lengthsOf(shortSteps), 3, PagesOf::Device);
  std::vector<float> q = queriesOf(spec, shortSteps), shared = GpuAttention(spec).run(cache, shortSteps, q);
  spec.shareKvHeads = false;
  EXPECT_EQ(shared, GpuAttention(spec).run(cache, shortSteps, q));
}

TEST(GpuAttention, ChunksLeaveTheBitsOfOnePrefill) {
  AttentionSpec spec = makeSpec(3, 1, 16);
  const int32_t length = 200;
  PagedCache cache(spec, {length}, 21, PagesOf::Device);
  GpuAttention attention(spec);
  std::vector<float> q = queriesOf(spec, {{0, length}}), whole = attention.run(cache, {{0, length}}, q), joined;
  int64_t width = spec.numHeads * spec.headDim;
  for (int32_t past = 0, rows; past < length; past += rows) {
    rows = std::min(past % 3 ? 1 : 47, length - past);
    std::vector<float> part(q.begin() + past * width, q.begin() + (past + rows) * width);
    part = attention.run(cache, {{past, rows}}, part);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(whole, joined);
}

TEST(GpuAttention, RefusesWhatItDoesNotCompute) {
  auto messageFor = [](const AttentionSpec &spec) {
    std::string error;
    EXPECT_TRUE(failed(verifyGpuAttention(spec, error)));
    return error;
  };
  EXPECT_EQ(messageFor(makeSpec(8, 3, 64)), "num_heads (8) must be a positive multiple of num_kv_heads (3)");
  EXPECT_EQ(messageFor(makeSpec(8, 2, 136)), "head_dim (136) must be a multiple of 8 up to 128");
  AttentionSpec spec = makeSpec(8, 2, 64);
  spec.kv = KvType::F32;
  EXPECT_EQ(messageFor(spec),
            "attention on tensor cores is causal and reads keys and values of one head_dim from a bf16 cache");
  spec = makeSpec(8, 2, 64);
  spec.positions.kind = PositionSpec::Slopes;
  EXPECT_EQ(messageFor(spec), "attention on tensor cores has no positions");
  spec = makeSpec(8, 2, 64);
  spec.splitKv = 100;
  EXPECT_EQ(messageFor(spec), "splits of 100 keys must be whole pages of 64");
  spec = makeSpec(8, 2, 64);
  spec.chunk = 16;
  EXPECT_EQ(messageFor(spec), "attention on tensor cores has no chunks");
}

} // namespace
