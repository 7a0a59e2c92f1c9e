// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Picks the next token from logits, in the order of Hugging Face's processors: repetition penalty, temperature, top-k, top-p, min-p.
// The same seed gives the same tokens on every machine that gives the same logits, and where a device chooses: the rule is that of
// runtime/device/TokenChoice.h.
#ifndef HEDDLE_RUNTIME_SESSION_SAMPLER_H
#define HEDDLE_RUNTIME_SESSION_SAMPLER_H

#include "bytes/Status.h"
#include "runtime/device/TokenChoice.h"

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
  // Whether what was accepted changes nothing: a token without a mask is then what draw() chooses.
  bool choosesFromLogits() const { return options.repetitionPenalty == 1; }
  // How the next token is chosen. sample() draws too: a token takes one of the two.
  heddle_token_choice draw();
  // Picks from (vocab_size) logits and accepts the choice. Allocates nothing. `mask`, where it is not null, has a bit for each token,
  // bit i % 32 of word i / 32, set where it may be picked; -1 if it allows none.
  int32_t sample(const float *logits, const uint32_t *mask = nullptr);

private:
  // Of NaN too, which is above nothing.
  static bool isGreedy(const SamplerOptions &options) { return !(options.temperature > 0) || options.topK == 1; }
  float penalized(const float *logits, int64_t id) const;
  int32_t best(const float *logits, const uint32_t *mask) const;

  const SamplerOptions options;
  const int64_t vocabSize;
  Random random;
  std::vector<uint8_t> seen;   // (vocab_size)
  std::vector<uint64_t> ranks; // room for vocab_size, none where greedy
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
