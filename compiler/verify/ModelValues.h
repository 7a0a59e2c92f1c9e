// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights that the interpreter evaluates a model with, read from the file when an op asks for them.
#ifndef HEDDLE_COMPILER_VERIFY_MODELVALUES_H
#define HEDDLE_COMPILER_VERIFY_MODELVALUES_H

#include "compiler/verify/NumericCheck.h"

#include "frontends/ModelConfig.h"

namespace heddle {

using WeightReader = std::function<mlir::FailureOr<RuntimeValue>(WeightOp)>;

// Weights of `checkpoint`, dequantised. Those that pack-weights has placed are packed as for the CPU and read back through
// the layout's index formula.
WeightReader weightsOf(const std::shared_ptr<const Checkpoint> &checkpoint);

// Random weights in the same two forms; a source has the same values by itself and packed. Seeded by name.
WeightReader randomWeights(uint64_t seed);

// `read`, once for weights that say the same: a model is evaluated after each of many passes. Of large models the first 256 MB are kept.
// For modules of one context.
WeightReader keepingValues(WeightReader read);

} // namespace heddle

#endif
