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
  default:
    llvm_unreachable("experts, which no GPU computes, have the others");
  }
}
