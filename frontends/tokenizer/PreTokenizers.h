// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tokenizer.ggml.pre: the cutting patterns that GGUF knows by name. The patterns are those of the models' own tokenizer.json.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_PRETOKENIZERS_H
#define HEDDLE_FRONTENDS_TOKENIZER_PRETOKENIZERS_H

#include "frontends/tokenizer/TokenizerDraft.h"

namespace heddle {

struct NamedPreTokenizer {
  // Whether BOS begins a prompt: as add_bos_token says; also where it says nothing; or whatever it says, where converters are known to have
  // written false for models that always have it.
  enum class Bos { AsTold, ByDefault, Always };
  std::vector<const char *> patterns; // applied one after the other
  Bos bos = Bos::AsTold;
  bool ignoreMerges = false;
  bool isByteLevel =
      true; // else pieces are text with U+2581 for a space, and a character without a piece becomes tokens of its bytes
};

// Null for a name that is not known; knownPreTokenizers lists those that are.
const NamedPreTokenizer *findPreTokenizer(std::string_view name);
std::string knownPreTokenizers();

// The pattern of GPT-2, which "ByteLevel" of tokenizer.json stands for.
extern const char *const gpt2Pattern;

} // namespace heddle

#endif
