// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tuples whose values are stored by different threads: a kernel of a device then has several results, that are no more alike than their loops.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_STOREDIF_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_STOREDIF_H

#include "Halide.h"

namespace heddle {

// `value`, f32 or 16 bits wide, as one of a tuple that becomes a result: stored where `condition` holds. Halide itself has conditions for whole tuples alone.
Halide::Expr storedIf(Halide::Expr condition, Halide::Expr value);

// Leaves the stores of such values to their conditions. Owned by the pipeline that it is added to.
Halide::Internal::IRMutator *makeStoreIf();

} // namespace heddle

#endif
