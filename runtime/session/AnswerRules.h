// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tokens may come next, by what the model's generation config says beyond probabilities: as Hugging Face's processors of the same names.
#ifndef HEDDLE_RUNTIME_SESSION_ANSWERRULES_H
#define HEDDLE_RUNTIME_SESSION_ANSWERRULES_H

#include "runtime/schema/package_generated.h"

#include <cstddef>
#include <cstdint>

namespace heddle {

struct AnswerRules {
  int32_t forcedBos = -1;     // follows the first token of a sequence; -1: any may
  int32_t forcedEos = -1;     // is the last token that there is room for; -1: any may be
  uint32_t noRepeatNgram = 0; // no n tokens come twice; 0: they may

  static AnswerRules of(const package::Package &metadata);
  bool isEmpty() const { return forcedBos < 0 && forcedEos < 0 && noRepeatNgram == 0; }
  // Clears the bits of `mask` (Sampler::sample) of what may not follow the `count` ids of a sequence. `isLast`: there is room for one more.
  // True if one token is forced.
  bool allow(const int32_t *ids, size_t count, bool isLast, int64_t vocabSize, uint32_t *mask) const;
};

} // namespace heddle

#endif
