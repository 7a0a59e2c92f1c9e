// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers that live across the barriers of a block: sums that a thread goes on adding to while all threads stage what it reads next.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_OWNREGISTERS_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_OWNREGISTERS_H

#include "Halide.h"

#include <string>
#include <vector>

namespace heddle {

// A Func that is computed for a block outside of its loops over threads, and stored in registers. Its first `elements` are one thread's,
// of which it reads what it wrote alone; those of other threads lie behind.
struct OwnRegisters {
  std::string func;
  int elements;
};

// Halide gives every thread an array for the elements of all. This pass leaves it those that are its own, at places that are constants.
// Owned by the pipeline that it is added to.
Halide::Internal::IRMutator *makeKeepOwnRegisters(std::vector<OwnRegisters> funcs);

} // namespace heddle

#endif
