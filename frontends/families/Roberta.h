// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What RoBERTa and its next of kin have in common beside what BERT has: positions behind that of padding, and the heads.
#ifndef HEDDLE_FRONTENDS_FAMILIES_ROBERTA_H
#define HEDDLE_FRONTENDS_FAMILIES_ROBERTA_H

#include "frontends/families/Bert.h"

namespace heddle {

inline constexpr TensorRule robertaMaskedRules[] = {
    HEDDLE_LINEAR_RULES("lm_head.dense", Hidden, Hidden),
    HEDDLE_NORM_RULES("lm_head.layer_norm", Hidden),
    {"lm_head.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},
    {"lm_head.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied},
};
inline constexpr TensorRule robertaSequenceRules[] = {HEDDLE_LINEAR_RULES("classifier.dense", Hidden, Hidden),
                                                      HEDDLE_LINEAR_RULES("classifier.out_proj", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved. Where embeddings are tied, the decoder's bias is the other one again.
#define HEDDLE_ROBERTA_UNREAD(prefix)                                                                                  \
  {prefix "embeddings.position_ids"}, {"lm_head.decoder.bias"}, {"lm_head.bias"}, {"lm_head.*", /*isLoss=*/true},      \
      {"classifier.*", /*isLoss=*/true}, {                                                                             \
    "qa_outputs.*", /*isLoss=*/true                                                                                    \
  }

// Positions begin behind that of padding, and the table holds both.
void placePositionsBehind(JsonObject &object, ModelConfig &config, int64_t padding);
// readBertSizes; positions begin behind that of padding, and the table holds both.
void readRobertaSizes(JsonObject &object, ModelConfig &config);

// Heads: `logits` of each token from `lm_head`; those of a text from `classifier`, which reads its first token.
void buildRobertaMasked(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);
void buildRobertaClassifier(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);

#define HEDDLE_ROBERTA_HEADS(name)                                                                                     \
  {name "ForMaskedLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},                                    \
      {name "ForCausalLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},                                \
      {name "ForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify},            \
      {name "ForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens}, {              \
    name "ForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer                                        \
  }

} // namespace heddle

#endif
