// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SentencePiece's compiled character map: replacements of character sequences, found in a double-array trie.
//
//   u32 bytes of the trie | trie: u32 units | replacements, each ended by NUL
//
// A unit holds either a value (its low 31 bits, reached through the unit that says it has a leaf) or a label and the offset of
// its children. Source: the SentencePiece and Darts-clone papers' public descriptions of the format.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_CHARSMAP_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_CHARSMAP_H

#include <flatbuffers/flatbuffers.h>

#include <string>
#include <string_view>

namespace heddle {

class Charsmap {
public:
  using Bytes = flatbuffers::Vector<uint8_t>;
  // Whether sizes fit and the replacements end; `error` says what not.
  static bool check(const Bytes *bytes, std::string &error);
  // `bytes` passed check and outlives the object.
  explicit Charsmap(const Bytes &bytes);
  // Appends `text` with the longest known sequence at each character replaced. Stops once `out` is longer than `limit`.
  void map(std::string_view text, size_t limit, std::string &out) const;

private:
  uint32_t unit(size_t index) const;
  size_t longestMatch(std::string_view text, std::string_view &replacement) const;

  const uint8_t *trie = nullptr;
  size_t numUnits = 0;
  std::string_view replacements;
};

} // namespace heddle

#endif
