// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled model as its users do: BIN --io.
#ifndef HEDDLE_COMPILER_VERIFY_RUNBINARY_H
#define HEDDLE_COMPILER_VERIFY_RUNBINARY_H

#include "compiler/verify/Tensor.h"

#include <string>

namespace heddle {

// Logits of `binary` for one sequence, in the type and shape of `like`, (1, sequence, vocab_size). Files go to `folder`.
// On failure `error` is what the binary said.
bool runOnIds(const std::string &binary, const std::string &folder, llvm::ArrayRef<int64_t> ids, const Tensor &like,
              Tensor &outLogits, std::string &error);

} // namespace heddle

#endif
