// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a kernel's Funcs are run: the second of its two paragraphs.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_SCHEDULES_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_SCHEDULES_H

#include "compiler/codegen/halide/Algorithms.h"

namespace heddle {

// `lanes`: f32 values of a vector register.
void scheduleRows(Algorithm &algorithm, unsigned lanes);

// A block of `blockThreads` threads, side by side along the innermost dimension, for each row; for one result
// (DeviceSchedules.cpp).
void scheduleRowsOnDevice(Algorithm &algorithm, int64_t blockThreads);

} // namespace heddle

#endif
