// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose keys and values are tensors, as graphs have it: as one kernel, or as loops.
#ifndef HEDDLE_COMPILER_SCHEDULE_TENSORATTENTION_H
#define HEDDLE_COMPILER_SCHEDULE_TENSORATTENTION_H

#include "dialect/HeddleDialect.h"

namespace heddle {

// Why `op` has no form as a kernel; empty if it has one.
std::string missingFlashAttention(AttentionOp op);

// Replaces `op`, for which nothing is missing, by `flash_attention`, which also takes the place of the transposes around it.
// Sizes that only the run knows are compared there.
void lowerToFlashAttention(AttentionOp op);

// Replaces any `op` by `linalg` loops that store its scores: slow, but for every type and size.
void decomposeAttention(AttentionOp op);

// Replaces `op` by the loop that computes it.
void decomposePositionBias(PositionBiasOp op);

} // namespace heddle

#endif
