// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_STEPROWS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_STEPROWS_H

#include <cstdint>

namespace heddle {

// Rows of a step at most: prompts are read in chunks of this size.
inline constexpr int64_t maxStepRows = 512;

} // namespace heddle

#endif
