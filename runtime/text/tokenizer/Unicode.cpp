// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Unicode.h"

#include "runtime/text/tokenizer/TextParts.h"

namespace heddle {

// Whoever asks has refused a table that needs what is not linked (textPartsOf).
static Category categoryOf(char32_t c) {
  return heddle_text_parts.unicode->category(c);
}

bool isWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool isWordCharacter(char32_t c) {
  Category category = categoryOf(c);
  return (category >= Category::Lu && category <= Category::Nl) || category == Category::Pc;
}

bool isControl(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r')
    return false;
  Category category = categoryOf(c);
  return category >= Category::Cc && category <= Category::Co;
}

bool isChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool isMark(char32_t c) {
  Category category = categoryOf(c);
  return category >= Category::Mn && category <= Category::Me;
}

bool isNonspacingMark(char32_t c) {
  return categoryOf(c) == Category::Mn;
}

bool isLetter(char32_t c) {
  Category category = categoryOf(c);
  return category >= Category::Lu && category <= Category::Lo;
}

bool isDecimalDigit(char32_t c) {
  return categoryOf(c) == Category::Nd;
}

bool isUppercase(char32_t c) {
  Category category = categoryOf(c);
  return category == Category::Lu || category == Category::Lt;
}

bool isLowercase(char32_t c) {
  return categoryOf(c) == Category::Ll;
}

char32_t toUppercase(char32_t c) {
  return heddle_text_parts.unicode->toUpper(c);
}

void appendLowercase(char32_t c, std::string &out) {
  // The one character whose lower case is two characters whatever surrounds it: i and a combining dot.
  if (c == 0x130)
    out += "i\xCC\x87";
  else
    appendUtf8(heddle_text_parts.unicode->toLower(c), out);
}

void appendNormalized(std::string_view text, NormalForm form, std::string &out) {
  heddle_text_parts.unicode->appendNormalized(text, form, out);
}

} // namespace heddle
