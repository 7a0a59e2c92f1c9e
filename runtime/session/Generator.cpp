// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Generator.h"

#include "bytes/MemoryScope.h"

#include <algorithm>
#include <optional>

namespace heddle {

std::vector<int32_t> endTokensOf(const package::Package &metadata) {
  const package::Generation *generation = metadata.generation();
  if (generation && generation->eos() && generation->eos()->size())
    return {generation->eos()->begin(), generation->eos()->end()};
  if (metadata.tokenizer() && metadata.tokenizer()->eos() >= 0)
    return {metadata.tokenizer()->eos()};
  return {};
}

Status generateTokens(Session &session, int32_t sequence, const int32_t *prompt, size_t count,
                      const GenerateOptions &options, TokenSink sink, void *user, EndReason &outReason) {
  if (count == 0)
    return invalidInput("the prompt has no tokens");
  if (int64_t limit = options.hasSource ? session.context() : session.promptLimit(); count > size_t(limit))
    return invalidInput(format("the prompt has %zu tokens, the context %lld", count, (long long)limit));
  std::optional<Sampler> made;
  std::vector<uint32_t> mask;
  int64_t vocabSize = session.package().metadata().vocab_size();
  if (!runInMemory([&] {
        mask.resize(options.mask.set || !options.rules.isEmpty() ? maskWords(vocabSize) : 0);
        made.emplace(options.sampler, vocabSize);
      }))
    return outOfMemory();
  Sampler &sampler = *made;
  bool isChoiceEnough = sampler.choosesFromLogits() && mask.empty() && !options.givesLogits;
  FeedRows rows = isChoiceEnough ? FeedRows::Chosen : FeedRows::Last;
  auto draw = [&] { return isChoiceEnough ? sampler.draw() : heddle_token_choice(); };
  heddle_token_choice choice = draw();
  HEDDLE_RETURN_IF_ERROR(options.hasSource ? session.append(sequence, prompt, int32_t(count), rows, choice)
                                           : session.beginAnswer(sequence, prompt, int32_t(count), rows, choice));
  sampler.accept(session.history(sequence), session.length(sequence));
  auto promptCount = size_t(session.length(sequence));
  for (int64_t tokens = 1;; ++tokens) {
    const float *logits = isChoiceEnough ? nullptr : session.logits(0);
    const int32_t *ids = session.history(sequence);
    int64_t length = session.length(sequence);
    std::fill(mask.begin(), mask.end(), ~uint32_t(0));
    if (options.mask.set)
      options.mask.set(options.mask.user, ids, size_t(length), mask.data());
    if (!options.rules.isEmpty()) {
      bool isLast = tokens == options.maxTokens || length == session.context();
      options.rules.allow({ids, size_t(length), promptCount, isLast, logits}, vocabSize, mask.data());
    }
    int32_t id = isChoiceEnough ? session.chosenToken(0) : sampler.sample(logits, mask.empty() ? nullptr : mask.data());
    if (id < 0)
      return invalidInput("the mask allows no token");
    bool goesOn = sink(user, id, options.givesLogits ? logits : nullptr);
    if (std::find(options.eos.begin(), options.eos.end(), id) != options.eos.end()) {
      outReason = EndReason::EndToken;
      return Status();
    }
    if (!goesOn || tokens == options.maxTokens || session.length(sequence) == session.context()) {
      outReason = !goesOn                       ? EndReason::Stopped
                  : tokens == options.maxTokens ? EndReason::MaxTokens
                                                : EndReason::Context;
      return Status();
    }
    choice = draw();
    HEDDLE_RETURN_IF_ERROR(session.append(sequence, &id, 1, rows, choice));
  }
}

} // namespace heddle
