// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one place that knows numbers of hardware: a table per target, with what each row was chosen by.
#ifndef HEDDLE_COMPILER_SCHEDULE_SCHEDULETABLE_H
#define HEDDLE_COMPILER_SCHEDULE_SCHEDULETABLE_H

#include "dialect/ScheduleAttrs.h"

namespace heddle {

// Names of the attributes: of a module, of one whose graphs run elsewhere than its step, and of a kernel op.
inline constexpr llvm::StringLiteral targetAttrName = "heddle.target", graphTargetAttrName = "heddle.graph_target",
                                     scheduleAttrName = "heddle.schedule";

// Keys whose partial result is formed by itself unless an op says otherwise.
inline constexpr int64_t defaultSplitKv = 512;

// What a schedule depends on beside the op and the target.
struct ScheduleOptions {
  bool isInStep = false;     // threads of a step have scratch memory; tasks of a graph are no thread's
  bool bf16Products = false; // what reads bf16 multiplies bf16
};

// Of products over `k` columns with weights packed in `format`; 0 and empty: any.
ScheduleAttr matmulSchedule(TargetAttr target, bool isInStep = false, llvm::StringRef format = {}, int64_t k = 0);
// Of products of bytes whose sums stay integers, on a CPU.
ScheduleAttr integerMatmulSchedule(TargetAttr target);
// Of attention in blocks of `blockKv` keys and splits of `splitKv`. Null where the target's kernel has no such numbers. `inPairs`: a CPU
// multiplies pairs of bf16, as it is asked for.
ScheduleAttr attentionSchedule(TargetAttr target, int64_t headDim, int64_t blockKv = 64,
                               int64_t splitKv = defaultSplitKv, bool inPairs = false);
// Whether the target has kernels of that attention to splits of the keys, and of their merge; null: a CPU.
bool hasSplits(TargetAttr target, mlir::Operation *attention);
// Whether it has a kernel that rotates queries and keys and stores what such a cache holds of them.
bool hasRotateAppend(TargetAttr target, KvCacheType cache);
// Whether it multiplies many rows with weights of that format on tensor cores, as bf16, though no file has them so.
bool roundsForTensorCores(TargetAttr target, llvm::StringRef format);
// Whether its kernels of that product can end with the rotation of its rows, which are so many heads.
bool endsWithHeads(TargetAttr target, PackedMatmulOp product, int64_t heads);
// Of kernels that compute row by row. Null for CPUs.
ScheduleAttr rowsSchedule(TargetAttr target);

// Of the kernels of `op`; null for ops whose kernels have no such numbers.
ScheduleAttr scheduleFor(mlir::Operation *op, TargetAttr target, ScheduleOptions options = {});

} // namespace heddle

#endif
