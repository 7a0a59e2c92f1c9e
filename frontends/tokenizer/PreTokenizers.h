// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tokenizer.ggml.pre: the cutting patterns that GGUF knows by name. The patterns are those of the models' own tokenizer.json.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_PRETOKENIZERS_H
#define HEDDLE_FRONTENDS_TOKENIZER_PRETOKENIZERS_H

#include "frontends/tokenizer/TokenizerDraft.h"

namespace heddle {

struct NamedPreTokenizer {
  std::vector<const char *> patterns; // applied one after the other
  bool addBos = false;                // where the file does not say
  bool ignoreMerges = false;
};

// Null for a name that is not known; knownPreTokenizers lists those that are.
const NamedPreTokenizer *findPreTokenizer(std::string_view name);
std::string knownPreTokenizers();

// The pattern of GPT-2, which "ByteLevel" of tokenizer.json stands for.
extern const char *const gpt2Pattern;

} // namespace heddle

#endif
