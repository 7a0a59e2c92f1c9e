// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the interpreter evaluates a model with: its weights, read from the file when an op asks for them, and tokens.
#ifndef HEDDLE_COMPILER_VERIFY_MODELVALUES_H
#define HEDDLE_COMPILER_VERIFY_MODELVALUES_H

#include "compiler/verify/Interpreter.h"

#include "frontends/Checkpoint.h"

namespace heddle {

// Weights of `checkpoint`, dequantised. Those that pack-weights has placed are packed as for the CPU and read back through
// the layout's index formula.
std::function<mlir::FailureOr<RuntimeValue>(WeightOp)> weightsOf(std::shared_ptr<const Checkpoint> checkpoint);

// Random weights in the same two forms; a source has the same values by itself and packed. Seeded by name.
std::function<mlir::FailureOr<RuntimeValue>(WeightOp)> randomWeights(uint64_t seed);

// Inputs of a model's entry for `ids` as the one sequence, whichever form the entry has: @forward(ids, positions) of (1,
// sequence), or @step(ids, positions, output rows, cache, destinations) of (rows), the step being the whole sequence.
std::function<mlir::FailureOr<llvm::SmallVector<RuntimeValue>>(mlir::func::FuncOp)> modelInputs(std::vector<int64_t> ids);

} // namespace heddle

#endif
