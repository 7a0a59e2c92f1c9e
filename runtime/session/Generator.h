// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop that appends one sampled token after the other to a sequence.
#ifndef HEDDLE_RUNTIME_SESSION_GENERATOR_H
#define HEDDLE_RUNTIME_SESSION_GENERATOR_H

#include "runtime/session/Sampler.h"
#include "runtime/session/Session.h"

namespace heddle {

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t maxTokens = 0;    // new tokens; 0: up to the context
  std::vector<int32_t> eos; // tokens that end the answer; they are its last
};

// Why an answer ended.
enum class EndReason { EndToken, MaxTokens, Context, Stopped };

// What the caller does with a token: `logits` are those that it was picked from. False ends the answer.
using TokenSink = bool (*)(void *user, int32_t id, const float *logits);

// The tokens that end an answer of the model where nobody says others: those of its generation config, else its tokenizer's.
std::vector<int32_t> endTokensOf(const package::Package &metadata);

// Appends `count` ids to `sequence` and generates. The last token is not in the cache: it is appended with the next prompt. Where a
// step fails or is interrupted, the tokens before it stay appended. After creation of the sampler no token allocates.
Status generateTokens(Session &session, int32_t sequence, const int32_t *prompt, size_t count,
                      const GenerateOptions &options, TokenSink sink, void *user, EndReason &outReason);

} // namespace heddle

#endif
