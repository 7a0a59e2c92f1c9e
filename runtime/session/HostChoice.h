// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule of runtime/device/TokenChoice.h on the CPU: the same tokens as a device chooses.
#ifndef HEDDLE_RUNTIME_SESSION_HOSTCHOICE_H
#define HEDDLE_RUNTIME_SESSION_HOSTCHOICE_H

#include "runtime/device/TokenChoice.h"

#include <cstddef>
#include <cstdint>

namespace heddle {

uint64_t rankOfToken(float logit, float top, float inverseTemperature, int32_t id);

// Of `count` tokens, at least one, of any order of ids that goes up. Reorders the ranks.
int32_t chooseByRank(uint64_t *ranks, size_t count, const heddle_token_choice &choice);

// Of (vocab_size) logits; `ranks` has room for as many.
int32_t chooseToken(const float *logits, int64_t vocabSize, const heddle_token_choice &choice, uint64_t *ranks);

} // namespace heddle

#endif
