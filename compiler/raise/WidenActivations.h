// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An exporter of f16 or bf16 weights rounds every activation to 16 bits; a decoder's program keeps weights as they are stored and
// computes between them in f32.
#ifndef HEDDLE_COMPILER_RAISE_WIDENACTIVATIONS_H
#define HEDDLE_COMPILER_RAISE_WIDENACTIVATIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// Every float of 16 bits but the weights becomes f32, results included, and casts between the two vanish. A graph that reads the
// bits of such a float stays as it is. Arguments are no floats. What the constants were rounded to is left as an attribute of the graph.
inline constexpr llvm::StringLiteral widenedAttr = "heddle.widened";
void widenActivations(mlir::func::FuncOp graph);

} // namespace heddle

#endif
