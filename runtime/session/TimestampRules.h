// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When something is said, as tokens among those that say what (Radford et al. 2022, arXiv:2212.04356, section 2.3): tokens from `first` on stand for
// times, each a step later than the one before it.
#ifndef HEDDLE_RUNTIME_SESSION_TIMESTAMPRULES_H
#define HEDDLE_RUNTIME_SESSION_TIMESTAMPRULES_H

#include <cstddef>
#include <cstdint>

namespace heddle {

struct TimestampRules {
  int32_t first = -1;       // -1: answers have no times
  int32_t end = 0;          // of an answer; the tokens of texts are those before it
  int32_t mostInitial = -1; // steps until the first thing said; -1: any
  int32_t unused = -1;      // the token that asks for no times, which then never follows

  // Clears the bits of `mask` (Sampler::sample) of what may not follow `ids`, those (count) of the answer so far. An answer begins with a time. Times
  // stand in pairs, but for the last one before the end, and do not go back. A time follows where all that may are more probable together
  // than the best text, by the (vocabSize) logits of what the mask leaves.
  void allow(const int32_t *ids, size_t count, const float *logits, int64_t vocabSize, uint32_t *mask) const;
};

} // namespace heddle

#endif
