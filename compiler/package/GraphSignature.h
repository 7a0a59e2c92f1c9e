// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a graph is called with: the names, types and shapes of its tensors.
#ifndef HEDDLE_COMPILER_PACKAGE_GRAPHSIGNATURE_H
#define HEDDLE_COMPILER_PACKAGE_GRAPHSIGNATURE_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle {

namespace package {
enum class DataType : uint8_t;
} // namespace package

struct GraphTensor {
  std::string name;
  package::DataType type;
  std::vector<int64_t> dims;         // -1: dynamic
  std::optional<int64_t> fill;       // of an input: all its elements where a call lacks it
  std::vector<std::string> dimNames; // one per dimension, "" without a name; or none at all
};

struct GraphSignature {
  std::string name; // of the entry
  std::vector<GraphTensor> inputs, outputs;
};

// Of the module's graph entries, in their order. Arguments and results are ranked tensors (or, later, buffers) with a `heddle.name` each;
// `heddle.dims` names dimensions, `heddle.unsigned` marks unsigned integers, `heddle.fill` what an input holds that is not given. Diagnoses what a graph may not have.
mlir::FailureOr<std::vector<GraphSignature>> graphSignatures(mlir::ModuleOp module);

} // namespace heddle

#endif
