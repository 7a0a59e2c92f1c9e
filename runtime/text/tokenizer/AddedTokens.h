// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Added tokens: pieces that are matched as a whole before the model sees the text. At each position the longest wins; one that must
// stand alone and does not is passed over as a whole.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_ADDEDTOKENS_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_ADDEDTOKENS_H

#include "runtime/text/tokenizer/TextOrigins.h"
#include "runtime/text/tokenizer/Vocabulary.h"

namespace heddle {

// Whether [begin, end) meets one of `ranges`, which are ordered and disjoint.
bool overlaps(const std::vector<TextRange> &ranges, size_t begin, size_t end);

// A stretch of text between added tokens (id -1), or an added token.
struct TextSection {
  uint32_t begin, end;
  int32_t id;
};

class AddedTokens {
public:
  // `spelling` is what is looked for: the piece's text, normalised for tokens that are matched in normalised text.
  void add(std::string_view spelling, int32_t id);
  bool empty() const { return nodes.empty(); }

  // Which added tokens may match: special ones only outside `untrusted` (ordered, disjoint), and only if `special`.
  struct Rules {
    const Vocabulary &vocabulary;
    bool special;
    const std::vector<TextRange> &untrusted;
  };
  // Cuts `text` into stretches and tokens, in order, nothing empty, white space of lstrip and rstrip tokens counted to them.
  std::vector<TextSection> split(std::string_view text, const Rules &rules) const;

private:
  struct Node {
    int32_t id = -1;
    uint32_t child = 0, sibling = 0; // 0: none
    char byte = 0;
  };
  uint32_t step(uint32_t node, char byte) const;
  int32_t longestMatch(std::string_view text, size_t begin, const Rules &rules, size_t &end) const;

  std::vector<Node> nodes; // a trie; node 0 is the root
};

} // namespace heddle

#endif
