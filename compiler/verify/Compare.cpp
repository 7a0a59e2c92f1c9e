// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/Compare.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace heddle;

Difference heddle::compare(const Tensor &actual, const Tensor &expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (actual.shape != expected.shape || actual.isFloat() != expected.isFloat())
    return {infinity, infinity, -1, false};
  Difference difference;
  double error = 0, norm = 0;
  for (int64_t i = 0, end = expected.size(); i < end; ++i) {
    Scalar a = actual.get(i), e = expected.get(i);
    double distance =
        expected.isFloat() ? std::fabs(a.real - e.real) : std::fabs(double(a.integer) - double(e.integer));
    double magnitude = expected.isFloat() ? e.real : double(e.integer);
    bool same =
        expected.isFloat() ? a.real == e.real || (std::isnan(a.real) && std::isnan(e.real)) : a.integer == e.integer;
    if (same)
      distance = 0;
    if (std::isnan(distance))
      distance = infinity;
    if (!same && (distance > difference.maxAbs || difference.worst < 0)) {
      difference.maxAbs = distance;
      difference.worst = i;
    }
    error += distance * distance;
    if (std::isfinite(magnitude))
      norm += magnitude * magnitude;
  }
  if (error > 0)
    difference.nmse = norm > 0 ? error / norm : infinity;
  return difference;
}

double heddle::nmseLimit(Type type) {
  if (type.isF64() || type.isF32())
    return 1e-10;
  if (type.isF16())
    return 1e-6;
  if (isa<FloatType>(type))
    return 5e-5;
  return 0;
}
