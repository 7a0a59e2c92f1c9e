// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/AnswerRules.h"

#include "runtime/session/Sampler.h"

#include <algorithm>

namespace heddle {

AnswerRules AnswerRules::of(const package::Package &metadata) {
  AnswerRules rules;
  if (const package::Generation *generation = metadata.generation()) {
    rules.forcedBos = generation->forced_bos();
    rules.forcedEos = generation->forced_eos();
    rules.noRepeatNgram = generation->no_repeat_ngram();
  }
  return rules;
}

bool AnswerRules::allow(const int32_t *ids, size_t count, bool isLast, int64_t vocabSize, uint32_t *mask) const {
  // A token that is forced comes whatever else is said.
  int32_t forced = isLast && forcedEos >= 0 ? forcedEos : count == 1 ? forcedBos : -1;
  if (forced >= 0) {
    std::fill(mask, mask + maskWords(vocabSize), 0u);
    mask[forced / 32] |= uint32_t(1) << (forced % 32);
    return true;
  }
  // The last n - 1 tokens have stood before: what followed them may not follow again.
  size_t n = noRepeatNgram;
  for (size_t begin = 0; n > 0 && begin + n <= count; ++begin)
    if (std::equal(ids + begin, ids + begin + n - 1, ids + count - (n - 1))) {
      int32_t id = ids[begin + n - 1];
      mask[id / 32] &= ~(uint32_t(1) << (id % 32));
    }
  return false;
}

} // namespace heddle
