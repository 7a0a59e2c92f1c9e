// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/GpuMath.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

Value heddle::emitSigmoid(GpuBuilder &b, Value x) {
  // 2^(-x log2 e) may be infinite: the quotient is 0 then.
  Value power = b.exp2(b.mulF(x, b.constantF32(-llvm::numbers::log2e)));
  return b.divF(b.constantF32(1), b.addF(power, b.constantF32(1)));
}

Value heddle::emitTanh(GpuBuilder &b, Value x) {
  return b.subF(b.mulF(emitSigmoid(b, b.mulF(x, b.constantF32(2))), b.constantF32(2)), b.constantF32(1));
}

static Value magnitude(GpuBuilder &b, Value x) {
  return b.maxF(x, b.subF(b.constantF32(0), x));
}

// x P(X <= x) of the normal distribution: max(x, 0) - |x| Q / 2 with Q = erfc(z), z = |x| / sqrt(2), by the polynomial of Abramowitz and
// Stegun 7.1.26 in 1 / (1 + 0.3275911 z) times e^(-z^2), within 1.5e-7.
static Value emitGelu(GpuBuilder &b, Value x) {
  Value size = magnitude(b, x);
  Value t = b.divF(b.constantF32(1), b.fma(size, b.constantF32(0.3275911 / std::sqrt(2.0)), b.constantF32(1)));
  Value sum = b.constantF32(1.061405429);
  for (double coefficient : {-1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0})
    sum = b.fma(sum, t, b.constantF32(coefficient));
  Value power = b.exp2(b.mulF(b.mulF(x, x), b.constantF32(-llvm::numbers::log2e / 2)));
  Value tail = b.mulF(b.mulF(sum, power), b.mulF(size, b.constantF32(0.5)));
  return b.subF(b.mulF(b.addF(x, size), b.constantF32(0.5)), tail);
}

// max(x, 0) in a form that keeps what is no number.
static Value emitRelu(GpuBuilder &b, Value x) {
  return b.mulF(b.addF(x, magnitude(b, x)), b.constantF32(0.5));
}

Value heddle::emitActivation(GpuBuilder &b, MatmulEpilogue epilogue, Value x) {
  switch (epilogue) {
  case MatmulEpilogue::None:
    return x;
  case MatmulEpilogue::Silu:
    return b.mulF(x, emitSigmoid(b, x));
  case MatmulEpilogue::GeluTanh: {
    // x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    double factor = 2 * std::sqrt(2 / llvm::numbers::pi);
    Value cube = b.fma(b.mulF(b.mulF(x, x), x), b.constantF32(0.044715), x);
    return b.mulF(x, emitSigmoid(b, b.mulF(cube, b.constantF32(factor))));
  }
  case MatmulEpilogue::Gelu:
    return emitGelu(b, x);
  case MatmulEpilogue::Relu:
    return emitRelu(b, x);
  case MatmulEpilogue::QuickGelu:
    return b.mulF(x, emitSigmoid(b, b.mulF(x, b.constantF32(1.702))));
  case MatmulEpilogue::Tanh:
    return emitTanh(b, x);
  case MatmulEpilogue::SquaredRelu: {
    Value positive = emitRelu(b, x);
    return b.mulF(positive, positive);
  }
  }
  llvm_unreachable("an epilogue");
}
