// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_STEPROWS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_STEPROWS_H

#include "compiler/codegen/machine/Target.h"

namespace heddle {

// Rows of a step at most: prompts are read in chunks of this size. 512 rows fill a processor's caches; of a GPU with 132 multiprocessors, tiles of
// 2,048 rows fill each with one of a product of 2,048 columns.
inline int64_t maxStepRows(const Target &target) {
  return target.device == DeviceKind::Cuda ? 2048 : 512;
}

} // namespace heddle

#endif
