// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tokens may come next, by what the model's generation config says beyond probabilities: as Hugging Face's processors of the same names.
#ifndef HEDDLE_RUNTIME_SESSION_ANSWERRULES_H
#define HEDDLE_RUNTIME_SESSION_ANSWERRULES_H

#include "runtime/schema/package_generated.h"
#include "runtime/session/TimestampRules.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

// What of a sequence the rules ask for.
struct AnswerSoFar {
  const int32_t *ids; // (count), of which the first (promptCount) are those that the answer follows
  size_t count, promptCount;
  bool isLast;         // there is room for one more
  const float *logits; // of what may follow, or their log probabilities; read only where there are timestamps
};

struct AnswerRules {
  int32_t forcedBos = -1;     // follows the first token of a sequence; -1: any may
  int32_t forcedEos = -1;     // is the last token that there is room for; -1: any may be
  uint32_t noRepeatNgram = 0; // no n tokens come twice; 0: they may

  std::vector<int32_t> suppressed, suppressedFirst; // never follow; do not follow the prompt
  std::vector<std::vector<int32_t>> badWords;       // never follow as a whole
  // An answer does not end before the sequence, or what is new in it, is as long.
  size_t minLength = 0, minNewTokens = 0;
  std::vector<int32_t> ends; // tokens that end an answer
  bool renormalizes = false; // of beams: probabilities of what may follow add up to 1
  TimestampRules timestamps;

  static AnswerRules of(const package::Package &metadata, const std::vector<int32_t> &ends);
  bool isEmpty() const {
    return forcedBos < 0 && forcedEos < 0 && noRepeatNgram == 0 && suppressed.empty() && suppressedFirst.empty() &&
           badWords.empty() && minLength == 0 && minNewTokens == 0 && timestamps.first < 0;
  }
  // Clears the bits of `mask` (Sampler::sample) of what may not follow. True if one token is forced.
  bool allow(const AnswerSoFar &soFar, int64_t vocabSize, uint32_t *mask) const;
};

} // namespace heddle

#endif
