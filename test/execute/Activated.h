// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What activations of a product's epilogue are, in f64 and by their formulas.
#ifndef HEDDLE_TEST_EXECUTE_ACTIVATED_H
#define HEDDLE_TEST_EXECUTE_ACTIVATED_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include <algorithm>
#include <cmath>

namespace heddle::test {

// What the epilogue makes of a sum, in f64.
inline double activated(MatmulEpilogue epilogue, double x) {
  switch (epilogue) {
  case MatmulEpilogue::None:
    return x;
  case MatmulEpilogue::Silu:
    return x / (1 + std::exp(-x));
  case MatmulEpilogue::Gelu:
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  case MatmulEpilogue::GeluTanh:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case MatmulEpilogue::Relu:
    return std::max(x, 0.0);
  case MatmulEpilogue::QuickGelu:
    return x / (1 + std::exp(-1.702 * x));
  case MatmulEpilogue::Tanh:
    return std::tanh(x);
  case MatmulEpilogue::SquaredRelu:
    return x > 0 ? x * x : 0;
  }
  return NAN;
}

} // namespace heddle::test

#endif
