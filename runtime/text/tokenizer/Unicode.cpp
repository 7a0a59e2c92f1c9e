// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <vector>

namespace heddle {

bool isWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool isWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    return false;
  }
}

bool isPunctuation(char32_t c) {
  if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126))
    return true;
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool isControl(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r')
    return false;
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

bool isChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool isMark(char32_t c) {
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool isNonspacingMark(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN;
}

bool isUppercase(char32_t c) {
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool isLowercase(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL;
}

void appendLowercase(char32_t c, std::string &out) {
  // The one character whose lower case is two characters whatever surrounds it: i and a combining dot.
  if (c == 0x130)
    out += "i\xCC\x87";
  else
    appendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

// Canonical ordering (The Unicode Standard, section 3.11): within each run of marks, by combining class and otherwise as they were.
// utf8proc moves marks past each other one by one, which is quadratic in a run.
static void orderMarks(std::vector<utf8proc_int32_t> &characters) {
  auto combiningClass = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    auto end = begin;
    while (end != characters.end() && combiningClass(*end) != 0)
      ++end;
    auto precedes = [&](auto a, auto b) { return combiningClass(a) < combiningClass(b); };
    if (!std::is_sorted(begin, end, precedes)) // it takes memory
      std::stable_sort(begin, end, precedes);
    begin = end == characters.end() ? end : end + 1;
  }
}

static void appendDecomposed(char32_t c, utf8proc_option_t options, std::vector<utf8proc_int32_t> &out) {
  utf8proc_int32_t parts[32]; // the longest decomposition has 18 characters
  int boundary = 0;
  utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
  assert(count >= 0 && count <= 32);
  out.insert(out.end(), parts, parts + count);
}

void appendNormalized(std::string_view text, NormalForm form, std::string &out) {
  bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
  int flags = UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == NormalForm::Nfkc || form == NormalForm::Nfkd)
    flags |= UTF8PROC_COMPAT;
  const auto options = static_cast<utf8proc_option_t>(flags);
  // Every character below U+0300 starts with one of class 0 that joins nothing before it, so that the text may be cut there: what is
  // held at a time is bounded in all but text of marks alone.
  constexpr size_t enough = 4096;
  std::vector<utf8proc_int32_t> characters;
  auto flush = [&] {
    orderMarks(characters);
    utf8proc_ssize_t count = static_cast<utf8proc_ssize_t>(characters.size());
    if (composes)
      count = utf8proc_normalize_utf32(characters.data(), count, options);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      appendUtf8(static_cast<char32_t>(characters[static_cast<size_t>(i)]), out);
    characters.clear();
  };
  for (size_t position = 0; position < text.size();) {
    char32_t c = nextCharacter(text, position);
    if (c < 0x300 && characters.size() >= enough)
      flush();
    appendDecomposed(c, options, characters);
  }
  flush();
}

} // namespace heddle
