// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens of an answer to text on stdout, as soon as characters are whole and certain not to belong to a stop string.
#ifndef HEDDLE_RUNTIME_CLI_ANSWERSTREAM_H
#define HEDDLE_RUNTIME_CLI_ANSWERSTREAM_H

#include "runtime/cli/Cli.h"
#include "runtime/text/tokenizer/TextStream.h"

namespace heddle {

class AnswerStream {
public:
  // Shows the text as it comes; with `keeps` it is there afterwards.
  AnswerStream(const OpenedModel &program, bool keeps);

  // False ends the answer: a stop string, a failed write or Ctrl-C.
  bool take(int32_t id);
  // Shows what was held back, and a newline if wanted.
  Status finish(bool newline);
  const std::string &text() const { return all; }

private:
  TextStream stream;
  bool keeps;
  std::string shown, all; // of the last token; of all that were kept
  Status status;
};

} // namespace heddle

#endif
