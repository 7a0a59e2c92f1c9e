// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Patterns of pre-tokenizers as programs (runtime/text/tokenizer/CutProgram.h), so that what a model is compiled to needs no engine of regular expressions.
#ifndef HEDDLE_FRONTENDS_TOKENIZER_CUTPROGRAMWRITER_H
#define HEDDLE_FRONTENDS_TOKENIZER_CUTPROGRAMWRITER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle {

// The program of `pattern`, which finds what the engine finds; empty where the pattern uses more than programs have: anchors, what stands behind the
// match, references, lazy or nested repetitions, and flags but for (?i:…).
std::vector<uint32_t> writeCutProgram(std::string_view pattern);

} // namespace heddle

#endif
