// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The four models that turn a word (a stretch of text between pre-tokenizer cuts) into pieces.
//
//   Bpe        joins adjacent pieces, lowest rank or highest score first (Sennrich et al. 2016, arXiv:1508.07909; SentencePiece)
//   Unigram    the most probable segmentation (Kudo 2018, arXiv:1804.10959), by Viterbi
//   WordPiece  the longest piece that matches, again and again (BERT, arXiv:1810.04805)
//
// Each is O(n log n) in the length of a word, times the longest piece.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENIZERMODELS_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENIZERMODELS_H

#include "runtime/text/tokenizer/TextOrigins.h"
#include "runtime/text/tokenizer/Vocabulary.h"

#include <algorithm>

namespace heddle {

// What every model needs beside the pieces.
struct ModelOptions {
  package::TokenizerModel model = package::TokenizerModel::None;
  int32_t unknown = -1;         // -1: what has no piece is dropped
  bool byteFallback = false;    // what has no piece becomes byte tokens
  bool ignoreMerges = false;    // a whole word that is a piece is that piece
  bool fuseUnknown = false;     // adjacent unknown characters give one token
  std::string continuingPrefix; // "##"
  std::string endOfWordSuffix;  // "</w>"
  uint32_t maxWord = 100;
  double unknownScore = 0; // Unigram: of a character without a piece
};

// What a model appends to: ids and, where they are asked for, the bytes of the word that each stands for.
struct TokenList {
  std::vector<int32_t> &ids;
  std::vector<TextRange> *ranges = nullptr;

  void add(int32_t id, size_t begin, size_t end) {
    ids.push_back(id);
    if (ranges)
      ranges->push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  }
  // The last token stands for bytes [begin, end) as well, beside its own.
  void widen(size_t begin, size_t end) {
    if (!ranges)
      return;
    TextRange &last = ranges->back();
    last = {std::min(last.begin, static_cast<uint32_t>(begin)), std::max(last.end, static_cast<uint32_t>(end))};
  }
};

class BpeModel {
public:
  BpeModel(const Vocabulary &vocabulary, const ModelOptions &options)
      : vocabulary(vocabulary), options(options),
        ranked(vocabulary.hasMerges() || options.model == package::TokenizerModel::ByteLevelBpe) {}
  void encode(std::string_view word, TokenList &tokens);

private:
  // A run of bytes that is one piece so far; length 0 once it was joined to its left neighbour.
  struct Symbol {
    uint32_t begin, length;
    int32_t id; // -1: no piece yet
    int32_t next, previous;
  };
  // A join that was possible when it was queued. `check` tells whether it still is: the right id, or the joined length.
  struct Candidate {
    double order; // smaller first: rank, or minus score
    int32_t left;
    uint32_t check;
  };
  static bool after(const Candidate &a, const Candidate &b);
  void split(std::string_view word);
  void splitCharacter(std::string_view word, size_t begin, size_t end);
  void append(uint32_t begin, size_t length, int32_t id);
  void offer(std::string_view word, int32_t left);
  void join(std::string_view word);
  void emit(std::string_view word, TokenList &tokens);

  const Vocabulary &vocabulary;
  const ModelOptions &options;
  const bool ranked; // joins by rank, not by score
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;
};

class UnigramModel {
public:
  UnigramModel(const Vocabulary &vocabulary, const ModelOptions &options, const std::vector<int32_t> &sorted)
      : vocabulary(vocabulary), options(options), sorted(sorted) {}
  void encode(std::string_view word, TokenList &tokens);
  // Ids of the pieces the model may answer, ordered by their bytes.
  static std::vector<int32_t> sortPieces(const Vocabulary &vocabulary);

private:
  struct Best {
    double score;
    uint32_t begin; // where the last piece of the best way to here starts
    int32_t id;
  };
  void relaxFrom(std::string_view word, size_t begin);

  const Vocabulary &vocabulary;
  const ModelOptions &options;
  const std::vector<int32_t> &sorted;
  std::vector<Best> best; // (bytes + 1)
};

void encodeWordPiece(const Vocabulary &vocabulary, const ModelOptions &options, std::string_view word,
                     TokenList &tokens);

} // namespace heddle

#endif
