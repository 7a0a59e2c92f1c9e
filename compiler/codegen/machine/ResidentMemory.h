// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What earlier stages leave in memory without need.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_RESIDENTMEMORY_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_RESIDENTMEMORY_H

namespace heddle {

// Gives back code of the shared LLVM, MLIR and Halide, which is mapped from their files and comes back when it is needed, and memory that
// was freed: what is resident is then that of the largest stage, not of all.
void releaseUnusedMemory();

} // namespace heddle

#endif
