// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/AttentionKernels.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

namespace {

std::vector<int64_t> lengthsOf(const std::vector<StepPart> &parts) {
  std::vector<int64_t> lengths;
  lengths.reserve(parts.size());
  for (StepPart part : parts)
    lengths.push_back(part.past + part.rows);
  return lengths;
}

std::vector<float> queriesOf(const AttentionSpec &spec, const std::vector<StepPart> &parts, unsigned seed) {
  int64_t rows = 0;
  for (StepPart part : parts)
    rows += part.rows;
  return randomFloats(rows * spec.numHeads * spec.headDim, 1.0f, seed);
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

// Every body, for 1 … 3 threads, against the reference and against each other's bits.
void check(const AttentionSpec &spec, const std::vector<StepPart> &parts, const std::string &target = "native",
           double limit = 1e-10) {
  AttentionKernels attention(spec, target);
  PagedCache cache(spec, lengthsOf(parts), 11);
  std::vector<float> q = queriesOf(spec, parts, 5);
  std::vector<float> out = attention.run(cache, parts, q);
  EXPECT_LE(nmse(out, attention.reference(cache, parts, q)), limit);
  for (int32_t threads : {2, 3})
    EXPECT_TRUE(sameBits(out, attention.run(cache, parts, q, threads))) << threads << " threads";
  for (int32_t threads : {1, 3})
    EXPECT_TRUE(sameBits(out, attention.run(cache, parts, q, threads, Body::Split))) << threads << " threads, split";
}

// Steps that meet every page, tile and split boundary, ragged.
const std::vector<StepPart> raggedSteps = {{0, 1},   {62, 1},  {63, 1},   {64, 1},   {0, 63},    {0, 64},  {0, 65},
                                           {5, 17},  {95, 33}, {126, 2},  {127, 2},  {0, 128},   {1, 128}, {510, 1},
                                           {511, 1}, {512, 1}, {480, 33}, {1099, 1}, {1000, 17}, {0, 0}};
const std::vector<StepPart> shortSteps = {{0, 1}, {63, 2}, {40, 33}, {0, 17}, {520, 1}, {500, 20}};

TEST(Attention, RaggedBatch) {
  check(makeSpec(8, 2, 64, KvType::BF16), raggedSteps);
  check(makeSpec(3, 1, 32, KvType::F32), raggedSteps);
}

// Runs that leave a rest, that scratch has no room for as a whole, of several tokens, and more threads than heads.
TEST(Attention, RunsOfHeadsLeaveTheSameBits) {
  const std::vector<StepPart> parts = {{200, 1}, {1030, 1}, {63, 2}, {600, 3}, {0, 6}, {0, 0}};
  std::vector<std::string> targets = KernelLibrary::runnableTargets();
  llvm::append_range(targets, KernelLibrary::bf16Targets());
  for (const std::string &target : targets)
    for (auto [heads, kvHeads] : {std::pair(5, 5), {20, 20}, {12, 4}, {27, 9}}) {
      SCOPED_TRACE(target + ", " + std::to_string(kvHeads));
      AttentionSpec spec = makeSpec(heads, kvHeads, 32, KvType::BF16);
      spec.products = llvm::is_contained(KernelLibrary::bf16Targets(), target) ? Products::Bf16 : Products::F32;
      spec.window = kvHeads == 4 ? 300 : 0;
      AttentionKernels attention(spec, target);
      PagedCache cache(spec, lengthsOf(parts), 11);
      std::vector<float> q = queriesOf(spec, parts, 5), out = attention.run(cache, parts, q);
      EXPECT_LE(nmse(out, attention.reference(cache, parts, q)), spec.products == Products::Bf16 ? 5e-5 : 1e-10);
      for (int32_t threads : {2, 7, 64})
        for (Body body : {Body::Whole, Body::Split})
          EXPECT_TRUE(sameBits(out, attention.run(cache, parts, q, threads, body))) << threads << " threads";
    }
}

// No thread has more than a head and a split above another, whatever a window hides.
TEST(Attention, ThreadsShareTheSplitsThatAreSeen) {
  struct Case {
    int64_t kvHeads, window, visible; // splits of 512 keys that the token sees
    int32_t past, threads;
  };
  for (const Case &c : {Case{4, 1024, 2, 8191, 8},
                        {4, 1024, 3, 8000, 8},
                        {1, 700, 2, 5000, 2},
                        {8, 0, 17, 8700, 16},
                        {4, 0, 9, 4600, 8},
                        {5, 0, 3, 1100, 2},
                        {2, 0, 2, 1000, 7}}) {
    SCOPED_TRACE(std::to_string(c.kvHeads) + " heads, " + std::to_string(c.threads) + " threads");
    AttentionSpec spec = makeSpec(2 * c.kvHeads, c.kvHeads, 32, KvType::BF16);
    spec.window = c.window;
    const std::vector<StepPart> parts = {{c.past, 1}};
    PagedCache cache(spec, lengthsOf(parts), 11);
    std::vector<int64_t> counts =
        AttentionKernels(spec).splitsOfThreads(cache, parts, queriesOf(spec, parts, 5), c.threads);
    int64_t group = spec.group(), all = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    EXPECT_EQ(all, c.kvHeads * group * c.visible);
    EXPECT_LE(*llvm::max_element(counts) - *llvm::min_element(counts), group);
  }
}

TEST(Attention, LongPrefill) {
  check(makeSpec(4, 2, 32), {{0, 700}, {300, 333}});
}

TEST(Attention, EveryGroup) {
  for (int64_t group : {1, 2, 3, 5, 7, 8, 12}) {
    SCOPED_TRACE(group);
    check(makeSpec(2 * group, 2, 32, KvType::BF16), shortSteps);
  }
}

TEST(Attention, EveryHeadDim) {
  for (int64_t headDim : {1, 4, 8, 16, 20, 24, 37, 64, 72, 80, 96, 128, 256}) {
    SCOPED_TRACE(headDim);
    check(makeSpec(3, 1, headDim, headDim % 3 ? KvType::F32 : KvType::BF16), shortSteps);
  }
}

TEST(Attention, EveryStoredType) {
  for (KvType kv : {KvType::F32, KvType::BF16, KvType::F16})
    check(makeSpec(6, 2, 40, kv), shortSteps);
  check(makeSpec(6, 2, 32, KvType::Q8_0), shortSteps);
  check(makeSpec(6, 2, 96, KvType::Q8_0), raggedSteps);
}

// Of few keys together, of a window, of values of another width; products of both types.
TEST(Attention, Codes) {
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (int64_t headDim : {96, 128}) { // one run of values, and two
      AttentionSpec spec = makeSpec(4, 2, headDim, KvType::Q8_0);
      spec.products = Products::Bf16;
      check(spec, {{0, 1}, {63, 2}, {40, 33}}, target, 5e-5);
    }
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (Products products : {Products::F32, Products::Bf16})
      for (int64_t block : {32, 64}) {
        if (block / 4 < KernelLibrary(target).target().vectorLanes()) // of the softmax
          continue;
        SCOPED_TRACE(target + (products == Products::Bf16 ? ", bf16" : ", f32") + ", " + std::to_string(block) +
                     " keys");
        AttentionSpec spec = makeSpec(4, 2, 128, KvType::Q8_0);
        spec.products = products;
        spec.blockKv = block;
        spec.registerColumns = 16;
        double limit = products == Products::Bf16 ? 5e-5 : 1e-10;
        check(spec, shortSteps, target, limit);
        spec.window = 70;
        check(spec, shortSteps, target, limit);
        spec.valueHeadDim = 32;
        check(spec, shortSteps, target, limit);
      }
}

TEST(Attention, ValuesOfAnotherHeadDim) {
  AttentionSpec spec = makeSpec(4, 2, 48, KvType::BF16);
  spec.valueHeadDim = 32;
  check(spec, shortSteps);
  spec.valueHeadDim = 90;
  check(spec, shortSteps);
}

TEST(Attention, Window) {
  for (int64_t window : {1, 3, 63, 64, 100, 512, 5000}) {
    SCOPED_TRACE(window);
    AttentionSpec spec = makeSpec(4, 2, 32, KvType::BF16);
    spec.window = window;
    check(spec, {{0, 150}, {63, 2}, {700, 1}, {600, 33}, {1099, 1}});
  }
}

// Chunks that begin with a page and within one, of a single token, and of more than there are.
TEST(Attention, Chunks) {
  for (int64_t chunk : {1, 5, 63, 64, 100, 512, 5000})
    for (KvType kv : {KvType::BF16, KvType::Q8_0}) {
      SCOPED_TRACE(chunk);
      AttentionSpec spec = makeSpec(4, 2, 32, kv);
      spec.chunk = chunk;
      check(spec, {{0, 150}, {63, 2}, {700, 1}, {600, 33}, {1099, 1}});
    }
  AttentionSpec spec = makeSpec(6, 2, 64, KvType::BF16);
  spec.chunk = 70;
  spec.products = Products::Bf16;
  for (const std::string &target : KernelLibrary::bf16Targets())
    check(spec, {{0, 150}, {69, 1}, {70, 1}, {600, 33}}, target, 5e-5);
}

TEST(Attention, Bidirectional) {
  AttentionSpec spec = makeSpec(4, 4, 32);
  spec.causal = false;
  check(spec, {{0, 1}, {0, 17}, {0, 64}, {0, 129}, {0, 600}});
  spec.window = 65;
  check(spec, {{0, 1}, {0, 17}, {0, 64}, {0, 129}, {0, 600}});
}

TEST(Attention, Softcap) {
  AttentionSpec spec = makeSpec(4, 2, 32, KvType::BF16);
  spec.softcap = 50;
  check(spec, shortSteps);
  spec.softcap = 0.5;
  check(spec, shortSteps);
}

TEST(Attention, Sinks) {
  AttentionSpec spec = makeSpec(8, 1, 64, KvType::BF16);
  spec.hasSinks = true;
  spec.window = 128;
  check(spec, raggedSteps);
}

TEST(Attention, AlibiSlopes) {
  AttentionSpec spec = makeSpec(5, 5, 24);
  spec.positions = slopes();
  check(spec, shortSteps);
  spec.numHeads = 10;
  spec.kv = KvType::BF16;
  spec.softcap = 20;
  check(spec, raggedSteps);
}

// Distances inside of the runs that differ, on their edges, and far behind them.
TEST(Attention, Buckets) {
  for (KvType table : {KvType::F32, KvType::BF16, KvType::F16}) {
    AttentionSpec spec = makeSpec(4, 4, 24);
    spec.positions = buckets(table);
    check(spec, raggedSteps);
  }
  AttentionSpec spec = makeSpec(6, 2, 64, KvType::Q8_0);
  spec.positions = buckets();
  spec.hasSinks = true;
  check(spec, {{0, 700}, {300, 333}, {1099, 1}});
  spec.window = 100;
  spec.blockKv = 64;
  check(spec, shortSteps);
  spec.shareKvHeads = false;
  check(spec, shortSteps);
}

TEST(Attention, BucketsOnBothSides) {
  AttentionSpec spec = makeSpec(4, 4, 32);
  spec.causal = false;
  spec.positions = buckets();
  check(spec, {{0, 1}, {0, 17}, {0, 64}, {0, 129}, {0, 600}});
}

TEST(Attention, FewBuckets) {
  AttentionSpec spec = makeSpec(2, 2, 16);
  spec.positions.kind = PositionSpec::Buckets;
  for (const std::vector<int64_t> &starts : {std::vector<int64_t>{}, {0}, {5}, {-3}, {300}, {-1, 8192}}) {
    SCOPED_TRACE(starts.size());
    spec.positions.starts = starts;
    spec.positions.rows = {1, 0, 2};
    spec.positions.rows.resize(starts.size() + 1);
    check(spec, shortSteps);
  }
}

TEST(Attention, PositionsOfEveryTarget) {
  std::vector<std::string> targets = KernelLibrary::runnableTargets();
  llvm::append_range(targets, KernelLibrary::bf16Targets());
  for (const std::string &target : targets)
    for (const PositionSpec &positions : {slopes(), buckets(KvType::BF16)}) {
      SCOPED_TRACE(target + (positions.kind == PositionSpec::Slopes ? ", slopes" : ", buckets"));
      AttentionSpec spec = makeSpec(4, 2, 64, KvType::BF16);
      spec.positions = positions;
      check(spec, {{0, 17}, {63, 2}, {700, 1}}, target);
      spec.products = Products::Bf16;
      check(spec, {{0, 17}, {63, 2}, {500, 20}, {700, 1}}, target, 5e-5);
    }
}

TEST(Attention, PositionsAreAddedToStoredScores) {
  for (const PositionSpec &positions : {slopes(), buckets()}) {
    AttentionSpec spec = makeSpec(4, 2, 32, KvType::BF16);
    spec.positions = positions;
    AttentionKernels attention(spec, "native", {Body::Stored});
    PagedCache cache(spec, lengthsOf(shortSteps), 11);
    std::vector<float> q = queriesOf(spec, shortSteps, 5);
    std::vector<float> out = attention.run(cache, shortSteps, q, 2, Body::Stored);
    EXPECT_LE(nmse(out, attention.reference(cache, shortSteps, q)), 1e-10);
  }
}

TEST(Attention, Bf16Products) {
  std::vector<std::string> targets = KernelLibrary::runnableTargets();
  llvm::append_range(targets, KernelLibrary::bf16Targets());
  for (int64_t headDim : {2, 20, 64, 80, 128})
    for (const std::string &target : targets) {
      SCOPED_TRACE(target + ", " + std::to_string(headDim));
      AttentionSpec spec = makeSpec(6, 2, headDim, KvType::BF16);
      spec.products = Products::Bf16;
      check(spec, raggedSteps, target, 5e-5);
      spec.window = 71;
      spec.hasSinks = true;
      check(spec, shortSteps, target, 5e-5);
    }
}

// Rows beside each other in tiles of 16, in one block of them, in several, and in none that is whole.
TEST(Attention, Bf16ProductsOfEveryTileHeight) {
  const std::vector<StepPart> parts = {{0, 70}, {130, 33}, {511, 2}};
  for (const std::string &target : KernelLibrary::bf16Targets()) {
    AttentionSpec spec = makeSpec(3, 1, 48, KvType::BF16);
    spec.products = Products::Bf16;
    spec.valueHeadDim = 24;
    PagedCache cache(spec, lengthsOf(parts), 3);
    std::vector<float> q = queriesOf(spec, parts, 4),
                       expected = AttentionKernels(spec, target, {Body::Whole}).run(cache, parts, q);
    for (int64_t blockQ : {1, 5, 6, 16, 23}) {
      spec.blockQ = blockQ;
      EXPECT_TRUE(sameBits(expected, AttentionKernels(spec, target, {Body::Whole}).run(cache, parts, q)))
          << target << ", " << blockQ;
    }
  }
}

TEST(Attention, Bf16ProductsRoundWeightsBeforeNormalisation) {
  // With equal scores every weight is 1 before the sum divides it, so nothing is lost by rounding.
  AttentionSpec spec = makeSpec(4, 2, 32, KvType::BF16);
  spec.scale = 0;
  spec.products = Products::Bf16;
  check(spec, shortSteps, "native", 1e-10);
}

TEST(Attention, LargeScores) {
  AttentionSpec spec = makeSpec(4, 2, 64);
  spec.scale = 30;
  check(spec, shortSteps);
}

TEST(Attention, TileSizesLeaveTheSameBits) {
  AttentionSpec spec = makeSpec(6, 2, 48, KvType::BF16);
  const std::vector<StepPart> parts = {{0, 200}, {513, 40}};
  PagedCache cache(spec, lengthsOf(parts), 3);
  std::vector<float> q = queriesOf(spec, parts, 4),
                     expected = AttentionKernels(spec, "native", {Body::Whole}).run(cache, parts, q);
  for (int64_t blockQ : {1, 5, 16, 64}) {
    spec.blockQ = blockQ;
    EXPECT_TRUE(sameBits(expected, AttentionKernels(spec, "native", {Body::Whole}).run(cache, parts, q))) << blockQ;
  }
}

// Other blocks and splits add in another order: other bits, the same function. Whole and split attention still agree to the bit.
TEST(Attention, BlocksAndSplitsOfKeys) {
  AttentionSpec spec = makeSpec(6, 2, 128, KvType::BF16); // values in two runs
  spec.window = 70;
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (auto [blockKv, splitKv] : {std::pair(16, 64), std::pair(32, 128), std::pair(64, 1024)}) {
      SCOPED_TRACE(target + ", " + std::to_string(blockKv) + ", " + std::to_string(splitKv));
      spec.blockKv = blockKv;
      spec.splitKv = splitKv;
      // What the emitter takes: groups of four vectors of scores.
      if (blockKv % (4 * KernelLibrary(target).target().vectorLanes()) == 0)
        check(spec, raggedSteps, target);
    }
}

TEST(Attention, SharingKvHeadsLeavesTheSameBits) {
  AttentionSpec spec = makeSpec(6, 2, 48, KvType::BF16);
  PagedCache cache(spec, lengthsOf(shortSteps), 3);
  std::vector<float> q = queriesOf(spec, shortSteps, 4), shared = AttentionKernels(spec).run(cache, shortSteps, q);
  spec.shareKvHeads = false;
  EXPECT_TRUE(sameBits(shared, AttentionKernels(spec).run(cache, shortSteps, q)));
}

// Without tiles the maximum is known before the first weight: other bits, the same function.
TEST(Attention, StoredScores) {
  AttentionSpec spec = makeSpec(6, 2, 40, KvType::BF16);
  for (const char *variant : {"plain", "window", "sinks", "softcap", "bidirectional", "bf16 products"}) {
    SCOPED_TRACE(variant);
    std::string name = variant;
    spec.window = name == "window" ? 70 : 0;
    spec.hasSinks = name == "sinks";
    spec.softcap = name == "softcap" ? 5 : 0;
    spec.causal = name != "bidirectional";
    spec.products = name == "bf16 products" ? Products::Bf16 : Products::F32;
    const std::vector<StepPart> parts =
        spec.causal ? raggedSteps : std::vector<StepPart>{{0, 1}, {0, 17}, {0, 64}, {0, 600}};
    PagedCache cache(spec, lengthsOf(parts), 3);
    std::vector<float> q = queriesOf(spec, parts, 4);
    for (const std::string &target : KernelLibrary::runnableTargets()) {
      AttentionKernels attention(spec, target, {Body::Stored});
      std::vector<float> out = attention.run(cache, parts, q, 1, Body::Stored);
      EXPECT_LE(nmse(out, attention.reference(cache, parts, q)), spec.products == Products::Bf16 ? 5e-5 : 1e-10)
          << target;
      EXPECT_TRUE(sameBits(out, attention.run(cache, parts, q, 3, Body::Stored))) << target;
    }
  }
}

// Rows [begin, begin + rows) of a sequence whose queries are `q`.
std::vector<float> rowsOf(const std::vector<float> &q, int64_t width, int64_t begin, int64_t rows) {
  return {q.begin() + begin * width, q.begin() + (begin + rows) * width};
}

void checkChunks(int64_t window, Products products, const std::string &target = "native", KvType kv = KvType::BF16,
                 int64_t ofMask = 0) {
  AttentionSpec spec = makeSpec(3, 1, 64, kv);
  spec.window = window;
  spec.hasSinks = window;
  spec.products = products;
  spec.chunk = ofMask;
  AttentionKernels attention(spec, target);
  const int32_t length = 530;
  PagedCache cache(spec, {length}, 21);
  std::vector<float> q = queriesOf(spec, {{0, length}}, 22), whole = attention.run(cache, {{0, length}}, q);
  for (int32_t chunk : {1, 7, 64, 100}) {
    std::vector<float> joined;
    for (int32_t past = 0; past < length; past += chunk) {
      int32_t rows = std::min(chunk, length - past);
      std::vector<float> part =
          attention.run(cache, {{past, rows}}, rowsOf(q, spec.numHeads * spec.headDim, past, rows), 2,
                        past % 3 ? Body::Split : Body::Whole);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(sameBits(whole, joined)) << "chunks of " << chunk << ", window " << window;
  }
}

TEST(Attention, ChunksAndSingleTokensLeaveTheBitsOfOnePrefill) {
  for (int64_t window : {0, 70})
    for (Products products : {Products::F32, Products::Bf16}) {
      checkChunks(window, products);
      checkChunks(window, products, "native", KvType::Q8_0);
      checkChunks(0, products, "native", KvType::BF16, /*ofMask=*/90);
    }
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (KvType kv : {KvType::BF16, KvType::Q8_0})
      checkChunks(70, Products::Bf16, target, kv);
}

TEST(Attention, EveryRunnableTarget) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    check(makeSpec(8, 2, 64, KvType::BF16), raggedSteps, target);
    check(makeSpec(3, 1, 20, KvType::F16), shortSteps, target);
    check(makeSpec(7, 1, 96, KvType::F32), shortSteps, target);
  }
}

TEST(Attention, RejectsImpossibleSpecs) {
  auto messageFor = [](const AttentionSpec &spec) {
    std::string error;
    EXPECT_TRUE(failed(verifyAttention(spec, error)));
    return error;
  };
  EXPECT_EQ(messageFor(makeSpec(8, 3, 64)), "num_heads (8) must be a positive multiple of num_kv_heads (3)");
  EXPECT_EQ(messageFor(makeSpec(8, 2, 2000)), "head_dim (2000, values 2000) must be between 1 and 1024");
  AttentionSpec spec = makeSpec(8, 2, 64);
  spec.softcap = -1;
  EXPECT_EQ(messageFor(spec), "scale must be finite, softcap finite and not negative");
  spec = makeSpec(8, 2, 64);
  spec.window = -4;
  EXPECT_EQ(messageFor(spec), "window (-4) must not be negative, block_q (0) at most 1024");
  spec = makeSpec(8, 2, 64);
  spec.window = spec.chunk = 4;
  EXPECT_EQ(messageFor(spec), "chunk (4) must not be negative, and is of causal attention without a window");
  spec = makeSpec(8, 2, 63, KvType::BF16);
  spec.products = Products::Bf16;
  EXPECT_EQ(messageFor(spec), "bf16 products need a bf16 or q8_0 cache and an even head_dim (63)");
  EXPECT_EQ(
      messageFor(makeSpec(8, 2, 48, KvType::Q8_0)),
      "blocks of 32 columns need pages of keys and values, and a head_dim (48, values 48) that is a multiple of them");
}

} // namespace
