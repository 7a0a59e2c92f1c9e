// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/KvCache.h"
#include "compiler/interpreter/Tensor.h"

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
      plane.resize(sequence.tokens * width(i % 2));
  }
}

// The next token sees itself and window - 1 others.
void KvCache::forget() {
  for (Sequence &sequence : sequences)
    for (auto [layer, window] : llvm::enumerate(windows))
      for (bool isValue : {false, true}) {
        std::vector<double> &plane = sequence.planes[2 * layer + isValue];
        int64_t unseen = window ? std::max<int64_t>(0, sequence.tokens - window + 1) : 0;
        std::fill_n(plane.begin(), unseen * width(isValue), std::numeric_limits<double>::quiet_NaN());
      }
}

void KvCache::store(int64_t layer, bool isValue, Row row, llvm::ArrayRef<double> values) {
  double *out = sequences[row.sequence].planes[2 * layer + isValue].data() + row.position * width(isValue);
  for (auto [i, value] : llvm::enumerate(values))
    out[i] = roundTo(cacheType.getElementType(), {value, 0}).real;
}

llvm::ArrayRef<double> KvCache::load(int64_t layer, bool isValue, int64_t sequence, int64_t token) const {
  const std::vector<double> &plane = sequences[sequence].planes[2 * layer + isValue];
  return llvm::ArrayRef<double>(plane).slice(token * width(isValue), width(isValue));
}
