// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What machine code products become: which instructions their inner loops hold, and which not.

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/targets/cpu/IntegerMatmul.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/schedule/ScheduleTable.h"
#include "test/execute/KernelLibrary.h"
#include "test/execute/RandomWeights.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <set>

using namespace heddle;
using namespace heddle::test;
using llvm::StringRef;

static std::string emitAssembly(const MatmulSpec &spec, const char *targetName, StringRef format = {}) {
  KernelLibrary library(targetName);
  ScheduleAttr schedule = library.matmulSchedule(/*isInStep=*/true, format, spec.k);
  if (failed(buildMatmul(library.module(), "kernel", spec, schedule, library.target())) ||
      failed(lowerToLLVM(library.module(), library.target())))
    return "";
  auto code = emitMachineCode(library.module(), library.target(), MachineCode::Assembly);
  return failed(code) ? "" : *code;
}

static std::string emitAssembly(TensorType type, const char *targetName,
                                MatmulActivation activation = MatmulActivation::Bf16) {
  return emitAssembly(MatmulSpec{*layoutFor(type), 4096, 4096, activation}, targetName, tensorTypeInfo(type).name);
}

// Of x86-64 or AArch64.
static bool isJump(StringRef code) {
  return code.starts_with("j") || code.starts_with("b.") || code.starts_with("cb") || code.starts_with("tb");
}

// Instructions of each innermost loop: from a label to a jump back to it with no label between.
static std::vector<std::vector<StringRef>> innerLoops(StringRef assembly) {
  std::vector<std::vector<StringRef>> loops;
  std::vector<StringRef> body;
  StringRef label;
  llvm::SmallVector<StringRef> lines;
  assembly.split(lines, '\n');
  for (StringRef line : lines) {
    StringRef code = line.trim();
    if (code.starts_with(".LBB")) {
      label = code.take_until([](char c) { return c == ':'; });
      body.clear();
    } else if (isJump(code) && !label.empty() && code.ends_with(label)) {
      loops.push_back(body);
    } else if (!code.empty() && !code.starts_with("#") && !code.starts_with("//") && !code.starts_with(".")) {
      body.push_back(code);
    }
  }
  return loops;
}

static int countOf(const std::vector<StringRef> &loop, StringRef instruction) {
  return llvm::count_if(loop, [&](StringRef code) {
    code.consume_front("{vex}"); // AVX-VNNI, whose registers end at 15
    return code.ltrim().split('\t').first == instruction;
  });
}

// AT&T syntax: a store's last operand is memory. AArch64: str, stp, stur, st1.
static int countStores(const std::vector<StringRef> &loop) {
  return llvm::count_if(
      loop, [](StringRef code) { return (code.starts_with("vmov") && code.ends_with(")")) || code.starts_with("st"); });
}

static std::set<std::string> tileRegisters(StringRef assembly) {
  std::set<std::string> found;
  for (size_t at = assembly.find("%tmm"); at != StringRef::npos; at = assembly.find("%tmm", at + 1))
    found.insert(assembly.substr(at, 5).str());
  return found;
}

TEST(MatmulCode, Avx512Bf16SumsStayInRegisters) {
  for (TensorType type : {TensorType::BF16, TensorType::Q4_1}) {
    std::string assembly = emitAssembly(type, "znver5");
    EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
    int tallest = 0;
    for (const auto &loop : innerLoops(assembly)) {
      int dots = countOf(loop, "vdpbf16ps");
      tallest = std::max(tallest, dots);
      if (dots) {
        EXPECT_EQ(countStores(loop), 0) << "with " << dots << " products";
      }
    }
    EXPECT_EQ(tallest, 2 * 8 * 3) << "two lines, eight rows, three panels";
  }
}

