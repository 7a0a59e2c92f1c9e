// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Utf8.h"

namespace heddle {

size_t utf8AnnouncedLength(char lead) {
  uint8_t byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xC2 || byte > 0xF4 ? 0 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

size_t utf8PrefixLength(std::string_view text, size_t position) {
  const uint8_t lead = text[position];
  const size_t announced = utf8AnnouncedLength(text[position]);
  // The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF.
  uint8_t lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  size_t length = 1;
  for (; length < announced && position + length < text.size(); ++length) {
    uint8_t byte = text[position + length];
    if (byte < lowest || byte > highest)
      break;
    lowest = 0x80, highest = 0xBF;
  }
  return length;
}

size_t utf8SequenceLength(std::string_view text, size_t position) {
  size_t length = utf8PrefixLength(text, position);
  return length == utf8AnnouncedLength(text[position]) ? length : 0;
}

size_t findInvalidUtf8(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    size_t length = static_cast<uint8_t>(text[position]) < 0x80 ? 1 : utf8SequenceLength(text, position);
    if (!length)
      return position;
    position += length;
  }
  return std::string_view::npos;
}

char32_t nextCharacter(std::string_view text, size_t &position) {
  uint8_t lead = text[position++];
  if (lead < 0x80)
    return lead;
  int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t value = lead & (0x3F >> more);
  for (; more && position < text.size(); --more)
    value = value << 6 | (static_cast<uint8_t>(text[position++]) & 0x3F);
  return value;
}

char32_t previousCharacter(std::string_view text, size_t &end) {
  do
    --end;
  while (end && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  size_t position = end;
  return nextCharacter(text, position);
}

void appendUtf8(char32_t c, std::string &out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

} // namespace heddle
