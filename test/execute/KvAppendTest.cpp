// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/AttentionReference.h"
#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/targets/cpu/KvAppend.h"
#include "compiler/codegen/targets/cpu/PageLayout.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::test;

using KvAppend = void(const float *, const float *, int64_t, int64_t, const int32_t *, const int32_t *,
                      const heddle_sequence *, int64_t, int64_t, int64_t, int64_t);

namespace {

// Two sequences whose rows straddle a page; head dims with a tail, of which the odd one has no pairs of columns.
const KvAppendSpec baseSpec = {3, 20, 33, KvType::F32}, oddSpec = {2, 19, 33, KvType::F32};
const int64_t keyOffset = 64, rowCount = 7;
const int32_t rowSequence[rowCount] = {0, 0, 0, 1, 1, 1, 1}, positions[rowCount] = {62, 63, 64, 0, 1, 2, 3};

struct Pages {
  explicit Pages(const KvAppendSpec &spec) {
    keyBytes = spec.numKvHeads * kvPlaneBytes(spec.kv, spec.headDim);
    valueOffset = keyOffset + keyBytes + 64;
    size_t size = valueOffset + spec.numKvHeads * kvPlaneBytes(spec.kv, spec.valueDim()) + 64;
    for (std::vector<uint8_t> &page : bytes)
      page.assign(size, 0xa5);
  }
  // Pages 0 and 1 belong to sequence 0, page 2 to sequence 1.
  uint8_t *plane(const KvAppendSpec &spec, int64_t row, bool isValue, int64_t head) {
    std::vector<uint8_t> &page = bytes[rowSequence[row] ? 2 : positions[row] / HEDDLE_KV_PAGE_SIZE];
    int64_t dim = isValue ? spec.valueDim() : spec.headDim;
    return page.data() + (isValue ? valueOffset : keyOffset) + head * kvPlaneBytes(spec.kv, dim);
  }
  // `ahead` tokens behind that of the row.
  uint8_t *element(const KvAppendSpec &spec, int64_t row, bool isValue, int64_t head, int64_t column,
                   int64_t ahead = 0) {
    int64_t slot = positions[row] % HEDDLE_KV_PAGE_SIZE + ahead, dim = isValue ? spec.valueDim() : spec.headDim;
    cpu::PlaneOrder order = cpu::planeOrder(cpu::hasPairedPages(spec), isValue);
    return plane(spec, row, isValue, head) + cpu::elementOf(order, dim, slot, column) * kvBytes(spec.kv);
  }
  // The head's columns from `begin`, of q8_0.
  void storeBlock(const KvAppendSpec &spec, int64_t row, bool isValue, int64_t head, int64_t begin,
                  const float *values) {
    int64_t slot = positions[row] % HEDDLE_KV_PAGE_SIZE, dim = isValue ? spec.valueDim() : spec.headDim;
    cpu::PlaneOrder order = cpu::planeOrder(cpu::hasPairedPages(spec), isValue);
    Q8Block block(values);
    uint8_t *scales = plane(spec, row, isValue, head);
    std::memcpy(scales + cpu::scaleOf(order, dim, slot, begin / 32), &block.scale, sizeof block.scale);
    for (int64_t i = 0; i < 32; ++i)
      *element(spec, row, isValue, head, begin + i) = uint8_t(block.codes[i]);
    // Row 2 ends its sequence in the first half of a pair. Row 5, in a first half as well, is followed by row 6.
    if (row == 2 && isValue)
      std::memset(scales + cpu::scaleOf(order, dim, slot + 1, begin / 32), 0, sizeof block.scale);
  }
  int64_t keyBytes, valueOffset;
  std::vector<uint8_t> bytes[3];
};

void check(KvType kv, const std::string &target, KvAppendSpec spec = baseSpec) {
  spec.kv = kv;
  KernelLibrary library(target);
  buildKvAppend(library.module(), "kv_append", spec, library.target());
  ASSERT_TRUE(library.load());
  int64_t keyStride = spec.numKvHeads * spec.headDim + 3, valueStride = spec.numKvHeads * spec.valueDim() + 1;
  std::vector<float> key = randomFloats(rowCount * keyStride, 3.0f, 1);
  std::vector<float> value = randomFloats(rowCount * valueStride, 3.0f, 2);
  // Ties to even both ways, a carry into the exponent, signs, what overflows f16, and what is no number.
  uint32_t ties[] = {0x3f808000, 0x3f818000, 0x3fffffff, 0x80000000, 0x7f7fffff};
  std::memcpy(key.data(), ties, sizeof ties);
  key[5] = std::numeric_limits<float>::infinity();
  key[6] = std::numeric_limits<float>::quiet_NaN();

  Pages actual(spec), expected(spec);
  uint8_t *first[] = {actual.bytes[0].data(), actual.bytes[1].data()}, *second[] = {actual.bytes[2].data()};
  heddle_sequence sequences[] = {{0, 3, 62, 0, first}, {3, 4, 0, 0, second}};
  // Two threads' rows; row 6 is left out.
  for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, 6}})
    library.find<KvAppend>("kv_append")(key.data(), value.data(), keyStride, valueStride, rowSequence, positions,
                                        sequences, keyOffset, actual.valueOffset, begin, end);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t head = 0; head < spec.numKvHeads; ++head) {
      for (int64_t column = 0; column < spec.headDim; ++column)
        storeElement(kv, key[row * keyStride + head * spec.headDim + column],
                     expected.element(spec, row, false, head, column));
      for (int64_t column = 0; column < spec.valueDim(); ++column) {
        storeElement(kv, value[row * valueStride + head * spec.valueDim() + column],
                     expected.element(spec, row, true, head, column));
        // Row 2 ends its sequence in the first half of a pair. Row 5, in a first half as well, is followed by row 6.
        if (row == 2 && cpu::hasPairedPages(spec))
          storeElement(kv, 0, expected.element(spec, row, true, head, column, 1));
      }
    }
  for (int page = 0; page < 3; ++page)
    EXPECT_TRUE(actual.bytes[page] == expected.bytes[page]) << "page " << page;
}

