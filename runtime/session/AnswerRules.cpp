// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/AnswerRules.h"

#include "runtime/session/Sampler.h"

#include <algorithm>

namespace heddle {

AnswerRules AnswerRules::of(const package::Package &metadata, const std::vector<int32_t> &ends) {
  AnswerRules rules;
  rules.ends = ends;
  if (const package::Generation *generation = metadata.generation()) {
    rules.forcedBos = generation->forced_bos();
    rules.forcedEos = generation->forced_eos();
    rules.noRepeatNgram = generation->no_repeat_ngram();
    if (const auto *ids = generation->suppressed())
      rules.suppressed.assign(ids->begin(), ids->end());
    if (const auto *ids = generation->suppressed_first())
      rules.suppressedFirst.assign(ids->begin(), ids->end());
    if (const auto *words = generation->bad_words())
      for (const package::TokenSequence *word : *words)
        // As the reference: what ends an answer is no bad word.
        if (word->ids()->size() > 1 || std::find(ends.begin(), ends.end(), word->ids()->Get(0)) == ends.end())
          rules.badWords.emplace_back(word->ids()->begin(), word->ids()->end());
    rules.renormalizes = generation->renormalizes();
    rules.minLength = ends.empty() ? 0 : generation->min_length();
    rules.minNewTokens = ends.empty() ? 0 : generation->min_new_tokens();
  }
  return rules;
}

bool AnswerRules::allow(const AnswerSoFar &soFar, int64_t vocabSize, uint32_t *mask) const {
  const int32_t *ids = soFar.ids;
  size_t count = soFar.count;
  // A token that is forced comes whatever else is said.
  int32_t forced = soFar.isLast && forcedEos >= 0 ? forcedEos : count == 1 ? forcedBos : -1;
  if (forced >= 0) {
    std::fill(mask, mask + maskWords(vocabSize), 0u);
    mask[forced / 32] |= uint32_t(1) << (forced % 32);
    return true;
  }
  auto forbid = [&](int32_t id) { mask[id / 32] &= ~(uint32_t(1) << (id % 32)); };
  // The last n - 1 tokens have stood before: what followed them may not follow again.
  size_t n = noRepeatNgram;
  for (size_t begin = 0; n > 0 && begin + n <= count; ++begin)
    if (std::equal(ids + begin, ids + begin + n - 1, ids + count - (n - 1)))
      forbid(ids[begin + n - 1]);
  for (const std::vector<int32_t> &word : badWords)
    if (word.size() <= count + 1 && std::equal(word.begin(), word.end() - 1, ids + count - (word.size() - 1)))
      forbid(word.back());
  if (count < minLength || count - soFar.promptCount < minNewTokens)
    std::for_each(ends.begin(), ends.end(), forbid);
  std::for_each(suppressed.begin(), suppressed.end(), forbid);
  // As the reference counts: what is forced behind a prompt of one token belongs to it.
  if (count == soFar.promptCount + (soFar.promptCount == 1 && forcedBos >= 0))
    std::for_each(suppressedFirst.begin(), suppressedFirst.end(), forbid);
  if (timestamps.first >= 0)
    timestamps.allow(ids + soFar.promptCount, count - soFar.promptCount, soFar.logits, vocabSize, mask);
  return false;
}

} // namespace heddle
