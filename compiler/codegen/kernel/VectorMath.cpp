// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every function reduces its operand to a short interval and evaluates a polynomial there. The polynomials are those of least largest
// relative error on their interval (iteratively reweighted least squares on Chebyshev points in f64); the comment beside each gives
// that error before its coefficients are rounded to f32.

#include "compiler/codegen/kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace heddle;

namespace {

// Arithmetic on values of one shape, that of `like`.
class Lanes {
public:
  Lanes(ImplicitLocOpBuilder &b, Value like) : b(b), floats(like.getType()), ints(cast(floats, b.getI32Type())) {}

  Value real(double value) { return constant(floats, b.getF32FloatAttr(float(value))); }
  Value integer(int32_t value) { return constant(ints, b.getI32IntegerAttr(value)); }
  Value wide(double value) { return constant(cast(floats, b.getF64Type()), b.getF64FloatAttr(value)); }
  Value add(Value x, Value y) {
    if (isa<FloatType>(getElementTypeOrSelf(x.getType())))
      return arith::AddFOp::create(b, x, y);
    return arith::AddIOp::create(b, x, y);
  }
  Value sub(Value x, Value y) {
    if (isa<FloatType>(getElementTypeOrSelf(x.getType())))
      return arith::SubFOp::create(b, x, y);
    return arith::SubIOp::create(b, x, y);
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value magnitude(Value x) { return math::AbsFOp::create(b, x); }
  Value withSignOf(Value x, Value sign) { return math::CopySignOp::create(b, x, sign); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, condition, x, y); }
  // Bounds x; a NaN stays one.
  Value atMost(Value x, Value most) { return select(less(most, x), most, x); }
  Value atLeast(Value x, Value least) { return select(less(x, least), least, x); }
  Value shiftLeft(Value x, int32_t bits) { return arith::ShLIOp::create(b, x, integer(bits)); }
  Value shiftRight(Value x, int32_t bits) { return arith::ShRSIOp::create(b, x, integer(bits)); }
  Value bitsOf(Value x) { return arith::BitcastOp::create(b, ints, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, floats, x); }
  Value toFloat(Value x) { return arith::SIToFPOp::create(b, floats, x); }
  Value widen(Value x) { return arith::ExtFOp::create(b, cast(floats, b.getF64Type()), x); }
  Value narrow(Value x) { return arith::TruncFOp::create(b, floats, x); }
  // c[0] + c[1] x + c[2] x^2 …
  Value polynomial(ArrayRef<double> c, Value x) {
    Value sum = real(c.back());
    for (double factor : llvm::reverse(c.drop_back()))
      sum = fma(sum, x, real(factor));
    return sum;
  }

