// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Charsmap.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <cstring>

namespace heddle {

static uint32_t loadU32(const uint8_t *bytes) {
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

bool Charsmap::check(const Bytes *bytes, std::string &error) {
  size_t size = bytes ? bytes->size() : 0;
  size_t trieSize = size >= 4 ? loadU32(bytes->data()) : 0;
  if (size < 8 || trieSize < 4 || trieSize % 4 || trieSize > size - 4 ||
      (trieSize < size - 4 && bytes->data()[size - 1] != 0)) {
    error = "precompiled_charsmap of " + std::to_string(size) + " bytes with a trie of " + std::to_string(trieSize) +
            " is not a whole trie followed by NUL-terminated replacements";
    return false;
  }
  std::string_view replacements(reinterpret_cast<const char *>(bytes->data()) + 4 + trieSize, size - 4 - trieSize);
  if (findInvalidUtf8(replacements) != std::string_view::npos) {
    error = "precompiled_charsmap has replacements that are not UTF-8";
    return false;
  }
  return true;
}

Charsmap::Charsmap(const Bytes &bytes) {
  size_t trieSize = loadU32(bytes.data());
  trie = bytes.data() + 4;
  numUnits = trieSize / 4;
  replacements = {reinterpret_cast<const char *>(trie) + trieSize, bytes.size() - 4 - trieSize};
}

uint32_t Charsmap::unit(size_t index) const {
  return loadU32(trie + 4 * index);
}

static size_t childrenOffset(uint32_t unit) {
  return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

// Bytes of the longest key that starts `text`, or 0. Indices that leave the array end the search.
size_t Charsmap::longestMatch(std::string_view text, std::string_view &replacement) const {
  size_t longest = 0, node = childrenOffset(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = text[i];
    node ^= byte;
    if (!byte || node >= numUnits)
      break;
    uint32_t here = unit(node);
    if ((here & (1u << 31 | 0xFF)) != byte)
      break;
    node ^= childrenOffset(here);
    if (!(here >> 8 & 1))
      continue;
    if (node >= numUnits)
      break;
    size_t value = unit(node) & ~(1u << 31);
    if (value >= replacements.size())
      break;
    longest = i + 1;
    replacement = replacements.substr(value, strlen(replacements.data() + value));
  }
  return longest;
}

void Charsmap::map(std::string_view text, size_t limit, std::string &out) const {
  for (size_t position = 0; position < text.size() && out.size() <= limit;) {
    std::string_view replacement;
    size_t length = longestMatch(text.substr(position), replacement);
    // A key that ends inside a character would tear it: such a map is damaged, the character stays.
    if (length && position + length < text.size() && (text[position + length] & 0xC0) == 0x80)
      length = 0;
    if (length) {
      out.append(replacement);
      position += length;
    } else {
      appendUtf8(nextCharacter(text, position), out);
    }
  }
}

} // namespace heddle
