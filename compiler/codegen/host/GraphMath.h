// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of numbers that upstream's lowerings lack, or give up to calls that keep a loop from being vectorised.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHMATH_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHMATH_H

#include "mlir/IR/PatternMatch.h"

namespace heddle {

// isinf and isnormal as comparisons, fma of 16-bit floats through f32, functions of f32 as arithmetic (VectorMath.h), powers by
// constants as products and roots.
void populateGraphMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace heddle

#endif
