// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels that are the runtime's own: they choose a token from each row of logits, so that a device gives an answer 4 bytes of a token
// instead of a vocabulary of logits.
#ifndef HEDDLE_RUNTIME_DEVICE_TOKENCHOOSER_H
#define HEDDLE_RUNTIME_DEVICE_TOKENCHOOSER_H

namespace heddle {

// Called with (const float *logits (rows, count), const heddle_token_choice *choices (rows), int32_t *ids (rows), int32_t count), a block for each
// row. An id is what its choice chooses (TokenChoice.h), without choices the largest logit, of equal ones the first; -1 where one is infinite or NaN.
struct TokenChooser {
  const char *code, *entry;
  unsigned threads, sharedBytes; // of a block
  bool takesChoices;             // else it has no such parameter, and finds the largest alone
};

namespace token_chooser {

TokenChooser ofOpenCl();
TokenChooser ofCuda();
const char *ptxCode(); // ChooseTokens.c

} // namespace token_chooser
} // namespace heddle

#endif
