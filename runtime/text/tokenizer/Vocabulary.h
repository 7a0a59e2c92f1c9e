// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pieces of a vocabulary, found by their bytes. Views into the package's table: nothing is copied per piece.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_VOCABULARY_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_VOCABULARY_H

#include "runtime/schema/package_generated.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

class Vocabulary {
public:
  // Checks every piece and merge of the table. `table` outlives the object.
  bool create(const package::Tokenizer &table, std::string &error);

  int32_t size() const { return static_cast<int32_t>(numPieces); }
  std::string_view text(int32_t id) const;
  float score(int32_t id) const { return pieces->Get(static_cast<uint32_t>(id))->score(); }
  package::TokenKind kind(int32_t id) const { return pieces->Get(static_cast<uint32_t>(id))->kind(); }
  bool has(int32_t id, package::PieceFlag flag) const;

  // The piece that the model answers for exactly these bytes, or -1.
  int32_t find(std::string_view bytes) const;
  // The piece that stands for one byte (<0x41> where bytes are a fallback), or -1.
  int32_t byteToken(uint8_t byte) const { return byteTokens[byte]; }

  // Rank of joining two adjacent pieces, or -1; what the join at a rank reads and gives.
  int32_t findMerge(int32_t left, int32_t right) const;
  const package::Merge &merge(int32_t rank) const { return *merges->Get(static_cast<uint32_t>(rank)); }
  bool hasMerges() const { return numMerges != 0; }

private:
  bool checkPieces(const package::Tokenizer &table, std::string &error);
  bool checkMerges(const package::Tokenizer &table, std::string &error);

  const flatbuffers::Vector<const package::Piece *> *pieces = nullptr;
  const flatbuffers::Vector<const package::Merge *> *merges = nullptr;
  const char *blob = nullptr;
  size_t numPieces = 0, numMerges = 0, longest = 0;
  std::vector<uint32_t> pieceSlots; // open addressing, at most half full: id + 1, 0 is free
  std::vector<uint32_t> mergeSlots; // likewise: rank + 1
  int32_t byteTokens[256];
};

} // namespace heddle

#endif
