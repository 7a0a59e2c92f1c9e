// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tokenizer.ggml.* of a GGUF file.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_GGUFTOKENIZER_H
#define HEDDLE_FRONTENDS_TOKENIZER_GGUFTOKENIZER_H

#include "frontends/gguf/Gguf.h"
#include "frontends/tokenizer/TokenizerDraft.h"

namespace heddle {

// Fills `draft`; its model stays None if the file has no tokenizer.
Status readGgufTokenizer(const GgufFile &file, TokenizerDraft &draft);

} // namespace heddle

#endif
