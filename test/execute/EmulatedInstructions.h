// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bf16, byte and tile instructions of x86 in plain arithmetic, so that kernels made for processors that have them run, with
// their addresses, shapes and edges, on those that have not.
#ifndef HEDDLE_TEST_EXECUTE_EMULATEDINSTRUCTIONS_H
#define HEDDLE_TEST_EXECUTE_EMULATEDINSTRUCTIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace heddle::test {

// Replaces vdpbf16ps, vcvtne2ps2bf16, vpdpbusd, vpmaddwd and the AMX instructions in every function of `module`, which is not lowered yet.
// What the processor answers with an exception (a tile without a shape, shapes that do not multiply) ends the process.
void emulateInstructions(mlir::ModuleOp module);

} // namespace heddle::test

#endif
