// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_COMPILER_TOOLS_REDUCEMODULE_H
#define HEDDLE_COMPILER_TOOLS_REDUCEMODULE_H

namespace heddle {

// The pass heddle-reduce-module, of heddle-reduce alone: it runs a program.
void registerReduceModule();

} // namespace heddle

#endif
