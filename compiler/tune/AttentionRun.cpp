// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/tune/AttentionRun.h"

#include <random>

using namespace heddle;

// AttentionCall (compiler/codegen/kernel/KernelCalls.h) without positions and stored scores, as C++ sees it.
using CacheCall = void(const float *queries, float *out, const heddle_sequence *sequences, int64_t numSequences,
                       int64_t keyOffset, int64_t valueOffset, int64_t queryStride, int64_t outStride,
                       const float *sinks, int32_t thread, int32_t numThreads);

// The same numbers in every run.
static void draw(unsigned seed, llvm::MutableArrayRef<uint8_t> bytes, std::vector<float> &numbers) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float &number : numbers)
    number = normal(generator);
  // 0x30… to 0x3f… are small positive numbers in every stored type.
  for (uint8_t &byte : bytes)
    byte = uint8_t(0x30 | (generator() & 15));
}

AttentionRun::AttentionRun(const AttentionSpec &spec, int32_t past, int32_t rows, int32_t threads, int64_t layers)
    : layers(layers), threads(threads), width(spec.numHeads * spec.headDim) {
  int64_t length = past + rows, pageCount = (length + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  keyBytes = spec.numKvHeads * kvPlaneBytes(spec.kv, spec.headDim);
  int64_t pageBytes = layers * 2 * keyBytes;
  storage = PageMemory(pageCount * pageBytes);
  for (int64_t page = 0; page < pageCount; ++page)
    pages.push_back(storage.data() + page * pageBytes);
  queries.resize(rows * width);
  out.resize(queries.size());
  draw(1, {storage.data(), size_t(pageCount * pageBytes)}, queries);
  sequence = {0, rows, past, 0, pages.data()};
  cachedBytes = 2.0 * double(layers) * double(keyBytes) * double(length) / HEDDLE_KV_PAGE_SIZE;
  flops = 4.0 * double(layers) * double(width) * (double(rows) * past + 0.5 * double(rows) * (rows + 1));
}

Turn AttentionRun::turn(void *kernel) const {
  Turn turn;
  turn.body = [this, call = reinterpret_cast<CacheCall *>(kernel)](int32_t thread) {
    for (int64_t layer = 0; layer < layers; ++layer)
      call(queries.data(), out.data(), &sequence, 1, 2 * layer * keyBytes, (2 * layer + 1) * keyBytes, width, width,
           nullptr, thread, threads);
  };
  return turn;
}
