// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ids to text, one at a time: what comes out is always whole UTF-8, so that it can be shown at once.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENDECODER_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TOKENDECODER_H

#include "runtime/text/tokenizer/Tokenizer.h"

namespace heddle {

class TokenDecoder {
public:
  // Whether the decoder steps of `table` are ones that a stream can follow.
  static bool check(const package::Tokenizer &table, std::string &error);

  // `tokenizer` outlives the object. Special tokens give their text, or nothing if `skipSpecial`.
  TokenDecoder(const Tokenizer &tokenizer, bool skipSpecial) : tokenizer(tokenizer), skipSpecial(skipSpecial) {}

  // Appends the text that `id` completes. A character whose bytes are not all there yet is held back. A model may have more rows
  // than its tokenizer has tokens (padding): those have no text.
  void append(int32_t id, std::string &out);
  // Appends what is held back: bytes that never became a character are U+FFFD.
  void finish(std::string &out);

  // The bytes that `id` stands for behind other tokens: what append() gives, without waiting for whole characters.
  static std::string bytesOf(const Tokenizer &tokenizer, int32_t id);

private:
  // The text of a token that there is, after the decoder's steps for single tokens. `outRest`: the index of the first step behind them.
  std::string decodeToken(int32_t id, uint32_t &outRest);
  void applyToken(const package::TextStep &step, int32_t id, std::string &token);
  void flushWhole(bool last, std::string &out);

  const Tokenizer &tokenizer;
  bool skipSpecial;
  bool first = true;         // no token was decoded yet
  bool spaceOwed = false;    // SuffixJoin: a space goes before the next token
  uint32_t startTrimmed = 0; // TrimToken after Fuse: how often it took from the start
  bool started = false;      // the start is behind us
  std::string held;          // bytes of a character that is not whole
};

} // namespace heddle

#endif