// What check() does, of blocks: the largest number first and last, some that are all zero or too small for a scale.
void checkBlocks(const std::string &target) {
  KvAppendSpec spec = {3, 64, 96, KvType::Q8_0};
  KernelLibrary library(target);
  buildKvAppend(library.module(), "kv_append", spec, library.target());
  ASSERT_TRUE(library.load());
  int64_t keyStride = spec.numKvHeads * spec.headDim, valueStride = spec.numKvHeads * spec.valueDim();
  std::vector<float> key = randomFloats(rowCount * keyStride, 3.0f, 1);
  std::vector<float> value = randomFloats(rowCount * valueStride, 3.0f, 2);
  key[0] = 1000;
  key[63] = -1000;
  std::fill_n(key.begin() + 64, 32, 0.0f);
  for (int i = 96; i < 128; ++i)
    key[i] *= 1e-6f; // of a scale with few bits
  for (int i = 128; i < 160; ++i)
    key[i] *= 1e-9f;
  Pages actual(spec), expected(spec);
  uint8_t *first[] = {actual.bytes[0].data(), actual.bytes[1].data()}, *second[] = {actual.bytes[2].data()};
  heddle_sequence sequences[] = {{0, 3, 62, 0, first}, {3, 4, 0, 0, second}};
  for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, 6}})
    library.find<KvAppend>("kv_append")(key.data(), value.data(), keyStride, valueStride, rowSequence, positions,
                                        sequences, keyOffset, actual.valueOffset, begin, end);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t head = 0; head < spec.numKvHeads; ++head)
      for (bool isValue : {false, true}) {
        int64_t dim = isValue ? spec.valueDim() : spec.headDim;
        const float *from = (isValue ? value.data() : key.data()) + (row * spec.numKvHeads + head) * dim;
        for (int64_t column = 0; column < dim; column += 32)
          expected.storeBlock(spec, row, isValue, head, column, from + column);
      }
  for (int page = 0; page < 3; ++page)
    EXPECT_TRUE(actual.bytes[page] == expected.bytes[page]) << "page " << page;
}

TEST(KvAppend, BlocksOfCodes) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    SCOPED_TRACE(target);
    checkBlocks(target);
  }
}

// A number that is none is seen by whoever reads its block.
TEST(KvAppend, NotANumberSpoilsItsBlock) {
  KvAppendSpec spec = {1, 64, 64, KvType::Q8_0};
  KernelLibrary library("native");
  buildKvAppend(library.module(), "kv_append", spec, library.target());
  ASSERT_TRUE(library.load());
  std::vector<float> key = randomFloats(rowCount * 64, 3.0f, 1), value = randomFloats(rowCount * 64, 3.0f, 2);
  key[40] = std::numeric_limits<float>::quiet_NaN();
  value[3] = -std::numeric_limits<float>::infinity();
  Pages pages(spec);
  uint8_t *first[] = {pages.bytes[0].data(), pages.bytes[1].data()};
  heddle_sequence sequence = {0, 3, 62, 0, first};
  library.find<KvAppend>("kv_append")(key.data(), value.data(), 64, 64, rowSequence, positions, &sequence, keyOffset,
                                      pages.valueOffset, 0, 1);
  auto scale = [&](bool isValue, int64_t block) {
    cpu::PlaneOrder order = cpu::planeOrder(true, isValue);
    _Float16 half;
    std::memcpy(&half, pages.plane(spec, 0, isValue, 0) + cpu::scaleOf(order, 64, 62, block), sizeof half);
    return float(half);
  };
  EXPECT_TRUE(std::isfinite(scale(false, 0)));
  EXPECT_TRUE(std::isnan(scale(false, 1)));
  EXPECT_TRUE(std::isinf(scale(true, 0)));
  EXPECT_TRUE(std::isfinite(scale(true, 1)));
}

TEST(KvAppend, F32) {
  check(KvType::F32, "native");
}
TEST(KvAppend, Bf16RoundsToNearestEven) {
  check(KvType::BF16, "native");
}
TEST(KvAppend, F16) {
  check(KvType::F16, "native");
}

TEST(KvAppend, EveryRunnableTarget) {
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (KvType kv : {KvType::F32, KvType::BF16, KvType::F16})
      for (const KvAppendSpec &spec : {baseSpec, oddSpec})
        check(kv, target, spec);
}

} // namespace
