// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A paged cache with known contents, and attention over it in plain loops.
#ifndef HEDDLE_TEST_EXECUTE_ATTENTIONREFERENCE_H
#define HEDDLE_TEST_EXECUTE_ATTENTIONREFERENCE_H

#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "runtime/model/ModelAbi.h"

#include <random>
#include <vector>

namespace heddle::test {

// A value after a round trip through the stored type, and its stored bits; round to nearest even.
float roundToKv(KvType type, float value);
void storeElement(KvType type, float value, uint8_t *to);
// 32 columns of a head in a q8_0 cache: scale = max |x| / 127 as f16, codes = x / scale to the nearest.
struct Q8Block {
  explicit Q8Block(const float *values);
  _Float16 scale;
  int8_t codes[32];
};

enum class PagesOf { Cpu, Device };

// Keys and values of `lengths.size()` sequences in pages, stored between canaries. Slots behind a sequence's end hold
// NaN, but for what `kv_append` clears, and pages lie in memory in no order.
class PagedCache {
public:
  PagedCache(const AttentionSpec &spec, const std::vector<int64_t> &lengths, unsigned seed,
             PagesOf readers = PagesOf::Cpu);

  uint8_t *const *pages(size_t sequence) const { return tables[sequence].data(); }
  int64_t keyOffset() const { return 256; }
  int64_t valueOffset() const { return keyOffset() + keyBytes + 64; }
  int64_t pageBytes() const { return valueOffset() + valueBytes + 64; }
  // Rounded to the stored type.
  float key(size_t sequence, int64_t token, int64_t head, int64_t column) const {
    return keys[sequence][(token * spec.numKvHeads + head) * spec.headDim + column];
  }
  float value(size_t sequence, int64_t token, int64_t head, int64_t column) const {
    return values[sequence][(token * spec.numKvHeads + head) * spec.valueDim() + column];
  }

private:
  const AttentionSpec spec;
  int64_t keyBytes, valueBytes;
  std::vector<std::vector<uint8_t>> storage;
  std::vector<std::vector<uint8_t *>> tables;
  std::vector<std::vector<float>> keys, values;
};

// Scaled by 1 / sqrt(headDim).
AttentionSpec makeSpec(int64_t heads, int64_t kvHeads, int64_t headDim, KvType kv = KvType::F32, bool causal = true);
// Over f32 tensors instead of a cache.
inline AttentionSpec denseSpec(int64_t heads, int64_t kvHeads, int64_t headDim, bool causal = false) {
  return makeSpec(heads, kvHeads, headDim, KvType::F32, causal);
}

// The tokens of one sequence in a step.
struct StepPart {
  int32_t past;
  int32_t rows;
};

// What scores get for a distance, as a kernel reads it: slopes, or random rows of buckets of the type that `spec` says.
class PositionTable {
public:
  explicit PositionTable(const AttentionSpec &spec);
  const void *data() const { return stored.data(); }
  // 0 where the spec has none, or tokens give it.
  double at(int64_t head, int64_t distance) const;

private:
  const PositionSpec spec;
  const int64_t numHeads;
  std::vector<float> values; // after a round trip through the stored type
  std::vector<uint8_t> stored;
};
PositionSpec slopes();
// Runs on both sides of a query, some of one distance and some of pages, that read rows in no order.
PositionSpec buckets(KvType table = KvType::F32);

// softmax(scale * q kᵀ + mask + positions) v in double precision: (rows, numHeads * valueDim).
std::vector<double> referenceAttention(const AttentionSpec &spec, const PagedCache &cache,
                                       const std::vector<StepPart> &parts, const std::vector<float> &q,
                                       const std::vector<float> &sinks, const PositionTable &positions);

std::vector<float> randomFloats(size_t count, float deviation, unsigned seed);

// Σ (a - b)² / Σ b²; infinite where a is not finite.
double nmse(const std::vector<float> &a, const std::vector<double> &b);

} // namespace heddle::test

#endif
