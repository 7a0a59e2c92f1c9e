// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/AttentionReference.h"

#include "compiler/codegen/targets/cpu/PageLayout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::test;

static uint16_t bf16Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  uint32_t kept = bits >> 16, lost = bits & 0xffff;
  return uint16_t(kept + (lost > 0x8000 || (lost == 0x8000 && (kept & 1))));
}

static float fromBf16(uint16_t stored) {
  uint32_t bits = uint32_t(stored) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void heddle::test::storeElement(KvType type, float value, uint8_t *to) {
  if (type == KvType::F32) {
    std::memcpy(to, &value, 4);
  } else if (type == KvType::BF16) {
    uint16_t bits = bf16Bits(value);
    std::memcpy(to, &bits, 2);
  } else {
    _Float16 half = static_cast<_Float16>(value);
    std::memcpy(to, &half, 2);
  }
}

float heddle::test::roundToKv(KvType type, float value) {
  if (type == KvType::F32)
    return value;
  return type == KvType::BF16 ? fromBf16(bf16Bits(value)) : float(static_cast<_Float16>(value));
}

heddle::test::Q8Block::Q8Block(const float *values) {
  float largest = 0;
  for (int i = 0; i < 32; ++i)
    largest = std::max(largest, std::abs(values[i]));
  scale = static_cast<_Float16>(largest * float(1.0 / 127));
  float inverse = scale == 0 ? 0 : 1 / float(scale);
  for (int i = 0; i < 32; ++i)
    codes[i] = int8_t(std::clamp(std::nearbyint(values[i] * inverse), -127.0f, 127.0f));
}

std::vector<float> heddle::test::randomFloats(size_t count, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

AttentionSpec heddle::test::makeSpec(int64_t heads, int64_t kvHeads, int64_t headDim, KvType kv, bool causal) {
  AttentionSpec spec;
  spec.numHeads = heads;
  spec.numKvHeads = kvHeads;
  spec.headDim = headDim;
  spec.scale = 1.0 / std::sqrt(double(headDim));
  spec.kv = kv;
  spec.causal = causal;
  return spec;
}

PagedCache::PagedCache(const AttentionSpec &spec, const std::vector<int64_t> &lengths, unsigned seed, PagesOf readers)
    : spec(spec), keyBytes(spec.numKvHeads * kvPlaneBytes(spec.kv, spec.headDim)),
      valueBytes(spec.numKvHeads * kvPlaneBytes(spec.kv, spec.valueDim())) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  int64_t element = kvBytes(spec.kv);
  bool isPaired = readers == PagesOf::Cpu && cpu::hasPairedPages(spec);
  // Codes behind the sequence are those of its last token, which scales that are no numbers spoil but for the partner's.
  auto fillBlocks = [&](std::vector<float> &rows, int64_t dim, bool isValue, int64_t length, size_t sequence) {
    cpu::PlaneOrder order = cpu::planeOrder(isPaired, isValue);
    for (int64_t token = 0; token < int64_t(tables[sequence].size()) * HEDDLE_KV_PAGE_SIZE; ++token)
      for (int64_t at = 0; at < spec.numKvHeads * dim; at += 32) {
        float *values = rows.data() + std::min(token, length - 1) * spec.numKvHeads * dim + at;
        int64_t column = at % dim, slot = token % HEDDLE_KV_PAGE_SIZE;
        uint8_t *plane = tables[sequence][token / HEDDLE_KV_PAGE_SIZE] + (isValue ? valueOffset() : keyOffset()) +
                         at / dim * kvPlaneBytes(spec.kv, dim);
        Q8Block block(values);
        bool isPartner = isValue && token == length && token % 2;
        _Float16 scale = token < length ? block.scale : static_cast<_Float16>(isPartner ? 0 : nan);
        std::memcpy(plane + cpu::scaleOf(order, dim, slot, column / 32), &scale, sizeof scale);
        for (int64_t i = 0; i < 32; ++i) {
          plane[cpu::elementOf(order, dim, slot, column + i)] = uint8_t(block.codes[i]);
          if (token < length)
            values[i] = float(block.codes[i]) * float(block.scale);
        }
      }
  };
  auto fill = [&](std::vector<float> &rows, int64_t dim, bool isValue, int64_t length, size_t sequence) {
    if (spec.kv == KvType::Q8_0)
      return fillBlocks(rows, dim, isValue, length, sequence);
    int64_t offset = isValue ? valueOffset() : keyOffset();
    cpu::PlaneOrder order = cpu::planeOrder(isPaired, isValue);
    for (float &value : rows)
      value = roundToKv(spec.kv, value);
    for (int64_t token = 0; token < int64_t(tables[sequence].size()) * HEDDLE_KV_PAGE_SIZE; ++token)
      for (int64_t head = 0; head < spec.numKvHeads; ++head)
        for (int64_t column = 0; column < dim; ++column) {
          uint8_t *page = tables[sequence][token / HEDDLE_KV_PAGE_SIZE] + offset;
          int64_t place =
              head * HEDDLE_KV_PAGE_SIZE * dim + cpu::elementOf(order, dim, token % HEDDLE_KV_PAGE_SIZE, column);
          bool isPartner = order == cpu::PlaneOrder::TokenPairs && token == length && token % 2;
          float value = token < length ? rows[(token * spec.numKvHeads + head) * dim + column] : isPartner ? 0 : nan;
          storeElement(spec.kv, value, page + place * element);
        }
  };
  for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    size_t pages = (lengths[sequence] + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
    std::vector<uint8_t *> table;
    for (size_t page = 0; page < pages; ++page) {
      storage.emplace_back(pageBytes(), 0xff);
      table.push_back(storage.back().data());
    }
    // The storage vectors own what the table points at, whatever their order.
    std::shuffle(table.begin(), table.end(), std::mt19937(seed + 1));
    tables.push_back(table);
    keys.push_back(randomFloats(lengths[sequence] * spec.numKvHeads * spec.headDim, 1.0f, seed + 2 * sequence));
    size_t valueCount = lengths[sequence] * spec.numKvHeads * spec.valueDim();
    values.push_back(randomFloats(valueCount, 1.0f, seed + 2 * sequence + 1));
    fill(keys.back(), spec.headDim, false, lengths[sequence], sequence);
    fill(values.back(), spec.valueDim(), true, lengths[sequence], sequence);
  }
}

static bool isVisible(const AttentionSpec &spec, int64_t query, int64_t key) {
  if (spec.causal && key > query)
    return false;
  if (spec.window && key <= query - spec.window)
    return false;
  if (spec.chunk && key / spec.chunk != query / spec.chunk)
    return false;
  return !spec.ahead || key < query + spec.ahead;
}

PositionSpec heddle::test::slopes() {
  PositionSpec spec;
  spec.kind = PositionSpec::Slopes;
  return spec;
}

PositionSpec heddle::test::buckets(KvType table) {
  PositionSpec spec;
  spec.kind = PositionSpec::Buckets;
  spec.starts = {-70, -9, -1, 0, 1, 2, 3, 20, 63, 64, 130, 601};
  spec.rows = {3, 0, 7, 2, 6, 1, 5, 4, 8, 1, 3, 0, 2};
  spec.table = table;
  return spec;
}

heddle::test::PositionTable::PositionTable(const AttentionSpec &spec) : spec(spec.positions), numHeads(spec.numHeads) {
  if (this->spec.kind == PositionSpec::Slopes)
    for (int64_t head = 0; head < numHeads; ++head)
      values.push_back(std::exp2(-8.0f * float(head + 1) / float(numHeads)));
  if (this->spec.kind == PositionSpec::Buckets) {
    int64_t rows = 1 + *std::max_element(this->spec.rows.begin(), this->spec.rows.end());
    values = randomFloats(rows * numHeads, 2.0f, 73);
  }
  int64_t element = kvBytes(this->spec.table);
  stored.resize(values.size() * element);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = roundToKv(this->spec.table, values[i]);
    storeElement(this->spec.table, values[i], stored.data() + i * element);
  }
}

