// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/KvCache.h"
#include "compiler/interpreter/Tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;

void KvCache::beginStep(llvm::ArrayRef<int64_t> rowSequence) {
  forget();
  stepRows.clear();
  for (int64_t sequence : rowSequence) {
    if (sequence >= numSequences())
      sequences.resize(sequence + 1);
    stepRows.push_back({sequence, sequences[sequence].tokens++});
  }
  for (Sequence &sequence : sequences) {
    sequence.planes.resize(2 * cacheType.getNumLayers());
    for (auto [i, plane] : llvm::enumerate(sequence.planes))
      plane.resize((cacheType.isState() ? 1 : sequence.tokens) * width(i % 2));
  }
}

// The next token sees itself and window - 1 others.
void KvCache::forget() {
  if (cacheType.isState())
    return;
  for (Sequence &sequence : sequences)
    for (auto [layer, window] : llvm::enumerate(windows))
      for (bool isValue : {false, true}) {
        std::vector<double> &plane = sequence.planes[2 * layer + isValue];
        int64_t unseen = window ? std::max<int64_t>(0, sequence.tokens - window + 1) : 0;
        std::fill_n(plane.begin(), unseen * width(isValue), std::numeric_limits<double>::quiet_NaN());
      }
}

KvBlock::KvBlock(llvm::ArrayRef<double> values) : codes(values.size()) {
  double largest = 0;
  for (double value : values)
    largest = std::isnan(value) ? value : std::max(largest, std::abs(value));
  scale = double(static_cast<_Float16>(largest / 127));
  for (auto [code, value] : llvm::zip_equal(codes, values))
    code = scale > 0 && std::isfinite(scale) ? std::clamp<int64_t>(std::llrint(value / scale), -127, 127) : 0;
}

void KvCache::store(int64_t layer, bool isValue, Row row, llvm::ArrayRef<double> values) {
  double *out = sequences[row.sequence].planes[2 * layer + isValue].data() + row.position * width(isValue);
  int64_t columns = cacheType.getBlockColumns();
  if (!columns)
    for (auto [i, value] : llvm::enumerate(values))
      out[i] = roundTo(cacheType.getElementType(), {value, 0}).real;
  for (; columns && !values.empty(); values = values.drop_front(columns)) {
    KvBlock block(values.take_front(columns));
    for (int64_t code : block.codes)
      *out++ = double(code) * block.scale;
  }
}

llvm::ArrayRef<double> KvCache::load(int64_t layer, bool isValue, int64_t sequence, int64_t token) const {
  const std::vector<double> &plane = sequences[sequence].planes[2 * layer + isValue];
  return llvm::ArrayRef<double>(plane).slice(token * width(isValue), width(isValue));
}
