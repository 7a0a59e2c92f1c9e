// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Picks the next token from logits, in the order of Hugging Face's processors: repetition penalty, temperature, top-k, top-p, min-p.
// The same seed gives the same tokens on every machine that gives the same logits.
#ifndef HEDDLE_RUNTIME_SESSION_SAMPLER_H
#define HEDDLE_RUNTIME_SESSION_SAMPLER_H

#include "bytes/Status.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

struct SamplerOptions {
  float temperature = 0;       // 0: the largest logit
  int32_t topK = 0;            // 0: off
  float topP = 1;              // 1: off
  float minP = 0;              // 0: off
  float repetitionPenalty = 1; // 1: off
  uint64_t seed = 0;
};

// What callers may ask for, both ends included; no NaN. The sampler itself takes any values.
struct NumberRange {
  double least, most;
  bool contains(double value) const { return value >= least && value <= most; }
};
constexpr NumberRange temperatureRange = {0, 1000}, probabilityRange = {0, 1}, penaltyRange = {1e-3, 1000};
// Names the first value out of range. top_p 0 would leave no token and is out of it.
Status checkSamplerOptions(const SamplerOptions &options);

// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64.
class Random {
public:
  explicit Random(uint64_t seed);
  uint64_t next();
  double uniform() { return double(next() >> 11) * 0x1p-53; } // [0, 1)

private:
  uint64_t state[4];
};

struct TokenProbability {
  int32_t id;
  float logProbability;
};

class Sampler {
public:
  Sampler(const SamplerOptions &options, int64_t vocabSize);

  // Tokens of the context, which the repetition penalty is about.
  void accept(int32_t id) { seen[id] = 1; }
  void accept(const int32_t *ids, int64_t count);
  // Whether sample() without a mask picks the largest logit, of equal ones the first.
  bool picksLargest() const { return isGreedy(options) && options.repetitionPenalty == 1; }
  // Picks from (vocab_size) logits and accepts the choice. Allocates nothing. `mask`, where it is not null, has a bit for each token,
  // bit i % 32 of word i / 32, set where it may be picked; -1 if it allows none.
  int32_t sample(const float *logits, const uint32_t *mask = nullptr);

private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  // Larger logits first; of equal ones the smaller id, as argmax does.
  static bool precedes(const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }

  // Of NaN too, which is above nothing.
  static bool isGreedy(const SamplerOptions &options) { return !(options.temperature > 0) || options.topK == 1; }
  float penalized(const float *logits, int64_t id) const;
  int32_t best(const float *logits, const uint32_t *mask) const;
  void setCandidates(const float *logits, const uint32_t *mask, double top);
  void sortFirst(size_t count);
  size_t keepTopP(size_t count);

  const SamplerOptions options;
  const int64_t vocabSize;
  Random random;
  std::vector<uint8_t> seen; // (vocab_size)
  std::vector<Candidate>
      candidates; // room for vocab_size, none where greedy: `numCandidates`, of which the first `sorted` are in order
  size_t numCandidates = 0, sorted = 0;
};

// Words of a mask of so many tokens.
inline int64_t maskWords(int64_t vocabSize) {
  return (vocabSize + 31) / 32;
}

// (vocab_size) natural logarithms of softmax(logits), in f64 inside.
void logSoftmax(const float *logits, int64_t vocabSize, float *out);

// The `count` most probable tokens, best first.
std::vector<TokenProbability> topTokens(const float *logits, int64_t vocabSize, size_t count);

} // namespace heddle

#endif