  ImplicitLocOpBuilder &b;

private:
  static Type cast(Type type, Type element) {
    auto shaped = dyn_cast<VectorType>(type);
    return shaped ? Type(shaped.clone(element)) : element;
  }
  Value constant(Type type, TypedAttr value) {
    if (auto shaped = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(shaped, Attribute(value));
    return arith::ConstantOp::create(b, type, value);
  }

  Type floats, ints;
};

// A power of e or 2 as 2^n (1 + tail), |log2(1 + tail)| <= 1/2.
struct Power {
  Value shifted; // magic + n, whose low bits are n
  Value tail;
};

} // namespace

// Adding it rounds to an integer that stands in the low bits.
static constexpr double magic = 12582912.0; // 1.5 * 2^23
static constexpr double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;

// (2^r - 1) / r on [-1/2, 1/2], within 2.0e-9 of 2^r. The constant term of 2^r stays exactly 1, so that 2^0 is.
static const double exp2Tail[] = {6.9314720286e-01, 2.4022647914e-01, 5.5503324710e-02,
                                  9.6184373576e-03, 1.3398874453e-03, 1.5353361998e-04};

// (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2], within 3.1e-9 of e^r.
static const double expTail[] = {4.9999993448e-01, 1.6666520631e-01, 4.1668388054e-02, 8.3687169836e-03,
                                 1.3814598565e-03};

static Power splitExp2(Lanes &l, Value x, double offset = 0) {
  Value shifted = l.add(x, l.real(magic + offset));
  Value r = l.sub(x, l.sub(shifted, l.real(magic + offset)));
  return {shifted, l.mul(l.polynomial(exp2Tail, r), r)};
}

static Power splitExp(Lanes &l, Value x) {
  // ln 2 in two parts, the first of 16 bits: its multiples by n are exact.
  constexpr double high = 0.693145751953125, low = ln2 - high;
  Value shifted = l.fma(x, l.real(log2e), l.real(magic)), n = l.sub(shifted, l.real(magic));
  Value r = l.fma(n, l.real(-low), l.fma(n, l.real(-high), x));
  return {shifted, l.fma(l.polynomial(expTail, r), l.mul(r, r), r)};
}

// 2^n, n being an integer that gives a normal number.
static Value powerOfTwo(Lanes &l, Value n) {
  return l.fromBits(l.shiftLeft(l.add(n, l.integer(127)), 23));
}

static Value exponentOf(Lanes &l, Power power) {
  return l.sub(l.bitsOf(power.shifted), l.integer(llvm::bit_cast<int32_t>(float(magic))));
}

// In two factors, neither of which leaves the range: the second rounds to a denormal, or overflows, once.
static Value compose(Lanes &l, Power power) {
  Value n = exponentOf(l, power), half = l.shiftRight(n, 1);
  Value mantissa = l.add(power.tail, l.real(1));
  return l.mul(l.mul(mantissa, powerOfTwo(l, half)), powerOfTwo(l, l.sub(n, half)));
}

Value heddle::emitExp(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  return compose(l, splitExp(l, l.atLeast(l.atMost(x, l.real(89)), l.real(-105))));
}

Value heddle::emitExp2OfAny(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  return compose(l, splitExp2(l, l.atLeast(l.atMost(x, l.real(129)), l.real(-151))));
}

// 2^n of a sum whose low bits are the biased exponent already.
static Value powerOfBiased(Lanes &l, Power power) {
  return l.fromBits(l.shiftLeft(l.bitsOf(power.shifted), 23));
}

Value heddle::emitExp2(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  Power parts = splitExp2(l, x, 127);
  Value power = powerOfBiased(l, parts);
  return l.select(l.less(x, l.real(-126)), l.real(0), l.fma(power, parts.tail, power));
}

Value heddle::emitExpOfNegative(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  Value underflow = l.less(x, l.real(-87));
  Power parts = splitExp(l, l.select(underflow, l.real(-87), x));
  Value power = powerOfTwo(l, exponentOf(l, parts));
  return l.select(underflow, l.real(0), l.fma(power, parts.tail, power));
}

Value heddle::emitExpm1(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  // Half of it, since 2^n overflows before e^x does: 2^(n-1) (1 + tail) - 1/2.
  Power parts = splitExp(l, l.atLeast(l.atMost(x, l.real(89)), l.real(-20)));
  Value power = powerOfTwo(l, l.sub(exponentOf(l, parts), l.integer(1)));
  Value half = l.fma(power, parts.tail, l.sub(power, l.real(0.5)));
  return l.add(half, half);
}

namespace {
// x = 2^exponent * m with ln m = f + rest, f = m - 1 in [sqrt(1/2) - 1, sqrt(2) - 1].
struct Logarithm {
  Value exponent, f, rest;
};
} // namespace

// Of a positive finite number.
static Logarithm splitLog(Lanes &l, Value x) {
  // (ln(1 + f) - f + f^2 / 2) / f^3, within 7.5e-10 of the logarithm.
  static const double tail[] = {3.3333312604e-01,  -2.5000009599e-01, 2.0002118672e-01,
                                -1.6667995878e-01, 1.4219552080e-01,  -1.2405588261e-01,
                                1.1888163825e-01,  -1.1675656826e-01, 6.7466431632e-02};
  Value isDenormal = l.less(x, l.real(std::numeric_limits<float>::min()));
  Value bits = l.bitsOf(l.select(isDenormal, l.mul(x, l.real(8388608.0)), x)); // 2^23
  Value steps = l.shiftRight(l.sub(bits, l.integer(llvm::bit_cast<int32_t>(0.70710678f))), 23);
  Value f = l.sub(l.fromBits(l.sub(bits, l.shiftLeft(steps, 23))), l.real(1)), square = l.mul(f, f);
  Value exponent = l.sub(l.toFloat(steps), l.select(isDenormal, l.real(23), l.real(0)));
  Value rest = l.mul(l.polynomial(tail, f), l.mul(f, square));
  return {exponent, f, l.fma(square, l.real(-0.5), rest)};
}

// The logarithm of what is not positive and finite.
static Value guardLog(Lanes &l, Value x, Value value) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  value = l.select(l.less(x, l.real(infinity)), value, x);
  value = l.select(l.equal(x, l.real(0)), l.real(-infinity), value);
  return l.select(l.less(x, l.real(0)), l.real(std::numeric_limits<double>::quiet_NaN()), value);
}

