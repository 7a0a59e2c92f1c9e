// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of bytes as exact integers, beside their sum in 64 bits: every pair of signs, extremes, shapes that fill no tile and no line.

#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cpu/IntegerMatmul.h"
#include "compiler/schedule/ScheduleTable.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using Kernel = void(const uint8_t *act, const uint8_t *zero, const uint8_t *weights, int32_t *out, int64_t rows,
                    int64_t actStride, int64_t outStride, int64_t panelBegin, int64_t panelEnd);

namespace {

constexpr int32_t canary = -123456789;

struct Product {
  IntegerMatmulSpec spec;
  int64_t rows, actStride, outStride;
  uint8_t zero;
  std::vector<uint8_t> act, codes; // (rows, actStride), (n, k)
  std::vector<uint8_t> zeroPoints; // (n)
  uint8_t *packed = nullptr;
  std::vector<uint8_t> storage;

  // `extreme`: every byte is the smallest or the largest one.
  Product(int64_t rows, int64_t n, int64_t k, bool hasZero, bool isUnsigned, bool extreme)
      : spec{*layoutNamed("bytes"), n, k, hasZero, isUnsigned}, rows(rows), actStride(k + 5), outStride(n + 3),
        act(rows * actStride), codes(n * k), zeroPoints(n) {
    Random random(uint64_t(rows + 31 * n + 977 * k));
    auto byte = [&]() -> uint8_t {
      if (!extreme)
        return uint8_t(random.bits() >> 8);
      bool isLargest = random.bits() >> 31;
      return isUnsigned ? (isLargest ? 255 : 0) : (isLargest ? 127 : 128);
    };
    std::generate(act.begin(), act.end(), byte);
    for (uint8_t &code : codes)
      code = extreme ? (random.bits() >> 31 ? 255 : 0) : uint8_t(random.bits() >> 8);
    for (uint8_t &point : zeroPoints)
      point = extreme ? (random.bits() >> 31 ? 255 : 0) : uint8_t(random.bits() >> 8);
    zero = byte();
    pack();
  }

  int64_t number(uint8_t byte) const { return spec.isUnsigned ? byte : int8_t(byte); }

  // From the formula of compiler/weights/README.md.
  void pack() {
    int64_t panels = (spec.n + 15) / 16, panelBytes = 128 + (spec.k + 3) / 4 * 64;
    ASSERT_EQ(spec.layout.panelBytes(spec.k), panelBytes);
    storage.assign(panels * panelBytes + 64, 0);
    packed = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
    for (int64_t row = 0; row < spec.n; ++row) {
      uint8_t *panel = packed + row / 16 * panelBytes;
      int32_t sum = 0, zeroPoint = zeroPoints[row];
      for (int64_t column = 0; column < spec.k; ++column) {
        uint8_t code = codes[row * spec.k + column];
        sum += code - zeroPoint;
        panel[128 + column / 4 * 64 + row % 16 * 4 + column % 4] = code;
      }
      std::memcpy(panel + row % 16 * 4, &sum, 4);
      std::memcpy(panel + 64 + row % 16 * 4, &zeroPoint, 4);
    }
  }

  int32_t expected(int64_t row, int64_t column) const {
    int64_t sum = 0;
    for (int64_t i = 0; i < spec.k; ++i)
      sum += (number(act[row * actStride + i]) - (spec.hasZero ? number(zero) : 0)) *
             (int64_t(codes[column * spec.k + i]) - zeroPoints[column]);
    return int32_t(sum);
  }

  void expectRight(Kernel *kernel, int64_t threads) const {
    std::vector<int32_t> out((rows + 1) * outStride, canary);
    int64_t panels = (spec.n + 15) / 16;
    for (int64_t thread = 0; thread < threads; ++thread)
      kernel(act.data(), spec.hasZero ? &zero : nullptr, packed, out.data(), rows, actStride, outStride,
             panels * thread / threads, panels * (thread + 1) / threads);
    for (int64_t row = 0; row <= rows; ++row)
      for (int64_t column = 0; column < outStride; ++column)
        ASSERT_EQ(out[row * outStride + column], row < rows && column < spec.n ? expected(row, column) : canary)
            << "row " << row << ", column " << column;
  }
};

ScheduleAttr scheduleOf(KernelLibrary &library) {
  return integerMatmulSchedule(targetAttr(library.module().getContext(), library.target()));
}

TEST(IntegerMatmul, EveryRunnableTarget) {
  struct Shape {
    int64_t n, k;
  };
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (auto [n, k] : {Shape{64, 192}, Shape{83, 70}, Shape{5, 3}, Shape{48, 129}, Shape{16, 64}})
      for (bool isUnsigned : {false, true})
        for (bool hasZero : {false, true}) {
          SCOPED_TRACE(target + " " + std::to_string(n) + " x " + std::to_string(k) + (isUnsigned ? " u8" : " i8") +
                       (hasZero ? " zero" : ""));
          KernelLibrary library(target);
          IntegerMatmulSpec spec{*layoutNamed("bytes"), n, k, hasZero, isUnsigned};
          buildIntegerMatmul(library.module(), "product", spec, scheduleOf(library), library.target());
          ASSERT_TRUE(library.load());
          for (int64_t rows : {0, 1, 2, 3, 7, 14, 33})
            for (bool extreme : {false, true})
              Product(rows, n, k, hasZero, isUnsigned, extreme).expectRight(library.find<Kernel>("product"), 1);
          Product(29, n, k, hasZero, isUnsigned, false).expectRight(library.find<Kernel>("product"), 3);
        }
}

// Sums of the largest products in as many columns as a kernel has room for, and more rows than are copied at once.
TEST(IntegerMatmul, DeepAndTall) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    KernelLibrary library(target);
    for (auto [name, k] : {std::pair("deep", 16384), std::pair("tall", 40)})
      buildIntegerMatmul(library.module(), name, {*layoutNamed("bytes"), 19, k, true, true}, scheduleOf(library),
                         library.target());
    ASSERT_TRUE(library.load());
    Product(17, 19, 16384, true, true, true).expectRight(library.find<Kernel>("deep"), 1);
    Product(1100, 19, 40, true, true, false).expectRight(library.find<Kernel>("tall"), 2);
  }
}

// Rows that fill two tiles, one, and none, beside every part of panels; so deep that 16 rows alone are copied at once.
TEST(IntegerMatmul, Tiles) {
  for (const std::string &target : KernelLibrary::int8TileTargets())
    for (auto [n, k] : {std::pair<int64_t, int64_t>(64, 192), {83, 192}, {19, 8320}})
      for (bool isUnsigned : {false, true}) {
        SCOPED_TRACE(target + " " + std::to_string(n) + " x " + std::to_string(k) + (isUnsigned ? " u8" : " i8"));
        KernelLibrary library(target);
        IntegerMatmulSpec spec{*layoutNamed("bytes"), n, k, true, isUnsigned};
        buildIntegerMatmul(library.module(), "product", spec, scheduleOf(library), library.target());
        ASSERT_TRUE(library.load());
        for (int64_t rows : {1, 15, 16, 31, 32, 67})
          for (bool extreme : {false, true})
            Product(rows, n, k, true, isUnsigned, extreme).expectRight(library.find<Kernel>("product"), 3);
      }
}

} // namespace
