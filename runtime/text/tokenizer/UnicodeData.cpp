// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Utf8.h"
#include "runtime/text/tokenizer/TextParts.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <vector>

namespace heddle {
namespace {

static_assert(static_cast<int>(Category::Lo) == UTF8PROC_CATEGORY_LO &&
                  static_cast<int>(Category::Nd) == UTF8PROC_CATEGORY_ND &&
                  static_cast<int>(Category::Po) == UTF8PROC_CATEGORY_PO &&
                  static_cast<int>(Category::Co) == UTF8PROC_CATEGORY_CO,
              "categories have utf8proc's numbers");

Category category(char32_t c) {
  return static_cast<Category>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

char32_t toLower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

char32_t toUpper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

// Canonical ordering (The Unicode Standard, section 3.11): within each run of marks, by combining class and otherwise as they were.
// utf8proc moves marks past each other one by one, which is quadratic in a run.
void orderMarks(std::vector<utf8proc_int32_t> &characters) {
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

void appendDecomposed(char32_t c, utf8proc_option_t options, std::vector<utf8proc_int32_t> &out) {
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

} // namespace
} // namespace heddle

const heddle::UnicodeData heddle_part_unicode = {heddle::category, heddle::toLower, heddle::toUpper,
                                                 heddle::appendNormalized};