// The loops over K of a kernel, each of which holds `instruction`, activations in every lane and no products of integers: no sum leaves its register there, whatever it takes
// to unpack the weights. `tallest`: products in a step of the largest tile.
static void expectSumsInRegisters(const MatmulSpec &spec, const char *target, StringRef instruction, int tallest) {
  std::string assembly = emitAssembly(spec, target);
  EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
  int most = 0;
  for (const auto &loop : innerLoops(assembly)) {
    int products = countOf(loop, instruction);
    bool readsActivations =
        llvm::any_of(loop, [](StringRef code) { return code.starts_with("vbroadcastss") && !code.contains("(%rip)"); });
    if (!products || !readsActivations || countOf(loop, "vpmaddwd"))
      continue;
    most = std::max(most, products);
    EXPECT_EQ(countStores(loop), 0) << "with " << products << " products";
  }
  EXPECT_EQ(most, tallest);
}

// Every quantised format by few rows in the form that a model has them in, and gated those of one and of two scales, since what follows a product is one for all
// (the nightly run: all).
static void forEveryFormat(llvm::function_ref<void(TensorType type, MatmulSpec &spec)> body) {
  for (TensorType type : weightTypes())
    for (bool isGated : {false, true}) {
      MatmulSpec spec{*layoutFor(type), 4096, 4096};
      if (!spec.layout.isQuantized() ||
          (isGated && type != TensorType::Q4_0 && type != TensorType::Q4_K && !isNightly()))
        continue;
      SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + (isGated ? ", gated" : ""));
      spec.isGated = isGated;
      spec.epilogue = isGated ? MatmulEpilogue::Silu : MatmulEpilogue::None;
      spec.int16FewRows = true;
      body(type, spec);
    }
}

// Many rows, beside few: rows and panels of a tile by the lines of a step. Gated, panels come in pairs.
TEST(MatmulCode, SumsOfEveryFormatStayInRegisters) {
  forEveryFormat([](TensorType, MatmulSpec &spec) {
    expectSumsInRegisters(spec, "znver2", "vfmadd231ps", spec.isGated ? 2 * 4 * 4 : 6 * 2 * 4);
    spec.hasRounded = true;
    expectSumsInRegisters(spec, "znver5", "vdpbf16ps", 8 * (spec.isGated ? 2 : 3) * 2);
  });
}

// Many rows of words: rows, panels and halves of a panel in a step of one line, or of two where products and sums are two instructions.
TEST(MatmulCode, SumsOfWordsStayInRegisters) {
  const std::tuple<const char *, const char *, std::set<int>> targets[] = {
      {"haswell", "vpmaddwd", {1 * 2 * 2, 2 * 2 * 2, 4 * 2 * 2}},
      {"alderlake", "vpdpwssd", {1 * 2, 2 * 2, 6 * 2}},
      {"icelake-server", "vpdpwssd", {1, 4, 14, 1 * 2, 4 * 2, 14 * 2}}};
  for (const auto &[target, instruction, expected] : targets) {
    SCOPED_TRACE(target);
    forEveryFormat([&](TensorType, MatmulSpec &spec) {
      std::string assembly = emitAssembly(spec, target);
      EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
      std::set<int> products;
      for (const auto &loop : innerLoops(assembly)) {
        int dots = countOf(loop, instruction);
        bool scales = llvm::any_of(loop, [](StringRef code) { return code.starts_with("vcvtdq2ps"); });
        if (!dots || scales) // few rows scale where they add
          continue;
        products.insert(dots);
        EXPECT_EQ(countStores(loop), 0) << "with " << dots << " products";
      }
      // Gated, panels come in pairs.
      std::set<int> those = expected;
      if (spec.isGated && StringRef(target) == "icelake-server")
        those = {1 * 2, 4 * 2, 14 * 2};
      EXPECT_EQ(products, those);
    });
  }
}

