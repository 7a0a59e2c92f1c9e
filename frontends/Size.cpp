// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Size.h"

namespace heddle {

std::string printable(std::string_view text, size_t limit) {
  static const char digits[] = "0123456789abcdef";
  std::string out;
  for (unsigned char c : text.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
      continue;
    }
    out += "\\x";
    out += digits[c >> 4];
    out += digits[c & 15];
  }
  if (text.size() > limit)
    out += "...";
  return out;
}

Error errorIn(std::string_view file, const std::string &what) {
  return Error{printable(file, 1024) + ": " + what};
}

// The length of the sequence that starts with `lead`, 0 if none does, and the range that its second byte must lie in.
static size_t sequenceLength(unsigned char lead, unsigned char &low, unsigned char &high) {
  low = 0x80;
  high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf)
    return 2;
  if (lead >= 0xe0 && lead <= 0xef) {
    low = lead == 0xe0 ? 0xa0 : 0x80;
    high = lead == 0xed ? 0x9f : 0xbf;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    low = lead == 0xf0 ? 0x90 : 0x80;
    high = lead == 0xf4 ? 0x8f : 0xbf;
    return 4;
  }
  return 0;
}

bool isUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    unsigned char lead = text[at], low, high;
    if (lead < 0x80) {
      ++at;
      continue;
    }
    size_t length = sequenceLength(lead, low, high);
    if (!length || length > text.size() - at)
      return false;
    for (size_t i = 1; i < length; ++i) {
      unsigned char c = text[at + i];
      if (c < (i == 1 ? low : 0x80) || c > (i == 1 ? high : 0xbf))
        return false;
    }
    at += length;
  }
  return true;
}

} // namespace heddle
