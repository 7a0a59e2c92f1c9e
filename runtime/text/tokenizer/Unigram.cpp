// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TokenizerModels.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace heddle {

std::vector<int32_t> UnigramModel::sortPieces(const Vocabulary &vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.kind(id) != package::TokenKind::Absent && !vocabulary.has(id, package::PieceFlag::Unmatched) &&
        !vocabulary.text(id).empty())
      ids.push_back(id);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    int order = vocabulary.text(a).compare(vocabulary.text(b));
    return order ? order < 0 : a < b;
  });
  return ids;
}

// Tries every piece that starts at `begin`: the range of sorted pieces that share the first bytes narrows byte by byte.
void UnigramModel::relaxFrom(std::string_view word, size_t begin) {
  double reached = best[begin].score;
  size_t characterEnd = begin;
  nextCharacter(word, characterEnd);
  bool wholeCharacter = false;
  auto low = sorted.begin(), high = sorted.end();
  for (size_t length = 1; begin + length <= word.size() && low != high; ++length) {
    uint8_t byte = word[begin + length - 1];
    low = std::partition_point(low, high, [&](int32_t id) {
      std::string_view text = vocabulary.text(id);
      return text.size() < length || static_cast<uint8_t>(text[length - 1]) < byte;
    });
    high = std::partition_point(low, high, [&](int32_t id) {
      std::string_view text = vocabulary.text(id);
      return static_cast<uint8_t>(text[length - 1]) == byte;
    });
    if (low == high || vocabulary.text(*low).size() != length)
      continue;
    size_t end = begin + length;
    wholeCharacter |= end == characterEnd;
    double score = reached + vocabulary.score(*low);
    if (best[end].id == -2 || score > best[end].score)
      best[end] = {score, static_cast<uint32_t>(begin), *low};
  }
  double score = reached + options.unknownScore;
  if (!wholeCharacter && (best[characterEnd].id == -2 || score > best[characterEnd].score))
    best[characterEnd] = {score, static_cast<uint32_t>(begin), -1};
}

void UnigramModel::encode(std::string_view word, TokenList &tokens) {
  best.assign(word.size() + 1, {0, 0, -2}); // -2: not reached
  best[0].id = -1;
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    nextCharacter(word, end);
    if (best[begin].id != -2)
      relaxFrom(word, begin);
  }
  size_t first = tokens.ids.size();
  bool afterUnknown = false;
  for (size_t end = word.size(); end; end = best[end].begin) {
    int32_t id = best[end].id;
    bool fallback = id < 0 && options.byteFallback;
    for (size_t i = best[end].begin; fallback && i < end; ++i)
      fallback = vocabulary.byteToken(static_cast<uint8_t>(word[i])) >= 0;
    if (fallback) {
      for (size_t i = end; i-- > best[end].begin;)
        tokens.add(vocabulary.byteToken(static_cast<uint8_t>(word[i])), i, i + 1);
    } else if (id >= 0) {
      tokens.add(id, best[end].begin, end);
    } else if (options.unknown >= 0 && !(afterUnknown && options.fuseUnknown)) {
      tokens.add(options.unknown, best[end].begin, end);
    } else if (options.unknown >= 0) {
      tokens.widen(best[end].begin, end);
    }
    afterUnknown = id < 0 && !fallback;
  }
  std::reverse(tokens.ids.begin() + static_cast<ptrdiff_t>(first), tokens.ids.end());
  if (tokens.ranges)
    std::reverse(tokens.ranges->end() - static_cast<ptrdiff_t>(tokens.ids.size() - first), tokens.ranges->end());
}

} // namespace heddle