Value heddle::emitLog(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  // The first part of ln 2 has 9 bits: its multiples by the exponent are exact.
  constexpr double high = 0.693359375, low = ln2 - high;
  Logarithm parts = splitLog(l, x);
  Value rest = l.add(l.fma(parts.exponent, l.real(low), parts.rest), parts.f);
  return guardLog(l, x, l.fma(parts.exponent, l.real(high), rest));
}

Value heddle::emitLog2(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  // log2(e) in two parts, so that f's own share is not rounded twice.
  constexpr double high = 1.44140625, low = log2e - high;
  Logarithm parts = splitLog(l, x);
  Value small = l.fma(parts.f, l.real(low), l.mul(parts.rest, l.real(log2e)));
  return guardLog(l, x, l.add(parts.exponent, l.fma(parts.f, l.real(high), small)));
}

Value heddle::emitLog1p(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  // log(u) with u = 1 + x rounded, and what rounding lost. It is NaN where u is 0 or infinite, and counts as nothing there.
  Value u = l.add(x, l.real(1)), lost = l.div(l.sub(x, l.sub(u, l.real(1))), u);
  return l.add(emitLog(b, u), l.select(l.equal(lost, lost), lost, l.real(0)));
}

Value heddle::emitTanhOfExponent(ImplicitLocOpBuilder &b, Value z) {
  Lanes l(b, z);
  // e = 2^-|z| - 1 without cancellation; tanh |x| = -e / (2 + e).
  Value x = l.sub(l.real(-0.0), l.magnitude(z));
  Value shifted = l.add(x, l.real(magic + 127)), r = l.sub(x, l.sub(shifted, l.real(magic + 127)));
  // Near 0 the tail is all there is: its first coefficient in two parts, so that it is rounded once.
  constexpr double high = 0.693145751953125;
  Value rest = l.fma(l.polynomial(ArrayRef(exp2Tail).drop_front(), r), r, l.real(exp2Tail[0] - high));
  Value power = powerOfBiased(l, {shifted, Value()});
  Value tail = l.fma(r, l.real(high), l.mul(rest, r));
  Value e = l.fma(power, tail, l.sub(power, l.real(1)));
  e = l.select(l.less(x, l.real(-126)), l.real(-1), e);
  return l.withSignOf(l.div(e, l.add(e, l.real(2))), z);
}

Value heddle::emitTanh(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  return emitTanhOfExponent(b, l.mul(x, l.real(2 * log2e)));
}

Value heddle::emitSigmoid(ImplicitLocOpBuilder &b, Value x) {
  Lanes l(b, x);
  // With e = e^-|x| nothing overflows: 1 / (1 + e) for x >= 0, e / (1 + e) below.
  Value e = emitExpOfNegative(b, l.sub(l.real(-0.0), l.magnitude(x)));
  return l.div(l.select(l.less(x, l.real(0)), e, l.real(1)), l.add(l.real(1), e));
}

// Of |x| <= 1.
static Value erfNearZero(Lanes &l, Value x) {
  // erf(x) / x - 1 by x^2, within 1.2e-9.
  static const double c[] = {1.2837916573e-01, -3.7612625826e-01, 1.1283585164e-01, -2.6853812431e-02,
                             5.1883284829e-03, -8.0101997919e-04, 7.8538797238e-05};
  return l.fma(l.polynomial(c, l.mul(x, x)), x, x);
}

Value heddle::emitErf(ImplicitLocOpBuilder &b, Value x) {
  // -ln(1 - erf(t)) by t for 1 <= t <= 4, which gives erf within 1.1e-9.
  static const double large[] = {3.4152076657e-04,  1.1270891991e+00, 6.3814481830e-01, 1.0310676684e-01,
                                 -2.1838069722e-02, 2.9476596902e-03, -1.8637932892e-04};
  Lanes l(b, x);
  Value t = l.atMost(l.magnitude(x), l.real(4));
  Value exponent = l.sub(l.real(-0.0), l.polynomial(large, t));
  Value outer = l.withSignOf(l.sub(l.real(1), emitExpOfNegative(b, exponent)), x);
  return l.select(l.less(t, l.real(1)), erfNearZero(l, x), outer);
}

