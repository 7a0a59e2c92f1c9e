// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// UTF-8 and the character classes that tokenizers ask for.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODE_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_UNICODE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// Bytes of the sequence that starts with `lead`; 0 if none does.
size_t utf8AnnouncedLength(char lead);

// Bytes at `text[position]` that a well-formed sequence can start with; 1 if there are none. A whole sequence, and all of one that
// is cut off or goes on wrongly up to there (a maximal subpart, The Unicode Standard, section 3.9).
size_t utf8PrefixLength(std::string_view text, size_t position);

// Bytes of the well-formed sequence at `text[position]`, or 0. Overlong forms, surrogates and values above U+10FFFF are
// not well formed.
size_t utf8SequenceLength(std::string_view text, size_t position);

// Offset of the first byte that is not part of well-formed UTF-8, or npos.
size_t findInvalidUtf8(std::string_view text);

// The character at `position` of well-formed text; moves `position` behind it.
char32_t nextCharacter(std::string_view text, size_t &position);

// The character that ends at `end` of well-formed text; moves `end` before it.
char32_t previousCharacter(std::string_view text, size_t &end);

void appendUtf8(char32_t character, std::string &out);

bool isWhiteSpace(char32_t character);     // property White_Space
bool isWordCharacter(char32_t character);  // letters, marks, digits, connectors: \w
bool isPunctuation(char32_t character);    // categories P*, and every ASCII sign that is no letter or digit
bool isControl(char32_t character);        // categories Cc, Cf, Cs and Co, without tab, line feed and carriage return
bool isChinese(char32_t character);        // the CJK blocks that BERT sets apart
bool isMark(char32_t character);           // categories M*
bool isNonspacingMark(char32_t character); // category Mn
bool isUppercase(char32_t character);      // categories Lu and Lt
bool isLowercase(char32_t character);      // category Ll
void appendLowercase(char32_t character, std::string &out);

enum class NormalForm : uint8_t { Nfc, Nfd, Nfkc, Nfkd };
// Appends `text` (well-formed) in a normal form. False if it is too long to normalise.
bool appendNormalized(std::string_view text, NormalForm form, std::string &out);

} // namespace heddle

#endif
