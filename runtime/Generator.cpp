// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/Generator.h"

#include <algorithm>

namespace heddle {

Status generateTokens(Session &session, int32_t sequence, const std::vector<int32_t> &prompt, const GenerateOptions &options,
                      TokenSink sink, void *user, EndReason &outReason) {
  if (prompt.empty())
    return invalidInput("the prompt has no tokens");
  if (prompt.size() > size_t(session.context()))
    return invalidInput(format("the prompt has %zu tokens, the context %lld", prompt.size(), (long long)session.context()));
  HEDDLE_RETURN_IF_ERROR(session.append(sequence, prompt.data(), int32_t(prompt.size())));
  Sampler sampler(options.sampler, session.package().metadata().vocab_size());
  sampler.accept(session.history(sequence), session.length(sequence));
  for (int64_t count = 1;; ++count) {
    const float *logits = session.logits(0);
    int32_t id = sampler.sample(logits);
    bool goesOn = sink(user, id, logits);
    if (std::find(options.eos.begin(), options.eos.end(), id) != options.eos.end()) {
      outReason = EndReason::EndToken;
      return Status();
    }
    if (!goesOn || count == options.maxTokens || session.length(sequence) == session.context()) {
      outReason = !goesOn ? EndReason::Stopped : count == options.maxTokens ? EndReason::MaxTokens : EndReason::Context;
      return Status();
    }
    HEDDLE_RETURN_IF_ERROR(session.append(sequence, &id, 1));
  }
}

} // namespace heddle
