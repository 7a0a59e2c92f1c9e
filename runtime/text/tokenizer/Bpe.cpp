// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TokenizerModels.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace heddle {

bool BpeModel::after(const Candidate &a, const Candidate &b) {
  return a.order != b.order ? a.order > b.order : a.left > b.left;
}

void BpeModel::append(uint32_t begin, size_t length, int32_t id) {
  int32_t index = static_cast<int32_t>(symbols.size());
  symbols.push_back({begin, static_cast<uint32_t>(length), id, index + 1, index - 1});
}

// The first symbols of [begin, end), one character: its piece, or its bytes' pieces, or a symbol without a piece.
void BpeModel::splitCharacter(std::string_view word, size_t begin, size_t end) {
  std::string_view character = word.substr(begin, end - begin);
  bool first = begin == 0, last = end == word.size();
  int32_t id;
  if ((first || options.continuingPrefix.empty()) && (!last || options.endOfWordSuffix.empty())) {
    id = vocabulary.find(character);
  } else {
    std::string decorated =
        (first ? "" : options.continuingPrefix) + std::string(character) + (last ? options.endOfWordSuffix : "");
    id = vocabulary.find(decorated);
  }
  if (id < 0 && options.byteFallback && ranked) {
    bool all = true;
    for (char c : character)
      all &= vocabulary.byteToken(static_cast<uint8_t>(c)) >= 0;
    for (size_t i = begin; all && i < end; ++i)
      append(static_cast<uint32_t>(i), 1, vocabulary.byteToken(static_cast<uint8_t>(word[i])));
    if (all)
      return;
  }
  append(static_cast<uint32_t>(begin), end - begin, id);
}

void BpeModel::split(std::string_view word) {
  symbols.clear();
  if (options.model == package::TokenizerModel::ByteLevelBpe && options.endOfWordSuffix.empty()) {
    for (size_t i = 0; i < word.size(); ++i)
      append(static_cast<uint32_t>(i), 1, vocabulary.byteToken(static_cast<uint8_t>(word[i])));
  } else if (options.model == package::TokenizerModel::ByteLevelBpe) {
    for (size_t i = 0; i < word.size(); ++i)
      splitCharacter(word, i, i + 1);
  } else {
    for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      nextCharacter(word, end);
      splitCharacter(word, begin, end);
    }
  }
  if (!symbols.empty())
    symbols.back().next = -1;
}

// Queues the join of symbol `left` with its right neighbour, if there is one.
void BpeModel::offer(std::string_view word, int32_t left) {
  if (left < 0 || symbols[left].next < 0)
    return;
  const Symbol &a = symbols[left], &b = symbols[a.next];
  if (ranked) {
    int32_t rank = vocabulary.findMerge(a.id, b.id);
    if (rank < 0)
      return;
    queue.push_back({static_cast<double>(rank), left, static_cast<uint32_t>(rank)});
  } else {
    uint32_t length = a.length + b.length;
    int32_t id = vocabulary.find(word.substr(a.begin, length));
    if (id < 0)
      return;
    queue.push_back({-static_cast<double>(vocabulary.score(id)), left, length});
  }
  std::push_heap(queue.begin(), queue.end(), after);
}

void BpeModel::join(std::string_view word) {
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    offer(word, static_cast<int32_t>(i));
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), after);
    Candidate candidate = queue.back();
    queue.pop_back();
    Symbol &a = symbols[candidate.left];
    if (!a.length || a.next < 0)
      continue;
    Symbol &b = symbols[a.next];
    int32_t id;
    if (ranked) {
      const package::Merge &merge = vocabulary.merge(static_cast<int32_t>(candidate.check));
      if (a.id != static_cast<int32_t>(merge.left()) || b.id != static_cast<int32_t>(merge.right()))
        continue;
      id = static_cast<int32_t>(merge.result());
    } else {
      if (a.length + b.length != candidate.check)
        continue;
      id = vocabulary.find(word.substr(a.begin, candidate.check));
    }
    a.id = id;
    a.length += b.length;
    a.next = b.next;
    b.length = 0;
    if (a.next >= 0)
      symbols[a.next].previous = candidate.left;
    offer(word, a.previous);
    offer(word, candidate.left);
  }
}

void BpeModel::emit(std::string_view word, TokenList &tokens) {
  bool afterUnknown = false;
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next) {
    const Symbol &symbol = symbols[i];
    if (symbol.id >= 0) {
      tokens.add(symbol.id, symbol.begin, symbol.begin + symbol.length);
      afterUnknown = false;
      continue;
    }
    bool fallback = options.byteFallback;
    for (size_t k = 0; fallback && k < symbol.length; ++k)
      fallback = vocabulary.byteToken(static_cast<uint8_t>(word[symbol.begin + k])) >= 0;
    if (fallback) {
      for (size_t k = 0; k < symbol.length; ++k)
        tokens.add(vocabulary.byteToken(static_cast<uint8_t>(word[symbol.begin + k])), symbol.begin + k,
                   symbol.begin + k + 1);
    } else if (options.unknown >= 0 && !(afterUnknown && options.fuseUnknown)) {
      tokens.add(options.unknown, symbol.begin, symbol.begin + symbol.length);
    } else if (options.unknown >= 0) {
      tokens.widen(symbol.begin, symbol.begin + symbol.length);
    }
    afterUnknown = !fallback;
  }
}

void BpeModel::encode(std::string_view word, TokenList &tokens) {
  if (options.ignoreMerges) {
    int32_t whole = vocabulary.find(word);
    if (whole >= 0) {
      tokens.add(whole, 0, word.size());
      return;
    }
  }
  split(word);
  join(word);
  emit(word, tokens);
}

} // namespace heddle