Value heddle::emitNormalDistribution(ImplicitLocOpBuilder &b, Value x) {
  // What lies beyond |x|: (1 - erf z) / 2 with z = |x| / sqrt 2. From z = 1 on in the form of Abramowitz and Stegun 7.1.26,
  // erfc(z) = t p(t) e^(-z^2) with t = 1 / (1 + 0.3275911 z), which keeps falling to 0; its error in t weighs most near 0, where erf has
  // none of it. The polynomial has two terms more than theirs and is fitted within 8e-9.
  static const double c[] = {1.846787242e-01, 1.855257168e-01,  1.809456315e-01, 9.410583695e-02,
                             3.444798977e-01, -3.062790311e-01, 4.475893189e-01, -1.310461028e-01};
  Lanes l(b, x);
  Value z = l.mul(l.magnitude(x), l.real(0.70710678f));
  Value t = l.div(l.real(1), l.fma(z, l.real(0.3275911), l.real(1)));
  Value e = emitExpOfNegative(b, l.sub(l.real(-0.0), l.mul(z, z)));
  Value far = l.mul(l.mul(l.mul(l.polynomial(c, t), t), l.real(0.5)), e);
  Value near = l.fma(erfNearZero(l, z), l.real(-0.5), l.real(0.5));
  Value beyond = l.select(l.less(z, l.real(1)), near, far);
  return l.select(l.less(x, l.real(0)), beyond, l.sub(l.real(1), beyond));
}

// sin(x + quarters * pi / 2)
static Value emitSine(ImplicitLocOpBuilder &b, Value x, int32_t quarters) {
  // (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 by r^2 on [-pi / 4, pi / 4], within 3.8e-9 and 1.2e-10.
  static const double sine[] = {-1.6666654537e-01, 8.3321560505e-03, -1.9514631428e-04};
  static const double cosine[] = {4.1666645554e-02, -1.3887309862e-03, 2.4432412501e-05};
  // pi / 2 in two f64 parts: with a fused multiply-add the rest is exact to far below an f32's last place.
  constexpr double high = 1.5707963267948966, low = 6.123233995736766e-17, magic64 = 6755399441055744.0; // 1.5 * 2^52
  Lanes l(b, x);
  Value wide = l.widen(x), shifted = l.fma(wide, l.wide(1 / high), l.wide(magic64)),
        n = l.sub(shifted, l.wide(magic64));
  Value r = l.narrow(l.fma(n, l.wide(-low), l.fma(n, l.wide(-high), wide)));
  // What f64 cannot reduce is bounded, so that polynomials stay in [-1, 1]; a quarter that large numbers miss leaves little over pi / 4.
  r = l.atLeast(l.atMost(r, l.real(0.8)), l.real(-0.8));
  Type words = l.integer(0).getType(),
       longs = isa<VectorType>(words) ? Type(cast<VectorType>(words).clone(b.getI64Type())) : Type(b.getI64Type());
  Value quarter = arith::TruncIOp::create(b, words, arith::BitcastOp::create(b, longs, shifted));
  quarter = l.add(quarter, l.integer(quarters));
  Value square = l.mul(r, r);
  Value s = l.fma(l.mul(l.polynomial(sine, square), square), r, r);
  Value c = l.fma(l.polynomial(cosine, square), l.mul(square, square), l.fma(square, l.real(-0.5), l.real(1)));
  auto hasBit = [&](int32_t bit) -> Value {
    Value masked = arith::AndIOp::create(b, quarter, l.integer(bit));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, l.integer(0));
  };
  Value value = l.select(hasBit(1), c, s);
  return l.select(hasBit(2), l.sub(l.real(-0.0), value), value);
}

Value heddle::emitSin(ImplicitLocOpBuilder &b, Value x) {
  return emitSine(b, x, 0);
}

Value heddle::emitCos(ImplicitLocOpBuilder &b, Value x) {
  return emitSine(b, x, 1);
}
