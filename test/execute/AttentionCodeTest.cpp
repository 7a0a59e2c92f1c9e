// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/AttentionReference.h"
#include "test/execute/ForeignProgram.h"
#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/machine/EmitObject.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string emit(const AttentionSpec &spec, const char *targetName, MachineCode kind) {
  KernelLibrary library(targetName);
  buildAttention(library.module(), "attention", library.withRegisters(spec), library.target());
  if (failed(lowerToLLVM(library.module(), library.target())))
    return "";
  auto code = emitMachineCode(library.module(), library.target(), kind);
  return failed(code) ? "" : *code;
}

// What an innermost loop of assembly of x86-64, or AArch64's pair products, does.
struct LoopCounts {
  int products = 0, pairDots = 0, tileProducts = 0, tileStores = 0, maxima = 0, comparisons = 0;
  int vectorLoads = 0, broadcasts = 0, stores = 0;
};

// Innermost loops: from a label to a jump back to it with no label between.
std::vector<LoopCounts> innerLoops(llvm::StringRef assembly) {
  std::vector<LoopCounts> loops;
  llvm::StringRef label;
  LoopCounts counts;
  while (!assembly.empty()) {
    auto [line, rest] = assembly.split('\n');
    assembly = rest;
    llvm::StringRef code = line.trim();
    if (code.starts_with(".LBB")) {
      label = code.take_until([](char c) { return c == ':'; });
      counts = {};
    } else if ((code.starts_with("j") || code.starts_with("b.") || code.starts_with("cb")) && !label.empty() &&
               code.ends_with(label)) {
      loops.push_back(counts);
    } else if (code.starts_with("vfmadd")) {
      ++counts.products;
    } else if (code.starts_with("vdpbf16ps") || code.starts_with("bfdot")) {
      ++counts.pairDots;
    } else if (code.starts_with("str") || code.starts_with("stp")) {
      ++counts.stores;
    } else if (code.starts_with("tdpbf16ps")) {
      ++counts.tileProducts;
    } else if (code.starts_with("tilestore") || code.starts_with("ldtilecfg")) {
      ++counts.tileStores;
    } else if (code.starts_with("vmaxps")) {
      ++counts.maxima;
    } else if (code.starts_with("vpcmp")) {
      ++counts.comparisons;
    } else if (code.starts_with("vbroadcast")) {
      ++counts.broadcasts;
    } else if (code.starts_with("vmov")) {
      ++(code.ends_with(")") ? counts.stores : counts.vectorLoads);
    }
  }
  return loops;
}

void expectFullTiles(const char *target, int rows, int wide) {
  for (KvType kv : {KvType::F32, KvType::BF16, KvType::F16, KvType::Q8_0}) {
    std::string assembly = emit(makeSpec(4, 2, 128, kv), target, MachineCode::Assembly);
    ASSERT_FALSE(assembly.empty());
    EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
    int tiles = 0;
    for (LoopCounts loop : innerLoops(assembly)) {
      // An element of each row in all lanes: no other loop has as many.
      if (loop.products != rows * wide || loop.broadcasts != rows)
        continue;
      ++tiles;
      EXPECT_EQ(loop.stores, 0);
      EXPECT_EQ(loop.vectorLoads, wide);
    }
    EXPECT_EQ(tiles, 2) << "one for the scores, one for the values";
  }
}

TEST(AttentionCode, Avx512TilesStayInRegisters) {
  expectFullTiles("x86-64-v4", 6, 4);
}
TEST(AttentionCode, Avx2TilesStayInRegisters) {
  expectFullTiles("x86-64-v3", 6, 2);
}

TEST(AttentionCode, Bf16ProductsUseThePairDot) {
  AttentionSpec spec = makeSpec(4, 2, 128, KvType::BF16);
  spec.products = Products::Bf16;
  for (const char *target : {"znver5", "neoverse-v1"}) {
    std::string assembly = emit(spec, target, MachineCode::Assembly);
    int tiles = 0;
    for (LoopCounts loop : innerLoops(assembly)) {
      EXPECT_TRUE(loop.pairDots == 0 || loop.stores == 0) << target;
      tiles += loop.pairDots == 6 * 4;
    }
    EXPECT_EQ(tiles, 2) << target << ": one for the scores, one for the values";
  }
  EXPECT_NE(emit(spec, "x86-64-v4", MachineCode::Object), "") << "emulated elsewhere";
}

