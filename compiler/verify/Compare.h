// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far two results lie apart, and how far they may.
#ifndef HEDDLE_COMPILER_VERIFY_COMPARE_H
#define HEDDLE_COMPILER_VERIFY_COMPARE_H

#include "compiler/interpreter/Tensor.h"

namespace heddle {

struct Difference {
  double nmse = 0;    // sum (a - e)^2 / sum e^2; infinite where one is NaN or infinite and the other is not the same
  double maxAbs = 0;  // max |a - e|
  int64_t worst = -1; // element with that error, -1 if all are equal
  bool sameShape = true;
};

// `actual` against `expected`. Tensors of different shapes are infinitely far apart.
Difference compare(const Tensor &actual, const Tensor &expected);

// Largest normalised mean square error of a kernel that computes in `type`, softmax and accumulation in f32 (RELIABILITY.md);
// integers must be equal.
double nmseLimit(mlir::Type type);
// Quantised weights against the same weights dequantised.
constexpr double quantizedNmseLimit = 5e-4;

} // namespace heddle

#endif
