// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/TimestampRules.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

// Tokens [begin, end) may not follow.
void forbid(uint32_t *mask, int64_t begin, int64_t end) {
  for (int64_t id = begin; id < end; ++id)
    mask[id / 32] &= ~(uint32_t(1) << (id % 32));
}

bool isAllowed(const uint32_t *mask, int64_t id) {
  return mask[id / 32] >> (id % 32) & 1;
}

} // namespace

void TimestampRules::allow(const int32_t *ids, size_t count, const float *logits, int64_t vocabSize,
                           uint32_t *mask) const {
  if (unused >= 0)
    forbid(mask, unused, unused + 1);
  bool isLastTime = count >= 1 && ids[count - 1] >= first;
  bool isPair = count < 2 || ids[count - 2] >= first;
  if (isLastTime && isPair)
    forbid(mask, first, vocabSize);
  else if (isLastTime)
    forbid(mask, 0, end);
  // A time that ends something may begin the next thing; behind text it has to be later.
  for (size_t i = count; i-- > 0;)
    if (ids[i] >= first) {
      forbid(mask, first, ids[i] + (isLastTime && !isPair ? 0 : 1));
      break;
    }
  if (count == 0) {
    forbid(mask, 0, first);
    if (mostInitial >= 0)
      forbid(mask, int64_t(first) + mostInitial + 1, vocabSize);
  }
  double bestText = -INFINITY, bestTime = -INFINITY, times = 0;
  for (int64_t id = 0; id < vocabSize; ++id)
    if (isAllowed(mask, id))
      (id < first ? bestText : bestTime) = std::max(id < first ? bestText : bestTime, double(logits[id]));
  for (int64_t id = first; id < vocabSize; ++id)
    if (isAllowed(mask, id))
      times += std::exp(double(logits[id]) - bestTime);
  if (times > 0 && bestTime + std::log(times) > bestText)
    forbid(mask, 0, first);
}

} // namespace heddle
