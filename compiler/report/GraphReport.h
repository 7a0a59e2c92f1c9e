// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the report says of a graph. README.md lists the fields.
#ifndef HEDDLE_COMPILER_REPORT_GRAPHREPORT_H
#define HEDDLE_COMPILER_REPORT_GRAPHREPORT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <nlohmann/json.hpp>

namespace heddle {

// Kernels, loops, matmuls of activations and copies of @graph after bufferize-graph, in order, as launches of one function.
nlohmann::ordered_json describeGraph(mlir::func::FuncOp graph);

// Names of the sizes that launches of a graph are given in, in order of appearance.
nlohmann::ordered_json namedSizes(const nlohmann::ordered_json &graph);

// The names of the weights that an operand is, or none.
nlohmann::ordered_json weightNames(mlir::Value operand);

} // namespace heddle

#endif
