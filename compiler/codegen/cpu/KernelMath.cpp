// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/KernelMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

Value heddle::expOfNegative(KernelBuilder &b, Value x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2
  Value underflow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, b.splatReal(-87));
  x = arith::SelectOp::create(b, underflow, b.splatReal(-87), x);
  Value n = math::RoundEvenOp::create(b, b.mul(x, b.splatReal(1.44269504f)));
  Value r = b.fma(n, b.splatReal(-0.693145752f), x);
  r = b.fma(n, b.splatReal(-1.42860677e-6f), r);
  // The Taylor polynomial of degree 7: its rest is below 2^-27 on that range.
  Value power = b.splatReal(1.0f / 5040);
  for (float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    power = b.fma(power, r, b.splatReal(factor));
  Value exponent = b.add(arith::FPToSIOp::create(b, b.v16i32, n), b.splatInt(127));
  Value scale = b.bitcast(b.v16f32, arith::ShLIOp::create(b, exponent, b.splatInt(23)));
  return arith::SelectOp::create(b, underflow, b.splatReal(0), b.mul(power, scale));
}

Value heddle::sigmoid(KernelBuilder &b, Value x) {
  // With e = e^-|x| nothing overflows: 1 / (1 + e) for x >= 0, e / (1 + e) below.
  Value e = expOfNegative(b, arith::NegFOp::create(b, math::AbsFOp::create(b, x)));
  Value negative = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, b.splatReal(0));
  Value numerator = arith::SelectOp::create(b, negative, e, b.splatReal(1));
  return arith::DivFOp::create(b, numerator, b.add(b.splatReal(1), e));
}

Value heddle::normalDistribution(KernelBuilder &b, Value x) {
  // Abramowitz and Stegun 7.1.26: erfc(z) = t p(t) e^(-z^2) with t = 1 / (1 + 0.3275911 z), within 1.5e-7 for z >= 0.
  Value z = b.mul(math::AbsFOp::create(b, x), b.splatReal(0.70710678f));
  Value t = arith::DivFOp::create(b, b.splatReal(1), b.fma(z, b.splatReal(0.3275911f), b.splatReal(1)));
  Value polynomial = b.splatReal(1.061405429f);
  for (float coefficient : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f, 0.0f})
    polynomial = b.fma(polynomial, t, b.splatReal(coefficient));
  Value half = b.mul(b.mul(polynomial, b.splatReal(0.5f)), expOfNegative(b, arith::NegFOp::create(b, b.mul(z, z))));
  Value negative = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, b.splatReal(0));
  return arith::SelectOp::create(b, negative, half, b.sub(b.splatReal(1), half));
}
