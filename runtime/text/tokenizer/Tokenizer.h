// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text to ids and back, straight from the package's table.
//
//   text -> added tokens -> normalizer -> added tokens of normalised text -> pre-tokenizer -> model -> ids
//
// A Tokenizer is read-only once created: threads may share it. Texts are UTF-8 of at most 16 MiB.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENIZER_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENIZER_H

#include "runtime/text/tokenizer/TextSteps.h"
#include "runtime/text/tokenizer/TokenizerModels.h"

#include <memory>

namespace heddle {

struct EncodeOptions {
  bool parseSpecial = true; // special tokens spelled in the text become their ids
  bool addSpecial = true;   // BOS, EOS, CLS … around the text, where the model wants them
  // Stretches of the text that come from users (ordered, disjoint): special tokens spelled there stay text.
  std::vector<TextRange> untrusted;
};

// Bytes [begin, end) of the text that a token stands for, white space around them left out, and which of the words that the text is cut into it
// is part of. Of a token that stands for no text: 0, 0 and -1.
struct TokenPlace {
  uint32_t begin = 0, end = 0;
  int32_t word = -1;
};

class Tokenizer {
public:
  static constexpr size_t maxText = 16 << 20;

  // Null, with the reason in `error`, if the table does not make sense. `table` outlives the object.
  static std::unique_ptr<Tokenizer> create(const package::Tokenizer &table, std::string &error);

  // Appends the ids of `text`. False, with the reason in `error`, for a text that is too long or not UTF-8, and where a
  // pre-tokenizer hits its limits; `ids` is unspecified then. `places`: of each of the ids; may be null.
  bool encode(std::string_view text, const EncodeOptions &options, std::vector<int32_t> &ids, std::string &error,
              std::vector<TokenPlace> *places = nullptr) const;

  // Appends the text of `ids`, whole; bytes that are not UTF-8 become U+FFFD. False for an id out of range.
  bool decode(const std::vector<int32_t> &ids, bool skipSpecial, std::string &text, std::string &error) const;

  const package::Tokenizer &table() const { return *source; }
  const Vocabulary &vocabulary() const { return pieces; }
  int32_t size() const { return pieces.size(); }
  bool isSpecial(int32_t id) const { return pieces.has(id, package::PieceFlag::Special); }

private:
  struct Models;
  Tokenizer() = default;
  bool checkIds(std::string &error) const;
  bool readOptions(std::string &error);
  bool addAddedTokens(std::string &error);
  bool encodeSection(std::string_view text, TextSection section, const EncodeOptions &options, Models &models,
                     std::vector<int32_t> &ids, std::string &error, std::vector<TokenPlace> *places) const;
  void encodeWord(std::string_view word, Models &models, TokenList tokens) const;
  // A range of the text as the place of a token of a word, which is a new one.
  static TokenPlace placeOf(std::string_view text, TextRange range, int32_t word);

  const package::Tokenizer *source = nullptr;
  Vocabulary pieces;
  ModelOptions modelOptions;
  TextSteps steps;
  AddedTokens rawAdded, normalizedAdded;
  std::vector<int32_t> sortedPieces; // Unigram
};

} // namespace heddle

#endif
