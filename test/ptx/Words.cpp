// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/Words.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace heddle::ptx {

uint32_t leadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && isspace((unsigned char)text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isspace((unsigned char)text.back()))
    text.remove_suffix(1);
  return text;
}

bool isWord(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

std::string withoutComments(std::string_view text) {
  std::string result(text);
  for (size_t i = 0; i + 1 < result.size(); ++i) {
    bool isLine = result[i] == '/' && result[i + 1] == '/', isBlock = result[i] == '/' && result[i + 1] == '*';
    if (!isLine && !isBlock)
      continue;
    size_t end = result.find(isLine ? "\n" : "*/", i + (isBlock ? 2 : 0));
    end = end == std::string::npos ? result.size() : end + (isBlock ? 2 : 0);
    for (; i < end; ++i)
      if (result[i] != '\n')
        result[i] = ' ';
    --i;
  }
  return result;
}

std::vector<std::string_view> splitOperands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (std::string_view part = trim(text.substr(begin, i - begin)); !part.empty())
        parts.push_back(part);
      begin = i + 1;
    } else if (text[i] == '{' || text[i] == '[') {
      ++depth;
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return parts;
}

std::vector<std::string> splitName(std::string_view name) {
  std::vector<std::string> parts(1);
  for (char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool contains(const std::vector<std::string> &parts, std::string_view name) {
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

} // namespace heddle::ptx
