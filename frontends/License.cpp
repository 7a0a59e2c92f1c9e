// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The front matter of a model card is YAML, of which only a key with its value in one line is read.
#include "frontends/License.h"

#include <algorithm>

namespace heddle {

static std::string_view trimmed(std::string_view text) {
  auto isBlank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && isBlank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isBlank(text.back()))
    text.remove_suffix(1);
  return text;
}

std::string licenseName(std::string_view stated) {
  constexpr size_t longest = 128;
  auto isOfName = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(" -+._()").find(c) != std::string_view::npos;
  };
  stated = trimmed(stated);
  bool isName = stated.size() <= longest && std::all_of(stated.begin(), stated.end(), isOfName);
  return isName ? std::string(stated) : "";
}

static std::string_view takeLine(std::string_view &text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// A scalar, plain or in quotes, before a comment.
static std::string_view scalarOf(std::string_view value) {
  value = trimmed(value);
  if (!value.empty() && (value[0] == '"' || value[0] == '\''))
    return value.substr(1, value.find(value[0], 1) - 1);
  return value.substr(0, value.find(" #"));
}

std::string modelCardLicense(ModelFiles &files) {
  constexpr size_t longestFrontMatter = 256 << 10;
  constexpr std::string_view key = "license:";
  if (!files.has("README.md"))
    return "";
  Expected<SharedFile> card = files.open("README.md");
  if (!card)
    return "";
  std::string_view text(reinterpret_cast<const char *>((*card)->data()),
                        std::min<size_t>((*card)->size(), longestFrontMatter));
  if (trimmed(takeLine(text)) != "---")
    return "";
  while (!text.empty()) {
    std::string_view line = takeLine(text);
    if (trimmed(line) == "---")
      break;
    if (line.substr(0, key.size()) == key)
      return licenseName(scalarOf(line.substr(key.size())));
  }
  return "";
}

} // namespace heddle
