// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"

#include <cstdarg>
#include <cstdio>

std::string heddle::format(const char *pattern, ...) {
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

size_t heddle::wholeCharacters(const std::string &text, size_t limit) {
  if (text.size() <= limit)
    return text.size();
  while (limit > 0 && (uint8_t(text[limit]) & 0xc0) == 0x80)
    --limit;
  return limit;
}
