// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/StepRecipes.h"

namespace heddle {

using package::SplitBehavior;
using package::TextOp;

void addBertNormalizer(TokenizerDraft &draft, bool lowercase, bool stripAccents, bool cleanText, bool isolateChinese) {
  if (cleanText)
    draft.normalizer.push_back(StepDraft::of(TextOp::CleanText));
  if (isolateChinese)
    draft.normalizer.push_back(StepDraft::of(TextOp::IsolateChinese));
  if (stripAccents) {
    draft.normalizer.push_back(StepDraft::of(TextOp::Nfd));
    draft.normalizer.push_back(StepDraft::of(TextOp::StripAccents));
  }
  if (lowercase)
    draft.normalizer.push_back(StepDraft::of(TextOp::Lowercase));
}

void addBertPreTokenizer(TokenizerDraft &draft) {
  draft.preTokenizer.push_back(StepDraft::split(R"(\s)", SplitBehavior::Removed));
  draft.preTokenizer.push_back(StepDraft::split(R"([\p{P}!-/:-@\[-`{-~])", SplitBehavior::Isolated));
}

void addSentencePieceSteps(TokenizerDraft &draft, std::string charsmap, bool collapseSpaces, bool prefixSpace) {
  if (!charsmap.empty())
    draft.normalizer.push_back(StepDraft{TextOp::Charsmap, {}, {}, std::move(charsmap)});
  if (collapseSpaces)
    draft.normalizer.push_back(StepDraft::of(TextOp::CollapseSpaces));
  if (prefixSpace)
    draft.normalizer.push_back(StepDraft::prepend(wordMark));
  draft.normalizer.push_back(StepDraft::replace(" ", wordMark));
  draft.decoder = {StepDraft::replace(wordMark, " "), StepDraft::of(TextOp::ByteFallback), StepDraft::of(TextOp::Fuse)};
  if (prefixSpace)
    draft.decoder.push_back(StepDraft{TextOp::TrimToken, {}, " ", {}, 0, SplitBehavior::Isolated, 1, 0});
}

} // namespace heddle
