// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/TokenizerModels.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace heddle {

static size_t countCharacters(std::string_view word) {
  return static_cast<size_t>(std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void encodeWordPiece(const Vocabulary &vocabulary, const ModelOptions &options, std::string_view word,
                     TokenList &tokens) {
  size_t first = tokens.ids.size();
  bool known = countCharacters(word) <= options.maxWord;
  std::string decorated;
  for (size_t begin = 0; known && begin < word.size();) {
    size_t end = word.size();
    int32_t id = -1;
    while (end > begin) {
      std::string_view part = word.substr(begin, end - begin);
      if (begin) {
        decorated.assign(options.continuingPrefix).append(part);
        part = decorated;
      }
      id = vocabulary.find(part);
      if (id >= 0)
        break;
      previousCharacter(word, end);
    }
    known = id >= 0;
    if (known)
      tokens.add(id, begin, end);
    begin = end;
  }
  // One character without a piece makes the whole word unknown.
  if (!known) {
    if (tokens.ranges)
      tokens.ranges->resize(tokens.ranges->size() - (tokens.ids.size() - first));
    tokens.ids.resize(first);
    if (options.unknown >= 0)
      tokens.add(options.unknown, 0, word.size());
  }
}

} // namespace heddle
