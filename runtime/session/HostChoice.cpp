// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/HostChoice.h"

#include "runtime/session/StepRun.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

float scaledLogitOf(uint64_t rank) {
  uint32_t bits = uint32_t(rank >> 32) | 0x80000000u;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

uint64_t weightOf(uint64_t rank) {
  return heddle_token_weight(scaledLogitOf(rank));
}

// How many of the first `count` hold `part` of their weight: the smallest number whose sum reaches it. A few are enough nearly always: the
// vocabulary is not sorted as a whole.
size_t keepTopP(uint64_t *ranks, size_t count, uint32_t part) {
  uint64_t total = 0, reached = 0;
  for (size_t i = 0; i < count; ++i)
    total += weightOf(ranks[i]);
  uint64_t needed = heddle_part_of_weights(total, part);
  size_t sorted = 0;
  for (size_t kept = 0; kept < count; ++kept) {
    if (kept == sorted) {
      size_t next = std::min(count, std::max<size_t>(64, 4 * sorted));
      if (next < count)
        std::nth_element(ranks + sorted, ranks + next, ranks + count);
      std::sort(ranks + sorted, ranks + next);
      sorted = next;
    }
    reached += weightOf(ranks[kept]);
    if (reached >= needed)
      return kept + 1;
  }
  return count;
}

} // namespace

uint64_t rankOfToken(float logit, float top, float inverseTemperature, int32_t id) {
  float x = heddle_scaled_logit(logit, top, inverseTemperature);
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return heddle_token_rank(bits, uint32_t(id));
}

int32_t chooseByRank(uint64_t *ranks, size_t count, const heddle_token_choice &choice) {
  size_t kept = count;
  if (choice.top_k > 0 && size_t(choice.top_k) < kept) {
    kept = size_t(choice.top_k);
    std::nth_element(ranks, ranks + kept, ranks + count);
  }
  if (choice.top_p)
    kept = keepTopP(ranks, kept, choice.top_p);
  if (kept < count || choice.top_p)
    std::sort(ranks, ranks + kept, [](uint64_t a, uint64_t b) { return uint32_t(a) < uint32_t(b); });
  auto weight = [&](size_t i) { return scaledLogitOf(ranks[i]) < choice.least ? 0 : weightOf(ranks[i]); };
  uint64_t total = 0, sum = 0;
  for (size_t i = 0; i < kept; ++i)
    total += weight(i);
  uint64_t above = heddle_random_weight(total, choice.random);
  size_t chosen = 0;
  for (; chosen + 1 < kept; ++chosen)
    if (sum += weight(chosen); sum > above)
      break;
  return int32_t(uint32_t(ranks[chosen]));
}

int32_t chooseToken(const float *logits, int64_t vocabSize, const heddle_token_choice &choice, uint64_t *ranks) {
  int32_t best = indexOfLargest(logits, vocabSize);
  if (choice.inverse_temperature == 0)
    return best;
  for (int64_t id = 0; id < vocabSize; ++id)
    ranks[id] = rankOfToken(logits[id], logits[best], choice.inverse_temperature, int32_t(id));
  return chooseByRank(ranks, size_t(vocabSize), choice);
}

} // namespace heddle
