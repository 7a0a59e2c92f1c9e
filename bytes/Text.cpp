// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Text.h"

#include <cstdarg>
#include <cstdio>

namespace heddle {

std::string format(const char *pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(length > 0 ? length : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

static void appendByte(uint8_t byte, std::string &out) {
  constexpr char digits[] = "0123456789abcdef";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (char c : text.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f) {
      out += c;
      continue;
    }
    out += "\\x";
    appendByte(static_cast<uint8_t>(c), out);
  }
  if (text.size() > limit)
    out += "...";
  return out;
}

size_t wholeCharacters(const std::string &text, size_t limit) {
  if (text.size() <= limit)
    return text.size();
  while (limit > 0 && (static_cast<uint8_t>(text[limit]) & 0xc0) == 0x80)
    --limit;
  return limit;
}

std::string hexadecimal(const uint8_t *bytes, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    appendByte(bytes[i], out);
  return out;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

} // namespace heddle