TEST(MatmulCode, TilesStayInTheirRegisters) {
  for (TensorType type : {TensorType::BF16, TensorType::Q4_1}) {
    std::string assembly = emitAssembly(type, "sapphirerapids");
    EXPECT_EQ(assembly.find("call"), std::string::npos) << "a call would lose the configuration";
    EXPECT_EQ(tileRegisters(assembly).size(), 8u);
    // Products, tiles of activations, which pass by the weights in the first cache, tiles of weights, lines that are asked for, and lines that are
    // stored: in each of 16 steps those of two of the 32 rows before, into sums, or into `out`, which is asked for.
    // Few rows of weights in place: lines of a panel's step that follows it.
    std::multiset<std::array<int, 5>> steps;
    for (const auto &loop : innerLoops(assembly)) {
      int dots = countOf(loop, "tdpbf16ps");
      if (!dots)
        continue;
      steps.insert({dots, countOf(loop, "tileloaddt1"), countOf(loop, "tileloadd"), countOf(loop, "prefetcht0"),
                    countStores(loop)});
      EXPECT_EQ(countOf(loop, "tilestored"), 0);
      EXPECT_EQ(countOf(loop, "tilezero"), 0);
      EXPECT_EQ(countOf(loop, "ldtilecfg"), 0);
    }
    // Two panels and what is left over, one: the first 32 rows, others in the first columns of K, between, and in the last, then the last rows in two
    // row tiles, and in one.
    std::multiset<std::array<int, 5>> expected = {{4, 2, 2, 0, 0}, {4, 2, 2, 0, 4}, {4, 2, 2, 0, 4}, {4, 2, 2, 4, 4},
                                                  {4, 2, 2, 0, 0}, {2, 1, 2, 0, 0}, {2, 2, 1, 0, 0}, {2, 2, 1, 0, 2},
                                                  {2, 2, 1, 0, 2}, {2, 2, 1, 2, 2}, {2, 2, 1, 0, 0}, {1, 1, 1, 0, 0}};
    if (type == TensorType::BF16)
      expected.insert({{4, 0, 4, 32, 0},
                       {4, 0, 4, 32, 4},
                       {2, 0, 3, 32, 0},
                       {2, 0, 3, 32, 4},
                       {2, 0, 3, 16, 0},
                       {2, 0, 3, 16, 2},
                       {1, 0, 2, 16, 0},
                       {1, 0, 2, 16, 2}});
    EXPECT_EQ(steps, expected);
  }
}

// A gate's result that many rows of are rounded: half of the lines of `out` are asked for, and rows are rounded between steps of the last columns alone.
TEST(MatmulCode, RoundedResultsLeaveTilesAlone) {
  MatmulSpec spec{*layoutFor(TensorType::Q4_1), 4096, 4096};
  spec.int16FewRows = spec.hasRounded = spec.isGated = true;
  spec.epilogue = MatmulEpilogue::Silu;
  spec.roundedAbove = 12;
  std::string assembly = emitAssembly(spec, "sapphirerapids", "q4_1");
  std::multiset<std::array<int, 4>> steps;
  for (const auto &loop : innerLoops(assembly)) {
    int dots = countOf(loop, "tdpbf16ps");
    if (!dots)
      continue;
    auto rounds = llvm::count_if(loop, [](StringRef code) { return code.starts_with("vcvtne"); });
    steps.insert({dots, countOf(loop, "prefetcht0"), countStores(loop), int(rounds)});
  }
  EXPECT_EQ(steps, (std::multiset<std::array<int, 4>>{
                       {4, 0, 0, 0}, {4, 0, 4, 0}, {4, 0, 4, 0}, {4, 2, 2, 2}, {4, 0, 0, 0}, {2, 0, 0, 0}}));
}

TEST(MatmulCode, TilesAreReleased) {
  std::string assembly = emitAssembly(TensorType::BF16, "sapphirerapids");
  size_t release = assembly.find("tilerelease");
  ASSERT_NE(release, std::string::npos);
  EXPECT_EQ(assembly.find("%tmm", release), std::string::npos) << "nothing follows";
}

