// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one kernel that is the runtime's own: which of a row's logits is the largest, so that a device gives a greedy
// answer 4 bytes of a token instead of a vocabulary of logits.
#ifndef HEDDLE_RUNTIME_DEVICE_LARGESTLOGIT_H
#define HEDDLE_RUNTIME_DEVICE_LARGESTLOGIT_H

namespace heddle::largest_logit {

// (const float *logits (rows, count), int32_t *result (rows), int32_t count), a block of `threads` for each row. The
// result is the index of the largest number, of equal ones the first; -1 where one is infinite or NaN.
constexpr char entry[] = "heddle_largest_logit";
constexpr unsigned threads = 128;
constexpr unsigned sharedBytes = threads * 8; // a number and its index for each thread

const char *openClCode();
const char *ptxCode();

} // namespace heddle::largest_logit

#endif
