// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle tune`: measures schedules of a model's kernels on this machine.
#ifndef HEDDLE_COMPILER_TUNE_TUNEMODEL_H
#define HEDDLE_COMPILER_TUNE_TUNEMODEL_H

#include "compiler/Compile.h"

namespace heddle {

struct TuneOptions {
  CompileOptions compile; // the model, as it is going to be compiled; `output` is the file of schedules
  int32_t threads = 0;    // 0: the machine's cores
  bool quick = false;     // one candidate of each choice, a moment each: to try the way, not to choose by
};

// Writes the file (compiler/schedule/ScheduleFile.h), and on stderr a line for each kernel: candidates, times of the table's schedule and of
// the best. After a failure there is no file, or the previous one.
Status tuneModel(const TuneOptions &options);

} // namespace heddle

#endif
