// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Vocabulary.h"

#include <cmath>

namespace heddle {

static uint64_t hashBytes(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u; // FNV-1a, then a finaliser that spreads it to the low bits
  for (char c : bytes)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash ^ hash >> 29;
}

static uint64_t hashPair(uint32_t left, uint32_t right) {
  uint64_t key = (static_cast<uint64_t>(left) << 32 | right) * 0x9e3779b97f4a7c15u;
  return key ^ key >> 31;
}

static size_t slotsFor(size_t count) {
  size_t slots = 16;
  while (slots < 2 * count)
    slots *= 2;
  return slots;
}

bool Vocabulary::has(int32_t id, package::PieceFlag flag) const {
  return pieces->Get(static_cast<uint32_t>(id))->flags() & static_cast<uint8_t>(flag);
}

std::string_view Vocabulary::text(int32_t id) const {
  const package::Piece *piece = pieces->Get(static_cast<uint32_t>(id));
  return {blob + piece->offset(), piece->length()};
}

bool Vocabulary::create(const package::Tokenizer &table, std::string &error) {
  return checkPieces(table, error) && checkMerges(table, error);
}

// The value of "<0x41>", or -1: exactly two hexadecimal digits.
static int byteValue(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>')
    return -1;
  int value = 0;
  for (char c : text.substr(3, 2)) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool Vocabulary::checkPieces(const package::Tokenizer &table, std::string &error) {
  pieces = table.pieces();
  numPieces = pieces ? pieces->size() : 0;
  size_t textSize = table.text() ? table.text()->size() : 0;
  blob = textSize ? reinterpret_cast<const char *>(table.text()->data()) : "";
  if (!numPieces || numPieces > INT32_MAX / 4) {
    error = "tokenizer: a vocabulary of " + std::to_string(numPieces) + " pieces";
    return false;
  }
  for (int32_t &token : byteTokens)
    token = -1;
  pieceSlots.assign(slotsFor(numPieces), 0);
  bool byteLevel = table.model() == package::TokenizerModel::ByteLevelBpe;
  for (uint32_t id = 0; id < numPieces; ++id) {
    const package::Piece &piece = *pieces->Get(id);
    if (piece.offset() > textSize || piece.length() > textSize - piece.offset() || std::isnan(piece.score())) {
      error = "tokenizer: piece " + std::to_string(id) + " is damaged";
      return false;
    }
    std::string_view bytes = text(static_cast<int32_t>(id));
    if (piece.kind() == package::TokenKind::Byte && byteValue(bytes) >= 0)
      byteTokens[byteValue(bytes)] = static_cast<int32_t>(id);
    if (piece.kind() == package::TokenKind::Absent ||
        (piece.flags() & static_cast<uint8_t>(package::PieceFlag::Unmatched)))
      continue;
    if (byteLevel && bytes.size() == 1)
      byteTokens[static_cast<uint8_t>(bytes[0])] = static_cast<int32_t>(id);
    if (bytes.size() > longest)
      longest = bytes.size();
    size_t mask = pieceSlots.size() - 1, slot = hashBytes(bytes) & mask;
    while (pieceSlots[slot] && text(static_cast<int32_t>(pieceSlots[slot] - 1)) != bytes)
      slot = (slot + 1) & mask;
    if (!pieceSlots[slot])
      pieceSlots[slot] = id + 1;
  }
  return true;
}

bool Vocabulary::checkMerges(const package::Tokenizer &table, std::string &error) {
  merges = table.merges();
  numMerges = merges ? merges->size() : 0;
  if (numMerges > INT32_MAX / 4) {
    error = "tokenizer: " + std::to_string(numMerges) + " merges";
    return false;
  }
  mergeSlots.assign(numMerges ? slotsFor(numMerges) : 0, 0);
  for (uint32_t rank = 0; rank < numMerges; ++rank) {
    const package::Merge &merge = *merges->Get(rank);
    if (merge.left() >= numPieces || merge.right() >= numPieces || merge.result() >= numPieces) {
      error = "tokenizer: merge " + std::to_string(rank) + " names a piece beyond the vocabulary";
      return false;
    }
    size_t mask = mergeSlots.size() - 1, slot = hashPair(merge.left(), merge.right()) & mask;
    bool known = false;
    for (; mergeSlots[slot] && !known; slot = known ? slot : (slot + 1) & mask) {
      const package::Merge &other = *merges->Get(mergeSlots[slot] - 1);
      known = other.left() == merge.left() && other.right() == merge.right();
    }
    if (!known)
      mergeSlots[slot] = rank + 1;
  }
  return true;
}

int32_t Vocabulary::find(std::string_view bytes) const {
  if (bytes.size() > longest)
    return -1;
  size_t mask = pieceSlots.size() - 1;
  for (size_t slot = hashBytes(bytes) & mask; pieceSlots[slot]; slot = (slot + 1) & mask) {
    int32_t id = static_cast<int32_t>(pieceSlots[slot] - 1);
    if (text(id) == bytes)
      return id;
  }
  return -1;
}

int32_t Vocabulary::findMerge(int32_t left, int32_t right) const {
  if (left < 0 || right < 0 || mergeSlots.empty())
    return -1;
  size_t mask = mergeSlots.size() - 1;
  for (size_t slot = hashPair(static_cast<uint32_t>(left), static_cast<uint32_t>(right)) & mask; mergeSlots[slot];
       slot = (slot + 1) & mask) {
    const package::Merge &candidate = *merges->Get(mergeSlots[slot] - 1);
    if (candidate.left() == static_cast<uint32_t>(left) && candidate.right() == static_cast<uint32_t>(right))
      return static_cast<int32_t>(mergeSlots[slot] - 1);
  }
  return -1;
}

} // namespace heddle
