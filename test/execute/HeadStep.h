// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step of rows of heads, and what is left of it by loops over what the pages hold: rotated queries, and rotated keys and values in the cache.
#ifndef HEDDLE_TEST_EXECUTE_HEADSTEP_H
#define HEDDLE_TEST_EXECUTE_HEADSTEP_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "runtime/model/ModelAbi.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuKernel.h"

#include <cmath>
#include <cstring>

namespace heddle::test {

inline RotateAppendSpec rotateAppendSpec(int64_t headDim, int64_t rotaryDim, int64_t offset = 0,
                                         bool isInterleaved = false, KvType kv = KvType::BF16) {
  RotateAppendSpec spec;
  spec.numHeads = 4;
  spec.numKvHeads = 2;
  spec.headDim = headDim;
  spec.kv = kv;
  spec.rotaryDim = rotaryDim;
  spec.offset = offset;
  spec.isInterleaved = isInterleaved;
  return spec;
}

struct HeadStep {
  static constexpr int64_t tokens = HEDDLE_KV_PAGE_SIZE, context = 96, numPages = 4, numRows = 5;
  // Two sequences, of which the first crosses a page; their pages lie in no order. Angles are of other places than slots.
  const int32_t rowSequence[numRows] = {0, 0, 0, 1, 1}, cachePositions[numRows] = {62, 63, 64, 0, 1};
  const int32_t positions[numRows] = {70, 71, 72, 3, 4};
  const int32_t pagesPerSequence = 2, pageTable[4] = {3, 1, 0, 2};

  explicit HeadStep(const RotateAppendSpec &spec)
      : kvBytes(spec.kv == KvType::F32 ? 4 : 2), keyOffset(64),
        valueOffset(keyOffset + spec.numKvHeads * tokens * spec.headDim * kvBytes + 32),
        pageStride(2 * (valueOffset - keyOffset) + keyOffset), inputStride(spec.width() + 6),
        outStride(spec.numHeads * spec.headDim + 2) {
    input = randomFloats(numRows * inputStride, 1.0f, 1);
    table = randomFloats(context * spec.rotaryDim, 1.0f, 2);
    queryNorm = randomFloats(spec.headDim, 1.0f, 3);
    keyNorm = randomFloats(spec.headDim, 1.0f, 4);
    out.assign((numRows + 2) * outStride, canary);
    pages.assign(numPages * pageStride, 0xa5);
    counters.assign(HEDDLE_DEVICE_COUNTERS, 0);
  }

  // What kernels read and write of it.
  void allow(ptx::Memory &memory) {
    using Access = ptx::Memory::Access;
    for (const std::vector<float> *numbers : {&input, &table, &queryNorm, &keyNorm})
      memory.allow(numbers->data(), numbers->size() * 4, Access::Read);
    for (const int32_t *numbers : {rowSequence, cachePositions, positions})
      memory.allow(numbers, numRows * 4, Access::Read);
    memory.allow(pageTable, sizeof pageTable, Access::Read);
    memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
    memory.allow(pages.data(), pages.size(), Access::ReadWrite);
    memory.allow(counters.data(), counters.size() * 4, Access::ReadWrite);
  }

  int64_t kvBytes, keyOffset, valueOffset, pageStride, inputStride, outStride;
  std::vector<float> input, table, queryNorm, keyNorm, out; // out: a row of canaries, the rows, another one
  std::vector<uint8_t> pages;
  std::vector<uint32_t> counters;
};

// A head of a row, normalised and rotated.
inline std::vector<float> rotatedHead(const RotateAppendSpec &spec, const HeadStep &step, int64_t row, int64_t head) {
  const float *given = &step.input[row * step.inputStride + head * spec.headDim];
  std::vector<float> x(given, given + spec.headDim);
  if (spec.heads.hasNorm) {
    double squares = 0;
    for (float value : x)
      squares += double(value) * value;
    const std::vector<float> &weight = head < spec.numHeads ? step.queryNorm : step.keyNorm;
    for (int64_t i = 0; i < spec.headDim; ++i)
      x[i] = float(x[i] / std::sqrt(squares / double(spec.headDim) + spec.heads.eps) *
                   (weight[i] + spec.heads.weightOffset));
  }
  std::vector<float> result = x;
  int64_t half = spec.rotaryDim / 2;
  const float *angles = &step.table[step.positions[row] * spec.rotaryDim];
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = spec.offset + (spec.isInterleaved ? 2 * i : i), second = first + (spec.isInterleaved ? 1 : half);
    result[first] = x[first] * angles[i] - x[second] * angles[half + i];
    result[second] = x[second] * angles[i] + x[first] * angles[half + i];
  }
  return result;
}

// What a kernel should leave of the first `rows` rows.
inline void fillHeads(const RotateAppendSpec &spec, HeadStep &step, int64_t rows = HeadStep::numRows) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < spec.numAllHeads(); ++head) {
      int64_t kvHead = (head - spec.numHeads) % spec.numKvHeads;
      bool isQuery = head < spec.numHeads, isValue = head >= spec.numHeads + spec.numKvHeads;
      const float *given = &step.input[row * step.inputStride + head * spec.headDim];
      std::vector<float> numbers =
          isValue ? std::vector<float>(given, given + spec.headDim) : rotatedHead(spec, step, row, head);
      if (isQuery) {
        std::copy(numbers.begin(), numbers.end(), &step.out[(row + 1) * step.outStride + head * spec.headDim]);
        continue;
      }
      int64_t position = step.cachePositions[row];
      int64_t page =
          step.pageTable[int64_t(step.rowSequence[row]) * step.pagesPerSequence + position / HeadStep::tokens];
      uint8_t *to =
          &step.pages[page * step.pageStride + (isValue ? step.valueOffset : step.keyOffset) +
                      (kvHead * HeadStep::tokens + position % HeadStep::tokens) * spec.headDim * step.kvBytes];
      for (int64_t d = 0; d < spec.headDim; ++d) {
        uint16_t bits = bf16BitsOf(numbers[d]);
        _Float16 half = _Float16(numbers[d]);
        if (spec.kv == KvType::F16)
          std::memcpy(&bits, &half, sizeof bits);
        std::memcpy(to + d * step.kvBytes, step.kvBytes == 2 ? static_cast<void *>(&bits) : &numbers[d], step.kvBytes);
      }
    }
}

} // namespace heddle::test

#endif
