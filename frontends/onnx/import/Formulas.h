// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas that ops of several domains share.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_FORMULAS_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_FORMULAS_H

#include "frontends/onnx/import/GraphBuilder.h"

namespace heddle {

// (x - mean) / sqrt(var + epsilon) over the axes; also mean and 1 / sqrt(var + epsilon), with the axes as 1.
struct Normalized {
  GraphValue value, mean, inverse;
};
Normalized normalize(GraphBuilder &g, const GraphValue &x, llvm::ArrayRef<int64_t> axes, double epsilon);
// x / sqrt(mean(x^2) + epsilon); the mean stays empty.
Normalized normalizeRms(GraphBuilder &g, const GraphValue &x, llvm::ArrayRef<int64_t> axes, double epsilon);

// x (1 + erf(x / sqrt 2)) / 2, and its approximation by tanh.
GraphValue gelu(GraphBuilder &g, const GraphValue &x);
GraphValue geluTanh(GraphBuilder &g, const GraphValue &x);
// x sigmoid(alpha x)
GraphValue swish(GraphBuilder &g, const GraphValue &x, double alpha);

// The activation that an op fused with another one names, with its parameters in the order of its own op's attributes; what is missing has that
// op's default. No name: x.
GraphValue fusedActivation(GraphBuilder &g, const GraphValue &x, llvm::StringRef name,
                           llvm::ArrayRef<std::optional<float>> parameters);

} // namespace heddle

#endif
