// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/tune/MatmulRun.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

using namespace heddle;

// MatmulCall (compiler/codegen/kernel/KernelCalls.h) of dense rows, as C++ sees it.
using DenseCall = void(const void *act, const float *scales, const int32_t *sums, const uint8_t *weights,
                       const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                       int64_t panelBegin, int64_t panelEnd, void *scratch);
using ByRowsCall = void(const void *act, const float *scales, const int32_t *sums, const uint8_t *weights,
                        const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                        int64_t panelBegin, int64_t panelEnd, void *scratch, const void *rounded, int64_t roundedStride,
                        int64_t isFixed);

// Lies in huge pages where there are any, as the weights of programs do.
PageMemory::PageMemory(size_t bytes) {
  constexpr size_t page = 2 << 20;
  size_t rounded = llvm::alignTo(std::max<size_t>(bytes, 1), bytes < page ? 4096 : page);
  memory.reset(static_cast<uint8_t *>(std::aligned_alloc(bytes < page ? 4096 : page, rounded)));
  if (!memory)
    llvm::report_bad_alloc_error("memory for a measurement");
  if (bytes >= page)
    (void)madvise(data(), rounded, MADV_HUGEPAGE);
  std::memset(data(), 0, rounded);
}

namespace {
// The same pseudo-random bits in every run.
struct Draw {
  uint32_t bits(int count) { return (state = state * 1664525u + 1013904223u) >> (32 - count); }
  uint32_t state = 1;
};
} // namespace

// Bytes 0x30 to 0x3f: as f32, bf16 and f16 numbers between 1e-10 and 1, as codes and scales of any block small ones.
static void fillWeights(uint8_t *bytes, size_t count) {
  constexpr size_t piece = 1 << 20;
  Draw draw;
  for (size_t i = 0; i < std::min(count, piece); ++i)
    bytes[i] = uint8_t(0x30 | draw.bits(4));
  for (size_t at = piece; at < count; at += piece)
    std::memcpy(bytes + at, bytes, std::min(piece, count - at));
}

static int64_t elementBytes(MatmulActivation activation) {
  return activation == MatmulActivation::Q8 ? 1 : activation == MatmulActivation::Bf16 ? 2 : 4;
}

// Rows that products of blocks read and write, as plan-memory spreads them.
static int64_t spreadStride(int64_t columns, int64_t bytes, int64_t scratchBytes) {
  return scratchBytes && columns * bytes % 1024 == 0 ? columns + 64 / bytes : columns;
}
static int64_t inputStrideOf(int64_t k, int64_t bytes, int64_t scratchBytes) {
  return bytes == 2 ? spreadStride(k, bytes, scratchBytes) : k;
}

MatmulRun::MatmulRun(const MatmulSpec &spec, int64_t maxRows, int32_t threads, int64_t weightBytes)
    : spec(spec), threads(threads) {
  constexpr int64_t most = int64_t(1) << 30, ahead = 64 << 10; // what is fetched ahead may lie behind the last panel
  copyBytes = llvm::alignTo(spec.layout.bytes(spec.n, spec.k), 64);
  copies = std::max<int64_t>(1, std::min<int64_t>(llvm::divideCeil(weightBytes, copyBytes), most / copyBytes));
  weights = PageMemory(copyBytes * copies + ahead);
  fillWeights(weights.data(), copyBytes * copies + ahead);
  activations = PageMemory(maxRows * (spec.k + 32) * elementBytes(spec.activation));
  rounded = PageMemory(spec.hasRounded ? maxRows * (spec.k + 32) * 2 : 1);
  bool isInt8 = spec.activation == MatmulActivation::Q8;
  scales = PageMemory(isInt8 ? maxRows * spec.k / 32 * 4 : 1);
  sums = PageMemory(isInt8 ? maxRows * spec.k / 16 * 4 : 1);
  out = PageMemory(maxRows * (spec.n + 16) * 4);
  // Numbers from 1/2 to 1, whose products are not denormal.
  Draw draw;
  if (isInt8) {
    for (int64_t i = 0; i < maxRows * spec.k; ++i)
      activations.data()[i] = uint8_t(draw.bits(5));
    for (int64_t i = 0; i < maxRows * spec.k / 32; ++i)
      reinterpret_cast<float *>(scales.data())[i] = 0.01f + float(draw.bits(8)) * 1e-5f;
    for (int64_t i = 0; i < maxRows * spec.k / 16; ++i)
      reinterpret_cast<int32_t *>(sums.data())[i] = int32_t(draw.bits(8));
  }
  auto fillPairs = [&](const PageMemory &memory, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<uint16_t *>(memory.data())[i] = uint16_t(0x3f00 | draw.bits(7));
  };
  const int64_t numbers = maxRows * (spec.k + 32);
  if (spec.activation == MatmulActivation::Bf16)
    fillPairs(activations, numbers);
  if (spec.hasRounded)
    fillPairs(rounded, numbers);
  if (spec.activation == MatmulActivation::F32)
    for (int64_t i = 0; i < numbers; ++i)
      reinterpret_cast<float *>(activations.data())[i] = 0.5f + float(draw.bits(20)) * 0x1p-21f;
}

llvm::ArrayRef<float> MatmulRun::result(int64_t rows) const {
  return {reinterpret_cast<const float *>(out.data()), size_t(rows * resultStride)};
}

Turn MatmulRun::turn(void *kernel, int64_t rows, int64_t panels, int64_t scratchBytes) {
  // Turns that were made before find the new memory.
  if (scratchBytes > scratchStride) {
    scratchStride = llvm::alignTo(scratchBytes, 4096);
    scratch = PageMemory(scratchStride * threads);
  }
  const int64_t outStride = resultStride = spreadStride(spec.n, sizeof(float), scratchBytes);
  // Each thread counts its calls for itself, a cache line apart.
  constexpr size_t apart = 8;
  auto calls = std::make_shared<std::vector<int64_t>>(threads * apart);
  Turn turn;
  turn.body = [=](int32_t thread) {
    const uint8_t *matrix = weights.data() + (*calls)[thread * apart]++ % copies * copyBytes;
    void *ofThread = scratchBytes ? scratch.data() + thread * scratchStride : nullptr;
    auto *scalesOf = reinterpret_cast<const float *>(scales.data());
    auto *sumsOf = reinterpret_cast<const int32_t *>(sums.data());
    auto *to = reinterpret_cast<float *>(out.data());
    int64_t stride = inputStrideOf(spec.k, elementBytes(spec.activation), scratchBytes);
    int64_t begin = panels * thread / threads, end = panels * (thread + 1) / threads;
    if (spec.int16FewRows)
      reinterpret_cast<ByRowsCall *>(kernel)(
          activations.data(), nullptr, nullptr, matrix, nullptr, to, rows, stride, outStride, begin, end, ofThread,
          spec.hasRounded ? rounded.data() : nullptr, inputStrideOf(spec.k, 2, scratchBytes), 0);
    else
      reinterpret_cast<DenseCall *>(kernel)(activations.data(), scalesOf, sumsOf, matrix, nullptr, to, rows, stride,
                                            outStride, begin, end, ofThread);
  };
  return turn;
}
