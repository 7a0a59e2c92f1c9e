// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop that appends one sampled token after the other to a sequence.
#ifndef HEDDLE_RUNTIME_SESSION_GENERATOR_H
#define HEDDLE_RUNTIME_SESSION_GENERATOR_H

#include "runtime/session/AnswerRules.h"
#include "runtime/session/Sampler.h"
#include "runtime/session/Session.h"

namespace heddle {

// Sets which tokens may come next: the bits of `mask`, all set at first (Sampler::sample), of the `count` ids of the sequence.
struct TokenMask {
  void (*set)(void *user, const int32_t *ids, size_t count, uint32_t *mask) = nullptr;
  void *user = nullptr;
};

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t maxTokens = 0;    // new tokens; 0: up to the context
  std::vector<int32_t> eos; // tokens that end the answer; they are its last
  TokenMask mask;           // without `set`: every token may come
  AnswerRules rules;
  bool givesLogits = false; // the sink has them
  bool hasSource = false;   // the sequence has its source, and the prompt is what the decoder begins with
};

// Why an answer ended.
enum class EndReason { EndToken, MaxTokens, Context, Stopped };

// What the caller does with a token: `logits` are those that it was picked from, null unless GenerateOptions ask for
// them. False ends the answer.
using TokenSink = bool (*)(void *user, int32_t id, const float *logits);

// The tokens that end an answer of the model where nobody says others: those of its generation config, else its tokenizer's.
std::vector<int32_t> endTokensOf(const package::Package &metadata);

// Appends `count` ids to `sequence`, or makes them its source (Session::beginAnswer), and generates. The last token is not in the cache: it is appended with the next prompt. Where a
// step fails or is interrupted, the tokens before it stay appended. After creation of the sampler no token allocates.
Status generateTokens(Session &session, int32_t sequence, const int32_t *prompt, size_t count,
                      const GenerateOptions &options, TokenSink sink, void *user, EndReason &outReason);

} // namespace heddle

#endif
