// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// UTF-8 (The Unicode Standard, section 3.9): overlong forms, surrogates and values above U+10FFFF are not well formed.
#ifndef HEDDLE_BYTES_UTF8_H
#define HEDDLE_BYTES_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// Bytes of the sequence that starts with `lead`; 0 if none does.
size_t utf8AnnouncedLength(char lead);

// Bytes at `text[position]` that a well-formed sequence can start with; 1 if there are none. A whole sequence, and all of one that
// is cut off or goes on wrongly up to there (a maximal subpart).
size_t utf8PrefixLength(std::string_view text, size_t position);

// Bytes of the well-formed sequence at `text[position]`, or 0.
size_t utf8SequenceLength(std::string_view text, size_t position);

// Offset of the first byte that is not part of well-formed UTF-8, or npos.
size_t findInvalidUtf8(std::string_view text);

inline bool isUtf8(std::string_view text) {
  return findInvalidUtf8(text) == std::string_view::npos;
}

// The character at `position` of well-formed text; moves `position` behind it.
char32_t nextCharacter(std::string_view text, size_t &position);

// The character that ends at `end` of well-formed text; moves `end` before it.
char32_t previousCharacter(std::string_view text, size_t &end);

void appendUtf8(char32_t character, std::string &out);

} // namespace heddle

#endif
