// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The character classes and normal forms that tokenizers and templates ask for. All but isWhiteSpace() and isChinese() read UnicodeData, which only
// tables have for which textPartsOf() says so.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODE_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODE_H

#include "bytes/Utf8.h"
#include "runtime/text/tokenizer/UnicodeData.h"

namespace heddle {

bool isWhiteSpace(char32_t character);     // property White_Space
bool isWordCharacter(char32_t character);  // letters, marks, digits, connectors: \w
bool isControl(char32_t character);        // categories Cc, Cf, Cs and Co, without tab, line feed and carriage return
bool isChinese(char32_t character);        // the CJK blocks that BERT sets apart
bool isMark(char32_t character);           // categories M*
bool isNonspacingMark(char32_t character); // category Mn
bool isLetter(char32_t character);         // categories L*
bool isDecimalDigit(char32_t character);   // category Nd
bool isUppercase(char32_t character);      // categories Lu and Lt
bool isLowercase(char32_t character);      // category Ll
char32_t toUppercase(char32_t character);  // the simple mapping
void appendLowercase(char32_t character, std::string &out);

// Appends `text` (well-formed) in a normal form, in O(n log n).
void appendNormalized(std::string_view text, NormalForm form, std::string &out);

} // namespace heddle

#endif