// Every line of a super-block of Q4_K is asked for, in equal shares of its blocks: 37 lines, 5 in each of 8. On Zen 4 and Golden Cove they go to the
// second cache, and on Zen 4 nobody asks for a plain stream.
TEST(MatmulCode, WeightsAreAskedForAhead) {
  auto countAll = [](StringRef assembly, StringRef instruction) {
    int count = 0;
    for (const auto &loop : innerLoops(assembly))
      count = std::max(count, countOf(loop, instruction));
    return count;
  };
  for (auto [target, type, k, first, second] :
       {std::tuple("znver4", TensorType::Q4_K, 4096, 0, 5), std::tuple("znver4", TensorType::Q4_K, 2048, 0, 1),
        std::tuple("znver5", TensorType::Q4_K, 4096, 5, 0), std::tuple("znver4", TensorType::Q4_0, 4096, 0, 0),
        std::tuple("znver5", TensorType::Q4_0, 4096, 5, 0),
        std::tuple("emeraldrapids", TensorType::Q4_0, 4096, 0, 5)}) {
    SCOPED_TRACE(std::string(target) + ", " + tensorTypeInfo(type).name);
    MatmulSpec spec{*layoutFor(type), 4096, k};
    spec.int16FewRows = true;
    std::string assembly = emitAssembly(spec, target, tensorTypeInfo(type).name);
    EXPECT_EQ(countAll(assembly, "prefetcht0"), first);
    EXPECT_EQ(countAll(assembly, "prefetcht1"), second);
  }
}

// Few rows: the loop over blocks of K holds two products of bytes for each four codes of a row, and nothing leaves the registers.
TEST(MatmulCode, SumsOfInt16StayInRegisters) {
  for (auto [target, type, tallest, isGated] :
       {std::tuple("znver5", TensorType::Q4_0, 8, false), std::tuple("znver5", TensorType::Q8_0, 8, false),
        std::tuple("sapphirerapids", TensorType::Q4_1, 8, false),
        std::tuple("sapphirerapids", TensorType::Q4_0, 8, true),
        std::tuple("sapphirerapids", TensorType::Q8_0, 8, true), std::tuple("x86-64-v3", TensorType::Q4_0, 1, false),
        std::tuple("znver2", TensorType::Q4_0, 1, false), std::tuple("alderlake", TensorType::Q4_0, 2, false),
        std::tuple("alderlake", TensorType::Q8_0, 2, false)}) {
    SCOPED_TRACE(std::string(target) + ", " + tensorTypeInfo(type).name);
    MatmulSpec spec{*layoutFor(type), 4096, 4096};
    spec.int16FewRows = true;
    spec.isGated = isGated;
    spec.epilogue = isGated ? MatmulEpilogue::Silu : MatmulEpilogue::None;
    bool hasWords = StringRef(target) == "x86-64-v3", hasVnni = !hasWords && StringRef(target) != "znver2",
         isAvx2 = !hasVnni || StringRef(target) == "alderlake";
    std::string assembly = emitAssembly(spec, target);
    EXPECT_EQ(assembly.find("call"), std::string::npos) << "a kernel calls nothing";
    std::multiset<int> products;
    for (const auto &loop : innerLoops(assembly)) {
      int dots = countOf(loop, hasVnni ? "vpdpbusd" : "vpmaddubsw");
      if (!dots)
        continue;
      products.insert(dots);
      // Two rows of Q4_0 on 16 registers spill some of the codes that they share, and are faster than one after the other. Beside words LLVM
      // keeps a mask in a register, where it reads it again without them, and a sum of f32 out of it.
      bool spillsCodes = isAvx2 && dots == 64 && type == TensorType::Q4_0;
      EXPECT_LE(countStores(loop), spillsCodes ? 4 : hasWords ? 2 : 0) << "with " << dots << " products";
    }
    // 8 x 4 codes of a block, two products each; an AVX2 vector holds half of a panel.
    std::multiset<int> expected;
    for (int rows = tallest; rows; rows /= 2)
      for (int panel = 0; panel < (isGated ? 2 : 1); ++panel) // one after the other
        expected.insert(rows * 16 * (isAvx2 ? 2 : 1));
    EXPECT_EQ(products, expected);
  }
}

