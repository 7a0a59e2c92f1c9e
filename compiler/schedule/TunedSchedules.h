// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules that were measured on a machine, and come before those of the table (ScheduleTable.h). A module has them as `heddle.schedules`,
// an array of entries: {match = {kernel = "packed_matmul", format = "q4_0", n = 64 : i64}, schedule = #heddle.schedule<…>}. The first entry
// whose every key is that of the kernel says what it says, and leaves the rest to the table.
#ifndef HEDDLE_COMPILER_SCHEDULE_TUNEDSCHEDULES_H
#define HEDDLE_COMPILER_SCHEDULE_TUNEDSCHEDULES_H

#include "dialect/ScheduleAttrs.h"

#include <string>

namespace heddle {

inline constexpr llvm::StringLiteral schedulesAttrName = "heddle.schedules", matchKey = "match",
                                     scheduleKey = "schedule";

// What an entry may ask of a kernel.
struct ScheduleKey {
  llvm::StringRef name;
  llvm::ArrayRef<llvm::StringRef> words; // that it can be; none: a positive number, or of `format` a layout's name
};
// Of the kernels of that name; empty where no entry is about them.
llvm::ArrayRef<ScheduleKey> scheduleKeysOf(llvm::StringRef kernel);
llvm::ArrayRef<llvm::StringRef> scheduledKernels();

// All keys of the kernel of `op`, on a CPU, with `kernel`. `base` is its schedule in the table. Null where no entry is about it.
mlir::DictionaryAttr scheduleKeys(mlir::Operation *op, ScheduleAttr base);

// `base`, a CPU's, with what `tuned` sets: tiles by their role, and numbers that are not 0. The evidence is that of `tuned`. Fails, with
// the reason in `error`, where the kernel has no such tile or number, or where code generation does not take it.
mlir::FailureOr<ScheduleAttr> mergeSchedule(ScheduleAttr base, ScheduleAttr tuned, TargetAttr target,
                                            std::string &error);

// The schedule of `op`: `base`, merged with the first of `entries` that matches. Fails with an error at the op.
mlir::FailureOr<ScheduleAttr> tunedSchedule(mlir::ArrayAttr entries, mlir::Operation *op, ScheduleAttr base,
                                            TargetAttr target);

} // namespace heddle

#endif
