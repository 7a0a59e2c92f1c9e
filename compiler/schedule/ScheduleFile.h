// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of measured schedules, which `heddle tune` writes and `heddle compile --schedules=FILE` reads: JSON, README.md says what is in it.
#ifndef HEDDLE_COMPILER_SCHEDULE_SCHEDULEFILE_H
#define HEDDLE_COMPILER_SCHEDULE_SCHEDULEFILE_H

#include "bytes/Status.h"
#include "dialect/ScheduleAttrs.h"

namespace heddle {

// `outEntries`: as a module for `target` has them (TunedSchedules.h). The dialect is loaded in `context`. Every schedule is one that kernels of
// the target can be built with. The status is one line that names the file and the entry, by its number from 1.
Status readScheduleFile(const std::string &path, TargetAttr target, mlir::MLIRContext *context,
                        mlir::ArrayAttr &outEntries);

// The text of such a file. `cpu`: the processor's name, for people.
std::string printScheduleFile(llvm::StringRef cpu, TargetAttr target, mlir::ArrayAttr entries);

} // namespace heddle

#endif