// Both planes of 16 rows: their sums pass through memory once and are scaled into sums that do not. Of a pair of panels and of one.
TEST(MatmulCode, SumsOfInt16TilesStayInRegisters) {
  for (auto [type, expected] : {std::pair(TensorType::Q8_0, 3), std::pair(TensorType::Q4_0, 0)}) {
    MatmulSpec spec{*layoutFor(type), 4096, 4096};
    spec.int16FewRows = true;
    std::string assembly = emitAssembly(spec, "sapphirerapids", tensorTypeInfo(type).name);
    int loops = 0;
    for (const auto &loop : innerLoops(assembly)) {
      if (!countOf(loop, "tdpbsud"))
        continue;
      ++loops;
      EXPECT_EQ(countOf(loop, "tdpbsud"), 2);
      EXPECT_EQ(countOf(loop, "tileloadd"), 3);
      EXPECT_EQ(countOf(loop, "tilestored"), 2);
      EXPECT_EQ(countOf(loop, "ldtilecfg"), 0);
      EXPECT_EQ(countOf(loop, "vpdpbusd"), 0);
      EXPECT_EQ(countStores(loop), 0);
    }
    EXPECT_EQ(loops, expected);
  }
}

// Golden Cove's servers read two panels of bytes for one row side by side, 16 products each, and other rows one panel after the other.
TEST(MatmulCode, OneRowReadsTwoPanelsOfBytes) {
  for (auto [type, ofPairs] : {std::pair(TensorType::Q8_0, 4), std::pair(TensorType::Q4_0, 1)}) {
    MatmulSpec spec{*layoutFor(type), 4096, 4096};
    spec.int16FewRows = true;
    std::string assembly = emitAssembly(spec, "emeraldrapids", tensorTypeInfo(type).name);
    std::multiset<int> products;
    for (const auto &loop : innerLoops(assembly))
      if (int dots = countOf(loop, "vpdpbusd")) {
        products.insert(dots);
        EXPECT_EQ(countStores(loop), 0) << "with " << dots << " products";
      }
    EXPECT_EQ(products.count(2 * 16), size_t(ofPairs)) << "two rows, and one row of two panels";
    EXPECT_EQ(products.count(16), 1u) << "one row of one panel";
  }
}

// A block's sums pass through memory once and are scaled into sums that do not.
TEST(MatmulCode, SumsOfInt8TilesStayInRegisters) {
  for (auto [type, unpacked] : {std::pair(TensorType::Q8_0, 0), std::pair(TensorType::Q4_1, 8)}) {
    std::string assembly = emitAssembly(type, "sapphirerapids", MatmulActivation::Q8);
    EXPECT_EQ(assembly.find("call"), std::string::npos) << "a call would lose the configuration";
    int loops = 0;
    for (const auto &loop : innerLoops(assembly)) {
      if (!countOf(loop, "tdpbsud"))
        continue;
      ++loops;
      EXPECT_EQ(countOf(loop, "tdpbsud"), 1);
      EXPECT_EQ(countOf(loop, "tileloadd"), 2);
      EXPECT_EQ(countOf(loop, "tilestored"), 1);
      EXPECT_EQ(countOf(loop, "ldtilecfg"), 0);
      EXPECT_EQ(countOf(loop, "vpdpbusd"), 0);
      EXPECT_EQ(countStores(loop), unpacked) << "the lines of codes of four bits, and no spill";
    }
    EXPECT_EQ(loops, 1);
    size_t release = assembly.find("tilerelease");
    ASSERT_NE(release, std::string::npos);
    EXPECT_EQ(assembly.find("%tmm", release), std::string::npos) << "nothing follows";
  }
}

//===- AArch64 ------------------------------------------------------------===//

// Products of `instruction` in the innermost loops that hold any, none of which stores or calls anything.
static std::multiset<int> productsOnAArch64(const MatmulSpec &spec, const char *target, StringRef instruction) {
  std::string assembly = emitAssembly(spec, target);
  EXPECT_EQ(assembly.find("\tbl\t"), std::string::npos) << "a kernel calls nothing";
  std::multiset<int> products;
  for (const auto &loop : innerLoops(assembly))
    if (int dots = countOf(loop, instruction)) {
      products.insert(dots);
      EXPECT_EQ(countStores(loop), 0) << "with " << dots << ' ' << instruction.str();
    }
  return products;
}

static MatmulSpec matmulOf(TensorType type, MatmulActivation activation) {
  return MatmulSpec{*layoutFor(type), 4096, 4096, activation};
}

