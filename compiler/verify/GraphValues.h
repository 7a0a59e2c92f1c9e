// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a graph is evaluated on.
#ifndef HEDDLE_COMPILER_VERIFY_GRAPHVALUES_H
#define HEDDLE_COMPILER_VERIFY_GRAPHVALUES_H

#include "compiler/verify/RunBinary.h"

#include "bytes/Expected.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// A value for every argument of @graph, by name: those of the safetensors file `path`, or without one random, seeded, floats
// normally distributed and integers in [0, 2), with dynamic dimensions of size `dynamicSize`.
Expected<std::vector<NamedTensor>> graphInputs(mlir::func::FuncOp graph, const std::string &path, uint64_t seed,
                                               int64_t dynamicSize = 5);

// The results of @graph with `values` for them.
std::vector<NamedTensor> graphOutputs(mlir::func::FuncOp graph, llvm::ArrayRef<Tensor> values);

} // namespace heddle

#endif
