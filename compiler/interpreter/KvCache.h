// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of keys and values as the interpreter holds it: dense per sequence and layer, no pages.
#ifndef HEDDLE_COMPILER_INTERPRETER_KVCACHE_H
#define HEDDLE_COMPILER_INTERPRETER_KVCACHE_H

#include "dialect/HeddleDialect.h"

#include <vector>

namespace heddle {

// The columns of a head that share a scale, in a cache of i8: q8_0 of GGUF, whose scale is max |x| / 127 as f16.
struct KvBlock {
  explicit KvBlock(llvm::ArrayRef<double> values);
  double scale;
  std::vector<int64_t> codes;
};

class KvCache {
public:
  struct Row {
    int64_t sequence;
    int64_t position; // from the start of the sequence
  };

  // `windows`: tokens that each layer goes on seeing, 0: all; empty: all of every layer.
  explicit KvCache(KvCacheType type, llvm::ArrayRef<int64_t> windows = {})
      : cacheType(type), windows(windows.begin(), windows.end()) {}

  // Starts a step of rowSequence.size() tokens: row r belongs to sequence rowSequence[r] (>= 0) and stands behind that
  // sequence's cached tokens and its earlier rows. Tokens of the step before become past; those that fell out of a layer's window
  // are forgotten, NaN: a session may have given their pages away.
  void beginStep(llvm::ArrayRef<int64_t> rowSequence);

  KvCacheType type() const { return cacheType; }
  llvm::ArrayRef<Row> rows() const { return stepRows; }
  int64_t numSequences() const { return sequences.size(); }
  // Cached tokens, those of this step included.
  int64_t tokens(int64_t sequence) const { return sequences[sequence].tokens; }
  int64_t width(bool isValue) const {
    return cacheType.getNumKvHeads() * (isValue ? cacheType.getValueDim() : cacheType.getKeyDim());
  }

  // Keys or values of a token, (num_kv_heads, head_dim), or its latent and its rotary key; rounded to what the cache holds by `store`.
  void store(int64_t layer, bool isValue, Row row, llvm::ArrayRef<double> values);
  llvm::ArrayRef<double> load(int64_t layer, bool isValue, int64_t sequence, int64_t token) const;

  // What the last token of a sequence left, in a cache of states; of a token at position 0 the numbers are no one's.
  llvm::MutableArrayRef<double> state(int64_t layer, int64_t sequence) { return sequences[sequence].planes[2 * layer]; }
  llvm::ArrayRef<double> state(int64_t layer, int64_t sequence) const { return sequences[sequence].planes[2 * layer]; }

private:
  void forget();

  struct Sequence {
    int64_t tokens = 0;
    std::vector<std::vector<double>> planes; // [2 * layer + isValue]: (tokens, num_kv_heads, head_dim); a state
  };
  KvCacheType cacheType;
  std::vector<int64_t> windows;
  std::vector<Sequence> sequences;
  std::vector<Row> stepRows;
};

} // namespace heddle

#endif
