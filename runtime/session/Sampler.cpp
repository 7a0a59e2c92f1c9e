// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Sampler.h"

#include "runtime/session/HostChoice.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace heddle {

Status checkSamplerOptions(const SamplerOptions &options) {
  auto check = [](const char *name, float value, const NumberRange &range) {
    if (range.contains(value))
      return Status();
    return invalidInput(format("%s is %g, expected a number in [%g, %g]", name, value, range.least, range.most));
  };
  HEDDLE_RETURN_IF_ERROR(check("temperature", options.temperature, temperatureRange));
  if (options.topK < 0)
    return invalidInput(format("top_k is %d, expected a number from 0", options.topK));
  HEDDLE_RETURN_IF_ERROR(check("top_p", options.topP, probabilityRange));
  if (options.topP == 0)
    return invalidInput("top_p is 0, which leaves no token, expected a number above it");
  HEDDLE_RETURN_IF_ERROR(check("min_p", options.minP, probabilityRange));
  return check("repetition_penalty", options.repetitionPenalty, penaltyRange);
}

Random::Random(uint64_t seed) {
  for (uint64_t &word : state) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t mixed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    word = mixed ^ mixed >> 31;
  }
}

uint64_t Random::next() {
  auto rotateLeft = [](uint64_t value, int bits) { return value << bits | value >> (64 - bits); };
  uint64_t result = rotateLeft(state[1] * 5, 7) * 9, shifted = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= shifted;
  state[3] = rotateLeft(state[3], 45);
  return result;
}

Sampler::Sampler(const SamplerOptions &options, int64_t vocabSize)
    : options(options), vocabSize(vocabSize), random(options.seed), seen(vocabSize),
      ranks(isGreedy(options) ? 0 : vocabSize) {}

void Sampler::accept(const int32_t *ids, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    accept(ids[i]);
}

float Sampler::penalized(const float *logits, int64_t id) const {
  float logit = logits[id];
  if (options.repetitionPenalty != 1 && seen[id])
    logit = std::clamp(logit > 0 ? logit / options.repetitionPenalty : logit * options.repetitionPenalty, -FLT_MAX,
                       FLT_MAX);
  return logit;
}

static bool isAllowed(const uint32_t *mask, int64_t id) {
  return !mask || (mask[id / 32] >> (id % 32) & 1);
}

int32_t Sampler::best(const float *logits, const uint32_t *mask) const {
  float largest = 0;
  int32_t best = -1;
  for (int64_t id = 0; id < vocabSize; ++id)
    if (float logit = penalized(logits, id); isAllowed(mask, id) && (best < 0 || logit > largest)) {
      largest = logit;
      best = int32_t(id);
    }
  return best;
}

heddle_token_choice Sampler::draw() {
  heddle_token_choice choice = {};
  if (isGreedy(options))
    return choice;
  choice.inverse_temperature = std::clamp(1 / options.temperature, FLT_MIN, FLT_MAX);
  choice.least = options.minP > 0 ? std::min(float(std::log(double(options.minP))), 0.0f) : -FLT_MAX;
  choice.top_k = std::max(options.topK, 0);
  if (options.topP < 1) // the part is at least one of 2^32: something is left
    choice.top_p = uint32_t(std::clamp(std::ceil(double(options.topP) * 0x1p32), 1.0, 0x1p32 - 1));
  choice.random = random.next();
  return choice;
}

int32_t Sampler::sample(const float *logits, const uint32_t *mask) {
  int32_t id = best(logits, mask);
  if (id < 0)
    return id;
  if (heddle_token_choice choice = draw(); choice.inverse_temperature != 0) {
    float top = penalized(logits, id);
    size_t count = 0;
    for (int64_t token = 0; token < vocabSize; ++token)
      if (isAllowed(mask, token))
        ranks[count++] = rankOfToken(penalized(logits, token), top, choice.inverse_temperature, int32_t(token));
    id = chooseByRank(ranks.data(), count, choice);
  }
  accept(id);
  return id;
}

void logSoftmax(const float *logits, int64_t vocabSize, float *out) {
  double top = *std::max_element(logits, logits + vocabSize), sum = 0;
  for (int64_t i = 0; i < vocabSize; ++i)
    sum += std::exp(logits[i] - top);
  double shift = top + std::log(sum);
  for (int64_t i = 0; i < vocabSize; ++i)
    out[i] = float(logits[i] - shift);
}

std::vector<TokenProbability> topTokens(const float *logits, int64_t vocabSize, size_t count) {
  std::vector<float> logProbabilities(vocabSize);
  logSoftmax(logits, vocabSize, logProbabilities.data());
  std::vector<TokenProbability> tokens(vocabSize);
  for (int64_t id = 0; id < vocabSize; ++id)
    tokens[id] = {int32_t(id), logProbabilities[id]};
  count = std::min(count, tokens.size());
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(),
                    [](const TokenProbability &a, const TokenProbability &b) {
                      return a.logProbability != b.logProbability ? a.logProbability > b.logProbability : a.id < b.id;
                    });
  tokens.resize(count);
  return tokens;
}

} // namespace heddle
