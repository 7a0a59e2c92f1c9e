// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary embedding of queries and keys as one op, where they are neighbours in what one product made, and with what the cache takes of it.
#ifndef HEDDLE_COMPILER_SCHEDULE_JOINROTATIONS_H
#define HEDDLE_COMPILER_SCHEDULE_JOINROTATIONS_H

#include "dialect/ScheduleAttrs.h"

#include "mlir/IR/Block.h"

namespace heddle {

// A kernel of a device has one result. `rope`s of adjacent columns of the same rows, by the same angles, become one of all their heads, whose
// columns are what each of them left.
void joinRotations(mlir::Block &block);

// Then: where the target has a kernel for both, rotating queries and keys, whose heads may be normalised before, and storing what is cached of the
// same product becomes a `rotate_append`, which takes the product along that nothing else reads.
void appendRotations(mlir::Block &block, TargetAttr target);

} // namespace heddle

#endif
