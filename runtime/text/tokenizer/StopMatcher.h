// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ends a stream of text at the first of some strings: text that may still become one of them is held back.
#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_STOPMATCHER_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_STOPMATCHER_H

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

class StopMatcher {
public:
  explicit StopMatcher(std::vector<std::string> stops) : stops(std::move(stops)) {}

  // Takes more text and appends what is certain to come before every stop string. True once one was found.
  bool append(std::string_view text, std::string &out);
  // Appends what is held back at the end of the stream.
  void finish(std::string &out);

private:
  std::vector<std::string> stops; // none empty
  std::string held;
  bool found = false;
};

} // namespace heddle

#endif
