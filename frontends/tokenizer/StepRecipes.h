// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps that several formats imply without spelling them out.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_STEPRECIPES_H
#define HEDDLE_FRONTENDS_TOKENIZER_STEPRECIPES_H

#include "frontends/tokenizer/TokenizerDraft.h"

namespace heddle {

// What BERT does to a text before WordPiece: normalizer and pre-tokenizer.
void addBertNormalizer(TokenizerDraft &draft, bool lowercase, bool stripAccents, bool cleanText, bool isolateChinese);
void addBertPreTokenizer(TokenizerDraft &draft);
inline void addBertSteps(TokenizerDraft &draft, bool lowercase, bool stripAccents, bool cleanText,
                         bool isolateChinese) {
  addBertNormalizer(draft, lowercase, stripAccents, cleanText, isolateChinese);
  addBertPreTokenizer(draft);
}

// SentencePiece: character map (may be empty), white space collapsed, a word mark prepended, spaces as word marks; and back.
void addSentencePieceSteps(TokenizerDraft &draft, std::string charsmap, bool collapseSpaces, bool prefixSpace);

// The sign that SentencePiece writes for a space, U+2581.
constexpr const char *wordMark = "\xE2\x96\x81";

} // namespace heddle

#endif
