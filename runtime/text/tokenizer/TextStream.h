// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of an answer, token by token: whole characters that are certain not to belong to a stop string.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTSTREAM_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_TEXTSTREAM_H

#include "runtime/text/tokenizer/StopMatcher.h"
#include "runtime/text/tokenizer/TokenDecoder.h"

#include <optional>

namespace heddle {

class TextStream {
public:
  // `tokenizer` outlives the object; null: tokens have no text. Special tokens give theirs, or nothing if `skipSpecial`.
  TextStream(const Tokenizer *tokenizer, bool skipSpecial, std::vector<std::string> stops) : stops(std::move(stops)) {
    if (tokenizer)
      decoder.emplace(*tokenizer, skipSpecial);
  }

  // Appends the text that `id` completes. True once a stop string was found.
  bool append(int32_t id, std::string &out);
  // Appends what is held back at the end of the stream.
  void finish(std::string &out);
  bool isStopped() const { return stopped; }

private:
  std::optional<TokenDecoder> decoder;
  StopMatcher stops;
  bool stopped = false;
};

} // namespace heddle

#endif
