// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle-tokenize: `heddle tokenize` without the compiler around it, for builds without LLVM.
#include "frontends/tokenizer/TokenizeTool.h"

#include <cstring>

int main(int argc, char **argv) {
  bool named = argc > 1 && strcmp(argv[1], "tokenize") == 0;
  return heddle::runTokenizeCommand(argc - 1 - named, argv + 1 + named, stdin, stdout, stderr);
}
