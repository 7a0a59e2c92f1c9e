// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle tokenize`: JSON lines in, JSON lines out, answers in the order of the questions.
//
//   {"text": …}     -> {"ids": […]}
//   {"ids": […]}    -> {"text": …}           with --decode
//   {"messages": …} -> {"text": …, "ids": …} with --chat
#ifndef HEDDLE_FRONTENDS_TOKENIZER_TOKENIZETOOL_H
#define HEDDLE_FRONTENDS_TOKENIZER_TOKENIZETOOL_H

#include <cstdio>
#include <string>

namespace heddle {

struct TokenizeOptions {
  bool noSpecial = false; // parse and add no special tokens; with decode: leave them out of the text
  bool decode = false;
  bool chat = false;
};

// Answers every line of `in` until its end. Returns the exit code: 0, 1 if `in` cannot be read or `out` cannot be written, or 2 if the model or a line is
// at fault, which one line on `errors` explains; the lines before it are answered. A line is at most 64 MiB.
int runTokenize(const std::string &model, const TokenizeOptions &options, FILE *in, FILE *out, FILE *errors);

// The same from the command line's words after `tokenize`: MODEL [--no-special] [--decode] [--chat].
int runTokenizeCommand(int argc, const char *const *argv, FILE *in, FILE *out, FILE *errors);

} // namespace heddle

#endif