double heddle::test::PositionTable::at(int64_t head, int64_t distance) const {
  if (spec.kind == PositionSpec::Slopes)
    return -double(values[head]) * double(distance);
  if (spec.kind == PositionSpec::None || spec.kind == PositionSpec::Tokens)
    return 0;
  auto run = std::count_if(spec.starts.begin(), spec.starts.end(), [&](int64_t start) { return start <= distance; });
  return values[spec.rows[run] * numHeads + head];
}

// Logits of one query over all keys; minus infinity where masked.
static std::vector<double> logits(const AttentionSpec &spec, const PagedCache &cache, size_t sequence, int64_t length,
                                  int64_t position, const float *query, int64_t head, const PositionTable &positions) {
  std::vector<double> scores(length, -INFINITY);
  for (int64_t key = 0; key < length; ++key) {
    if (!isVisible(spec, position, key))
      continue;
    double dot = 0;
    for (int64_t column = 0; column < spec.headDim; ++column)
      dot += double(query[column]) * cache.key(sequence, key, head / spec.group(), column);
    dot *= spec.scale;
    if (spec.softcap != 0)
      dot = spec.softcap * std::tanh(dot / spec.softcap);
    scores[key] = dot + positions.at(head, position - key);
  }
  return scores;
}

std::vector<double> heddle::test::referenceAttention(const AttentionSpec &spec, const PagedCache &cache,
                                                     const std::vector<StepPart> &parts, const std::vector<float> &q,
                                                     const std::vector<float> &sinks, const PositionTable &positions) {
  std::vector<double> out;
  int64_t row = 0;
  for (size_t sequence = 0; sequence < parts.size(); ++sequence)
    for (int32_t token = 0; token < parts[sequence].rows; ++token, ++row)
      for (int64_t head = 0; head < spec.numHeads; ++head) {
        int64_t length = parts[sequence].past + parts[sequence].rows;
        const float *query = q.data() + (row * spec.numHeads + head) * spec.headDim;
        std::vector<double> scores =
            logits(spec, cache, sequence, length, parts[sequence].past + token, query, head, positions);
        double max = *std::max_element(scores.begin(), scores.end());
        double sum = spec.hasSinks ? std::exp(sinks[head] - max) : 0.0;
        std::vector<double> acc(spec.valueDim(), 0.0);
        for (int64_t key = 0; key < length; ++key) {
          double weight = std::exp(scores[key] - max);
          sum += weight;
          for (int64_t column = 0; weight > 0 && column < spec.valueDim(); ++column)
            acc[column] += weight * cache.value(sequence, key, head / spec.group(), column);
        }
        for (double value : acc)
          out.push_back(value / sum);
      }
  return out;
}

double heddle::test::nmse(const std::vector<float> &a, const std::vector<double> &b) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i]))
      return INFINITY;
    error += (a[i] - b[i]) * (a[i] - b[i]);
    energy += b[i] * b[i];
  }
  return error / energy;
}