// Tiles of sums stay in registers while head_dim goes by, and from one half of a page's keys to the other.
TEST(AttentionCode, Bf16ProductsUseTheTileUnit) {
  AttentionSpec spec = makeSpec(32, 2, 256, KvType::BF16);
  spec.products = Products::Bf16;
  std::string assembly = emit(spec, "sapphirerapids", MachineCode::Assembly);
  ASSERT_FALSE(assembly.empty());
  EXPECT_EQ(llvm::StringRef(assembly).count("ldtilecfg"), 1u) << "shapes are the same for the whole call";
  EXPECT_EQ(llvm::StringRef(assembly).count("tilerelease"), 1u);
  EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
  int loops = 0, overHeadDim = 0;
  for (LoopCounts loop : innerLoops(assembly)) {
    if (!loop.tileProducts)
      continue;
    EXPECT_EQ(loop.stores, 0);
    EXPECT_EQ(loop.pairDots, 0);
    if (loop.tileStores)
      EXPECT_EQ(loop.tileProducts, 2 * loop.tileStores) << "both halves of the keys are added before sums are stored";
    ++loops;
    overHeadDim += !loop.tileStores;
  }
  EXPECT_EQ(loops, 4) << "scores and values of one and of two tiles of rows";
  EXPECT_GE(overHeadDim, 2);
}

// Scores of a page that every row sees are compared with no position.
TEST(AttentionCode, WholePagesAreNotMasked) {
  for (int64_t window : {0, 1000}) {
    AttentionSpec spec = makeSpec(4, 2, 64, KvType::BF16);
    spec.window = window;
    int softmaxes = 0, masks = 0;
    for (LoopCounts loop : innerLoops(emit(spec, "x86-64-v4", MachineCode::Assembly))) {
      softmaxes += loop.maxima > 0;
      masks += loop.comparisons > 0;
      EXPECT_TRUE(loop.maxima == 0 || loop.comparisons == 0) << "window " << window;
    }
    EXPECT_GT(softmaxes, 0);
    EXPECT_GT(masks, 0);
  }
}

TEST(AttentionCode, IsReproducible) {
  AttentionSpec spec = makeSpec(4, 2, 64, KvType::BF16);
  EXPECT_EQ(emit(spec, "znver5", MachineCode::Object), emit(spec, "znver5", MachineCode::Object));
}

void append(std::string &to, const void *data, size_t bytes) {
  to.append(static_cast<const char *>(data), bytes);
}

// The driver's input; see attention-driver.c.
std::string driverInput(const AttentionSpec &spec, const PagedCache &cache, const std::vector<StepPart> &parts,
                        const std::vector<float> &q, int64_t rows) {
  std::string bytes, table;
  int64_t width = spec.numHeads * spec.valueDim(), row = 0, pages = 0;
  std::string contents;
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t count = (parts[i].past + parts[i].rows + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
    int64_t entry[] = {row, parts[i].rows, parts[i].past, count};
    append(table, entry, sizeof entry);
    for (int64_t page = 0; page < count; ++page)
      append(contents, cache.pages(i)[page], cache.pageBytes());
    row += parts[i].rows;
    pages += count;
  }
  int64_t header[] = {int64_t(q.size()), rows * width,      int64_t(parts.size()), pages,
                      cache.pageBytes(), cache.keyOffset(), cache.valueOffset(),   width};
  append(bytes, header, sizeof header);
  bytes += table;
  append(bytes, q.data(), q.size() * sizeof(float));
  return bytes + contents;
}

void checkOnAArch64(const AttentionSpec &spec, const char *target = "aarch64", double limit = 1e-10) {
  const std::vector<StepPart> parts = {{0, 70}, {500, 20}, {63, 1}};
  const int64_t rows = 91;
  PagedCache cache(spec, {70, 520, 64}, 9);
  std::vector<float> q = randomFloats(rows * spec.numHeads * spec.headDim, 1.0f, 10);
  std::optional<std::string> out =
      runOnAArch64(HEDDLE_SOURCE_DIR "/test/execute/attention-driver.c", HEDDLE_SOURCE_DIR,
                   emit(spec, target, MachineCode::Object), driverInput(spec, cache, parts, q, rows));
  ASSERT_TRUE(out);
  std::vector<float> actual(out->size() / sizeof(float));
  std::memcpy(actual.data(), out->data(), actual.size() * sizeof(float));
  std::vector<double> expected = referenceAttention(spec, cache, parts, q, {}, PositionTable(spec));
  ASSERT_EQ(actual.size(), expected.size());
  EXPECT_LE(nmse(actual, expected), limit) << target;
}

TEST(AttentionCode, RunsOnAArch64) {
  if (std::string missing = missingForAArch64(); !missing.empty())
    GTEST_SKIP() << "needs " << missing;
  checkOnAArch64(makeSpec(4, 2, 64, KvType::BF16));
  checkOnAArch64(makeSpec(4, 2, 20, KvType::F16));
  checkOnAArch64(makeSpec(4, 2, 64, KvType::Q8_0));
  AttentionSpec spec = makeSpec(4, 2, 37, KvType::F32);
  spec.window = 70;
  spec.softcap = 20;
  checkOnAArch64(spec);
  for (KvType kv : {KvType::BF16, KvType::Q8_0}) {
    AttentionSpec inPairs = makeSpec(4, 2, 64, kv);
    inPairs.products = Products::Bf16;
    checkOnAArch64(inPairs, "neoverse-v1", 5e-5);
  }
}

} // namespace
