// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/AddedTokens.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace heddle {

using package::PieceFlag;

uint32_t AddedTokens::step(uint32_t node, char byte) const {
  uint32_t child = nodes[node].child;
  while (child && nodes[child].byte != byte)
    child = nodes[child].sibling;
  return child;
}

void AddedTokens::add(std::string_view spelling, int32_t id) {
  if (spelling.empty())
    return;
  if (nodes.empty())
    nodes.emplace_back();
  uint32_t node = 0;
  for (char byte : spelling) {
    uint32_t child = step(node, byte);
    if (!child) {
      child = static_cast<uint32_t>(nodes.size());
      nodes.push_back({-1, 0, nodes[node].child, byte});
      nodes[node].child = child;
    }
    node = child;
  }
  if (nodes[node].id < 0)
    nodes[node].id = id;
}

bool overlaps(const std::vector<TextRange> &ranges, size_t begin, size_t end) {
  auto after =
      std::partition_point(ranges.begin(), ranges.end(), [&](const TextRange &range) { return range.end <= begin; });
  return after != ranges.end() && after->begin < end;
}

static bool standsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin && isWordCharacter(previousCharacter(text, begin)))
    return false;
  return end == text.size() || !isWordCharacter(nextCharacter(text, end));
}

int32_t AddedTokens::longestMatch(std::string_view text, size_t begin, const Rules &rules, size_t &end) const {
  int32_t found = -1;
  uint32_t node = 0;
  for (size_t position = begin; position < text.size(); ++position) {
    node = step(node, text[position]);
    if (!node)
      break;
    int32_t id = nodes[node].id;
    if (id < 0)
      continue;
    bool special = rules.vocabulary.has(id, PieceFlag::Special);
    if (special && (!rules.special || overlaps(rules.untrusted, begin, position + 1)))
      continue;
    found = id;
    end = position + 1;
  }
  return found;
}

std::vector<TextSection> AddedTokens::split(std::string_view text, const Rules &rules) const {
  std::vector<TextSection> sections;
  auto push = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end)
      sections.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), id});
  };
  size_t done = 0, matchEnd = 0;
  for (size_t position = 0; !nodes.empty() && position < text.size(); position = matchEnd) {
    int32_t id = longestMatch(text, position, rules, matchEnd);
    if (id < 0) {
      matchEnd = position + 1;
      continue;
    }
    if (rules.vocabulary.has(id, PieceFlag::SingleWord) && !standsAlone(text, position, matchEnd))
      continue;
    size_t begin = position, end = matchEnd;
    if (rules.vocabulary.has(id, PieceFlag::LeftStrip))
      for (size_t before = begin; before > done && isWhiteSpace(previousCharacter(text, before));)
        begin = before;
    if (rules.vocabulary.has(id, PieceFlag::RightStrip))
      for (size_t after = end; after < text.size() && isWhiteSpace(nextCharacter(text, after));)
        end = after;
    push(done, begin, -1);
    push(begin, end, id);
    done = matchEnd = end;
  }
  push(done, text.size(), -1);
  return sections;
}

} // namespace heddle
