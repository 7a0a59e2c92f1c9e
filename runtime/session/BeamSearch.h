// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Beam search as Hugging Face transformers does it: of the best (1 + number of end tokens, at least 2) x beams continuations, those
// that end compete by score / length^length_penalty with the finished ones, the others go on.
#ifndef HEDDLE_RUNTIME_SESSION_BEAMSEARCH_H
#define HEDDLE_RUNTIME_SESSION_BEAMSEARCH_H

#include "runtime/session/AnswerRules.h"
#include "runtime/session/Session.h"

namespace heddle {

// When a search ends before all beams have: once no running beam is better than the worst of `beams` finished ones; at `beams` finished ones; once
// none can become better, however long it gets.
enum class EarlyStopping { No, Yes, Never };

struct BeamOptions {
  int32_t beams = 4;
  int32_t returned = 1;    // sequences to return, at most beams
  float lengthPenalty = 1; // above 0 favours longer answers
  EarlyStopping earlyStopping = EarlyStopping::No;
  int64_t maxTokens = 0; // new tokens
  float repetitionPenalty = 1;
  AnswerRules rules;
  std::vector<int32_t> eos; // empty: answers end at maxTokens only
  bool hasSource = false;   // sequence 0 has its source, and the prompt is what the decoder begins with
};

struct BeamResult {
  std::vector<int32_t> ids; // new tokens, with the end token where there is one
  double score;             // sum of log probabilities / length^length_penalty
};

// Runs on sequences [0, beams) of the session, which are reset. The prompt, or what the decoder starts with where it is a source, and maxTokens
// fit into the context.
Status searchBeams(Session &session, const std::vector<int32_t> &prompt, const BeamOptions &options,
                   std::vector<BeamResult> &outResults);

} // namespace heddle

#endif