TEST(MatmulCode, NeonBf16SumsStayInRegisters) {
  for (const char *target : {"neoverse-v1", "apple-m2"})
    for (TensorType type : {TensorType::BF16, TensorType::Q4_0}) {
      SCOPED_TRACE(std::string(target) + ", " + tensorTypeInfo(type).name);
      MatmulSpec spec = matmulOf(type, MatmulActivation::Bf16);
      // Many: four columns of K, 16 of W and two rows are 8 instructions, of 4 and of 2 rows.
      EXPECT_EQ(productsOnAArch64(spec, target, "bfmmla"), (std::multiset<int>{8, 16}));
      // Two columns of K, 16 of W and a row are 4, two of each in a step: few rows, two and one, where both halves of bytes have a loop, and
      // of many the last.
      EXPECT_EQ(productsOnAArch64(spec, target, "bfdot"),
                type == TensorType::BF16 ? (std::multiset<int>{8, 8, 16}) : (std::multiset<int>{8, 8, 8, 16, 16}));
    }
}

TEST(MatmulCode, NeonF32SumsStayInRegisters) {
  for (const char *target : {"aarch64", "neoverse-v1", "cortex-a72"})
    productsOnAArch64(matmulOf(TensorType::F32, MatmulActivation::F32), target, "fmla");
}

TEST(MatmulCode, NeonIntegerSumsStayInRegisters) {
  for (auto [target, type, instruction] :
       {std::tuple("aarch64", TensorType::Q4_0, "sdot"), std::tuple("neoverse-n1", TensorType::Q8_0, "sdot"),
        std::tuple("neoverse-v1", TensorType::Q8_0, "usdot"), std::tuple("neoverse-v1", TensorType::Q4_0, "sdot")}) {
    SCOPED_TRACE(std::string(target) + ", " + tensorTypeInfo(type).name);
    MatmulSpec spec = matmulOf(type, MatmulActivation::F32);
    spec.int16FewRows = true;
    EXPECT_EQ(productsOnAArch64(spec, target, instruction), (std::multiset<int>{64}));
    EXPECT_EQ(productsOnAArch64(matmulOf(type, MatmulActivation::Q8), target, instruction),
              (std::multiset<int>{32, 64}));
  }
}

// One line of each panel and a row's four bytes at a time: all sums of a tile, and nothing but them, stay in registers.
TEST(MatmulCode, SumsOfBytesStayInRegisters) {
  for (const auto &[target, instruction, sums] :
       {std::tuple("znver4", "vpdpbusd", std::multiset<int>{1, 2, 4, 8, 14, 28}),
        std::tuple("sapphirerapids", "vpdpbusd", std::multiset<int>{1, 2, 4, 8, 14, 28}),
        std::tuple("alderlake", "vpdpbusd", std::multiset<int>{2, 4, 12}),
        std::tuple("neoverse-v1", "usdot", std::multiset<int>{4, 8})}) {
    SCOPED_TRACE(target);
    KernelLibrary library(target);
    IntegerMatmulSpec spec{*layoutNamed("bytes"), 4096, 4096, true, true};
    ScheduleAttr schedule = integerMatmulSchedule(targetAttr(library.module().getContext(), library.target()));
    buildIntegerMatmul(library.module(), "kernel", spec, schedule, library.target());
    ASSERT_TRUE(succeeded(lowerToLLVM(library.module(), library.target())));
    auto code = emitMachineCode(library.module(), library.target(), MachineCode::Assembly);
    ASSERT_TRUE(succeeded(code));
    std::multiset<int> found;
    for (const auto &loop : innerLoops(*code))
      if (int products = countOf(loop, instruction); products && !countStores(loop))
        found.insert(products);
    EXPECT_EQ(found, sums);
    // On AMX, in the loops over K: 2 x 2 tiles, and of one tile of rows or one panel.
    std::multiset<int> tiles;
    for (const auto &loop : innerLoops(*code))
      if (int products = countOf(loop, "tdpbsud")) {
        EXPECT_EQ(countOf(loop, "tilestored"), 0);
        tiles.insert(products);
      }
    EXPECT_EQ(tiles, StringRef(target) == "sapphirerapids" ? (std::multiset<int>{1, 2, 2, 4}) : std::multiset<int>());
  }
}
