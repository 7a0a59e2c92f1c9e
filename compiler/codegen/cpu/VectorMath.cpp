// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

namespace {
// 2^x = power * (1 + tail) with power = 2^n, n = round(x) and tail = 2^(x - n) - 1.
struct Exp2Parts {
  Value power;
  Value tail;
};
} // namespace

static unsigned lanesOf(Value vector) {
  return cast<VectorType>(vector.getType()).getDimSize(0);
}

// (2^r - 1) / r on [-1/2, 1/2]: the polynomial of degree 5 whose 2^r has the least largest relative error, 2.0e-9. The
// constant term of 2^r stays exactly 1, so that 2^0 is.
static const double tailCoefficients[] = {6.9314720286e-01, 2.4022647914e-01, 5.5503324710e-02,
                                          9.6184373576e-03, 1.3398874453e-03, 1.5353361998e-04};

static Exp2Parts splitExp2(RawBuilder &b, Value x) {
  unsigned lanes = lanesOf(x);
  // Adding 1.5 * 2^23 rounds to an integer that stands in the low bits; 127 more make it the biased exponent.
  Value magic = b.constantF32(12582912.0 + 127.0, lanes);
  Value shifted = b.addF(x, magic);
  Value r = b.subF(x, b.subF(shifted, magic));
  Value bits = arith::BitcastOp::create(b, b.ints(lanes), shifted);
  Value exponent = arith::ShLIOp::create(b, bits, b.constantI32(23, lanes));
  Value q = b.constantF32(tailCoefficients[5], lanes);
  for (int power = 4; power >= 0; --power)
    q = b.fma(q, r, b.constantF32(tailCoefficients[power], lanes));
  return {arith::BitcastOp::create(b, b.floats(lanes), exponent), b.mulF(q, r)};
}

// `value`, or `underflow` where 2^x is below the normal numbers.
static Value guardUnderflow(RawBuilder &b, Value x, Value value, double underflow) {
  unsigned lanes = lanesOf(x);
  Value tiny = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, b.constantF32(-126.0, lanes));
  return b.select(tiny, b.constantF32(underflow, lanes), value);
}

Value heddle::emitExp2(RawBuilder &b, Value x) {
  Exp2Parts parts = splitExp2(b, x);
  return guardUnderflow(b, x, b.fma(parts.power, parts.tail, parts.power), 0.0);
}

Value heddle::emitTanhOfExponent(RawBuilder &b, Value z) {
  unsigned lanes = lanesOf(z);
  // e = 2^-|z| - 1 without cancellation; tanh |x| = -e / (2 + e).
  Value x = b.subF(b.constantF32(-0.0, lanes), math::AbsFOp::create(b, z));
  Exp2Parts parts = splitExp2(b, x);
  Value e = b.fma(parts.power, parts.tail, b.subF(parts.power, b.constantF32(1.0, lanes)));
  e = guardUnderflow(b, x, e, -1.0);
  Value magnitude = b.divF(e, b.addF(e, b.constantF32(2.0, lanes)));
  return math::CopySignOp::create(b, magnitude, z);
}
