// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/ScalarExpressions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace heddle;
using Halide::Expr;
using Halide::select;

static Expr f32(double value) {
  return Expr(static_cast<float>(value));
}
static Expr constant(Halide::Type type, double value) {
  return Halide::Internal::make_const(type, value);
}

// Exact for zeros as well, where Halide's -x is 0 - x on one processor and a change of sign on another.
static Expr negate(Expr x) {
  return x * constant(x.type(), -1);
}

// |magnitude| with the sign of x.
static Expr copySign(Expr magnitude, Expr x) {
  Expr sign = Halide::reinterpret<int32_t>(x) & std::numeric_limits<int32_t>::min();
  return Halide::reinterpret<float>((Halide::reinterpret<int32_t>(magnitude) & std::numeric_limits<int32_t>::max()) |
                                    sign);
}

// c[0] + x c[1] + x^2 c[2] + …
static Expr polynomial(Expr x, llvm::ArrayRef<double> coefficients) {
  Expr sum = constant(x.type(), coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = sum * x + constant(x.type(), coefficient);
  return sum;
}

// 2^n; n within the exponents of normal numbers.
static Expr exp2Integer(Expr n, Halide::Type type) {
  if (type.bits() == 64)
    return Halide::reinterpret<double>((Halide::cast<int64_t>(n) + Expr(int64_t(1023))) << Expr(int64_t(52)));
  return Halide::reinterpret<float>((n + 127) << 23);
}

namespace {
// e^x = 2^exponent (1 + fraction), fraction being e^r - 1 with |r| <= log(2) / 2.
struct ExpParts {
  Expr exponent; // i32
  Expr fraction;
};
} // namespace

// x must be a number in [-150 log 2, 129 log 2]. Adding 1.5 * 2^23 rounds to an integer, which stands in the low bits. The first
// part of log 2 has few bits: its product with n is exact.
static ExpParts splitExp(Expr x) {
  const Expr magic = f32(12582912);
  Expr shifted = x * f32(1.4426950408889634) + magic, n = shifted - magic;
  Expr r = (x - n * f32(0.693359375)) - n * f32(-2.12194440054690583e-4);
  // (e^r - 1 - r) / r^2, within 3.1e-9 of e^r.
  Expr p = polynomial(r, {4.9999993448e-01, 1.6666520631e-01, 4.1668388054e-02, 8.3687169836e-03, 1.3814598565e-03});
  return {Halide::reinterpret<int32_t>(Halide::reinterpret<uint32_t>(shifted) - Expr(0x4b400000u)), r + r * r * p};
}

Expr heddle::expExpr(Expr x) {
  // A NaN takes the lower bound here and comes back below.
  Expr bounded = select(x > f32(-103.9f), select(x < f32(89.0f), x, f32(89.0f)), f32(-103.9f));
  ExpParts parts = splitExp(bounded);
  // Two factors: the result may be subnormal or infinite.
  Expr half = parts.exponent >> 1;
  Expr result = (f32(1) + parts.fraction) * exp2Integer(half, x.type()) * exp2Integer(parts.exponent - half, x.type());
  return select(Halide::is_nan(x), x, select(x > f32(-103.9f), result, f32(0)));
}

// With e = e^-|x| nothing overflows: 1 / (1 + e) for x >= 0, e / (1 + e) below; 0 below -87. The caller multiplies by x: a NaN stays.
static Expr sigmoidExpr(Expr x) {
  Expr y = negate(Halide::abs(x));
  ExpParts parts = splitExp(select(y > f32(-87), y, f32(-87)));
  Expr scale = exp2Integer(parts.exponent, x.type());
  Expr e = select(y > f32(-87), scale + scale * parts.fraction, f32(0));
  return select(x < f32(0), e, f32(1)) / (f32(1) + e);
}

Expr heddle::tanhExpr(Expr x) {
  // tanh |x| = -t / (t + 2) with t = e^(-2|x|) - 1, which keeps its relative accuracy near 0; it is 1 from |x| = 9.02
  // on.
  Expr y = f32(-2) * Halide::abs(x);
  ExpParts parts = splitExp(select(y > f32(-20), y, f32(-20)));
  Expr scale = exp2Integer(parts.exponent, x.type());
  Expr t = scale * parts.fraction + (scale - f32(1));
  return select(Halide::is_nan(x), x, copySign(t / (t + f32(2)), x));
}

Expr heddle::erfExpr(Expr x) {
  Expr a = Halide::abs(x);
  // |x| < 0.9: Taylor, 2 / sqrt(pi) sum (-1)^k x^(2k+1) / (k! (2k+1)); the first term left out is below 3e-9.
  double coefficients[10], factorial = 1;
  for (int k = 0; k < 10; ++k) {
    factorial *= k ? -k : 1;
    coefficients[k] = 1.1283791670955126 / (factorial * (2 * k + 1));
  }
  Expr bounded = select(a < f32(4), a, f32(4));
  Expr small = x * polynomial(x * x, coefficients);
  // 0.9 <= |x| <= 4: -log erfc(2 + t) fitted by least squares at Chebyshev nodes; erf is off by 5e-11. From 4 on it
  // is 1.
  Expr g = polynomial(bounded - f32(2), {5.36494126, 4.41816078, 0.923751119, 0.0164661283, -0.00357082289,
                                         0.000728998539, -0.000138152317, 2.24684069e-05, 4.87353742e-07});
  Expr large = f32(1) - expExpr(negate(g));
  return select(Halide::is_nan(x), x, a < f32(0.9), small, copySign(large, x));
}

Expr heddle::logExpr(Expr x) {
  bool isDouble = x.type().bits() == 64;
  auto number = [&](double value) { return constant(x.type(), value); };
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); subnormal numbers are scaled up first.
  Expr tiny = x < number(isDouble ? 2.2250738585072014e-308 : 1.17549435e-38);
  Expr scaled = select(tiny, x * number(isDouble ? 0x1p54 : 0x1p25), x);
  Expr bits, exponent, mantissa;
  if (isDouble) {
    bits = Halide::reinterpret<int64_t>(scaled) - Expr(int64_t(0x3fe6a09e667f3bcd));
    exponent = Halide::cast<int32_t>(bits >> Expr(int64_t(52)));
    mantissa = Halide::reinterpret<double>(Halide::reinterpret<int64_t>(scaled) -
                                           ((bits >> Expr(int64_t(52))) << Expr(int64_t(52))));
  } else {
    bits = Halide::reinterpret<int32_t>(scaled) - 0x3f3504f3;
    exponent = bits >> 23;
    mantissa = Halide::reinterpret<float>(Halide::reinterpret<int32_t>(scaled) - ((bits >> 23) << 23));
  }
  Expr e = Halide::cast(x.type(), exponent - select(tiny, isDouble ? 54 : 25, 0));
  // log m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.1716.
  Expr s = (mantissa - number(1)) / (mantissa + number(1));
  Expr s2 = s * s;
  Expr tail =
      isDouble ? polynomial(s2, {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19})
               : polynomial(s2, {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11});
  Expr result = e * number(0.693359375) + (number(2) * s + (s * s2 * tail + e * number(-2.12194440054690583e-4)));
  double infinity = std::numeric_limits<double>::infinity();
  return select(x > number(0), select(x == number(infinity), x, result), x == number(0), number(-infinity),
                number(std::numeric_limits<double>::quiet_NaN()));
}

// log(1 + x) = x log(u) / (u - 1), u being 1 + x as it is rounded: both factors miss the same of it (Goldberg 1991, theorem 4).
Expr heddle::log1pExpr(Expr x) {
  Expr one = constant(x.type(), 1), u = x + one, difference = u - one;
  Expr isLarge = x > constant(x.type(), 0x1p25); // infinity as well, of which there is no quotient
  Expr quotient = logExpr(u) * (x / select(difference == constant(x.type(), 0), one, difference));
  return select(isLarge, logExpr(x), difference == constant(x.type(), 0), x, quotient);
}

namespace {
struct Quadrant {
  Expr index; // i32: x = index pi / 2 + rest
  Expr rest;  // f32, |rest| <= pi / 4
};
} // namespace

// In f64, so that angles of long contexts keep f32 accuracy.
static Quadrant splitAngle(Expr x) {
  Expr wide = Halide::cast<double>(x);
  Expr n = Halide::round(wide * Expr(0.6366197723675814));
  Expr rest = wide - n * Expr(1.5707963267948966);
  Expr bounded = select(Halide::abs(x) < f32(1073741824.0), n, Expr(0.0));
  return {Halide::cast<int32_t>(bounded), Halide::cast<float>(rest)};
}

static Expr sinOfQuadrant(const Quadrant &q, int shift) {
  Expr r2 = q.rest * q.rest;
  Expr sine = q.rest + q.rest * r2 * polynomial(r2, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880});
  Expr cosine = f32(1) + r2 * polynomial(r2, {-1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800});
  Expr index = q.index + shift;
  Expr value = select((index & 1) == 1, cosine, sine);
  return select((index & 2) == 2, negate(value), value);
}

Expr heddle::sinExpr(Expr x) {
  return sinOfQuadrant(splitAngle(x), 0);
}
Expr heddle::cosExpr(Expr x) {
  return sinOfQuadrant(splitAngle(x), 1);
}

// e^x in f64, to about 1e-12; x is a number or infinite.
static Expr expWide(Expr x) {
  Expr bounded = Halide::max(Halide::min(x, Expr(700.0)), Expr(-700.0));
  Expr n = Halide::round(bounded * Expr(1.4426950408889634));
  Expr r = (bounded - n * Expr(0.693359375)) - n * Expr(-2.12194440054690583e-4);
  double coefficients[12], factorial = 1;
  for (int k = 0; k < 12; ++k)
    coefficients[k] = 1 / (factorial *= k ? k : 1);
  return polynomial(r, coefficients) * exp2Integer(Halide::cast<int32_t>(n), Halide::Float(64));
}

Expr heddle::powExpr(Expr x, Expr y) {
  // e^(y log |x|) in f64, which leaves the rounding to f32 as the one visible error.
  Expr magnitude = Halide::abs(x);
  Expr product = Halide::cast<double>(y) * logExpr(Halide::cast<double>(magnitude));
  Expr result = Halide::cast<float>(expWide(product));
  Expr isInteger = Halide::floor(y) == y;
  Expr isOdd = isInteger && Halide::floor(y * f32(0.5)) != y * f32(0.5);
  Expr nan = f32(std::numeric_limits<double>::quiet_NaN());
  Expr withSign = select(x >= f32(0), result, isOdd, negate(result), isInteger || x == f32(0), result, nan);
  Expr unordered = Halide::is_nan(x) || Halide::is_nan(y);
  return select(y == f32(0) || x == f32(1), f32(1), unordered, nan, withSign);
}

Expr heddle::activationExpr(ActivationKind kind, Expr x) {
  switch (kind) {
  case ActivationKind::Silu:
    return x * sigmoidExpr(x);
  case ActivationKind::Gelu:
    return f32(0.5) * x * (f32(1) + erfExpr(x * f32(0.70710678118654752)));
  case ActivationKind::GeluTanh:
    return f32(0.5) * x * (f32(1) + tanhExpr(f32(0.79788456080286536) * (x + f32(0.044715) * (x * x * x))));
  case ActivationKind::Relu:
    return select(x < f32(0), f32(0), x);
  case ActivationKind::QuickGelu:
    return x * sigmoidExpr(f32(1.702) * x);
  case ActivationKind::Tanh:
    return tanhExpr(x);
  case ActivationKind::SquaredRelu:
    return select(x < f32(0), f32(0), x * x);
  }
  return Expr();
}

Halide::Type heddle::halideType(mlir::Type type) {
  if (type.isBF16())
    return Halide::BFloat(16);
  if (llvm::isa<mlir::Float16Type, mlir::Float32Type, mlir::Float64Type>(type))
    return Halide::Float(type.getIntOrFloatBitWidth());
  if (type.isIndex())
    return Halide::Int(32);
  if (type.isInteger(1))
    return Halide::Bool();
  if (auto integer = llvm::dyn_cast<mlir::IntegerType>(type);
      integer && llvm::is_contained({8, 16, 32, 64}, integer.getWidth()))
    return integer.isUnsigned() ? Halide::UInt(integer.getWidth()) : Halide::Int(integer.getWidth());
  return Halide::Type();
}

Expr heddle::constantExpr(mlir::Attribute value) {
  if (auto number = llvm::dyn_cast<mlir::FloatAttr>(value))
    return Halide::Internal::make_const(halideType(number.getType()), number.getValueAsDouble());
  if (auto number = llvm::dyn_cast<mlir::IntegerAttr>(value); number && halideType(number.getType()).bits())
    return number.getType().isInteger(1) ? Halide::Internal::make_bool(!number.getValue().isZero())
                                         : Halide::Internal::make_const(halideType(number.getType()), number.getInt());
  return Expr();
}

static Expr compareFloat(mlir::arith::CmpFPredicate predicate, Expr a, Expr b) {
  using Predicate = mlir::arith::CmpFPredicate;
  Expr unordered = Halide::is_nan(a) || Halide::is_nan(b);
  switch (predicate) {
  case Predicate::OEQ:
    return a == b;
  case Predicate::OGT:
    return a > b;
  case Predicate::OGE:
    return a >= b;
  case Predicate::OLT:
    return a < b;
  case Predicate::OLE:
    return a <= b;
  case Predicate::ONE:
    return a < b || a > b;
  case Predicate::ORD:
    return !unordered;
  case Predicate::UEQ:
    return unordered || a == b;
  case Predicate::UGT:
    return unordered || a > b;
  case Predicate::UGE:
    return unordered || a >= b;
  case Predicate::ULT:
    return unordered || a < b;
  case Predicate::ULE:
    return unordered || a <= b;
  case Predicate::UNE:
    return unordered || a != b;
  case Predicate::UNO:
    return unordered;
  case Predicate::AlwaysFalse:
    return Expr(false);
  case Predicate::AlwaysTrue:
    return Expr(true);
  }
  return Expr();
}

static Expr asUnsigned(Expr x) {
  return Halide::reinterpret(x.type().with_code(halide_type_uint), x);
}

static Expr compareInteger(mlir::arith::CmpIPredicate predicate, Expr a, Expr b) {
  using Predicate = mlir::arith::CmpIPredicate;
  switch (predicate) {
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  case Predicate::slt:
    return a < b;
  case Predicate::sle:
    return a <= b;
  case Predicate::sgt:
    return a > b;
  case Predicate::sge:
    return a >= b;
  case Predicate::ult:
    return asUnsigned(a) < asUnsigned(b);
  case Predicate::ule:
    return asUnsigned(a) <= asUnsigned(b);
  case Predicate::ugt:
    return asUnsigned(a) > asUnsigned(b);
  case Predicate::uge:
    return asUnsigned(a) >= asUnsigned(b);
  }
  return Expr();
}

// Ops whose operands are f32 in the table: narrower and wider ones are not rounded through it.
static Expr mathExpr(mlir::Operation *op, llvm::ArrayRef<Expr> x) {
  namespace math = mlir::math;
  bool isF32 = llvm::all_of(x, [](const Expr &e) { return e.type() == Halide::Float(32); });
  return llvm::TypeSwitch<mlir::Operation *, Expr>(op)
      .Case([&](math::AbsFOp) { return Halide::abs(x[0]); })
      .Case([&](math::SqrtOp) { return Halide::sqrt(x[0]); })
      .Case([&](math::RsqrtOp) { return constant(x[0].type(), 1) / Halide::sqrt(x[0]); })
      .Case([&](math::FloorOp) { return Halide::floor(x[0]); })
      .Case([&](math::CeilOp) { return Halide::ceil(x[0]); })
      .Case([&](math::RoundEvenOp) { return Halide::round(x[0]); })
      .Case([&](math::ExpOp) { return isF32 ? expExpr(x[0]) : Expr(); })
      .Case([&](math::TanhOp) { return isF32 ? tanhExpr(x[0]) : Expr(); })
      .Case([&](math::ErfOp) { return isF32 ? erfExpr(x[0]) : Expr(); })
      .Case([&](math::SinOp) { return isF32 ? sinExpr(x[0]) : Expr(); })
      .Case([&](math::CosOp) { return isF32 ? cosExpr(x[0]) : Expr(); })
      .Case([&](math::LogOp) { return isF32 ? logExpr(x[0]) : Expr(); })
      .Case([&](math::Log1pOp) { return isF32 ? log1pExpr(x[0]) : Expr(); })
      .Case([&](math::PowFOp) { return isF32 ? powExpr(x[0], x[1]) : Expr(); })
      .Default([](mlir::Operation *) { return Expr(); });
}

// The upper half of the bits, rounded to nearest even; a NaN stays one, which the addition could carry into infinity.
static Expr roundToBf16(Expr x) {
  Expr bits = Halide::reinterpret<uint32_t>(x);
  Expr rounded = bits + 0x7fff + ((bits >> 16) & 1);
  Expr kept = select(Halide::is_nan(x), bits | 0x400000, rounded) >> 16;
  return Halide::reinterpret(Halide::BFloat(16), Halide::cast<uint16_t>(kept));
}

Expr heddle::scalarExpr(mlir::Operation *op, llvm::ArrayRef<Expr> x) {
  namespace arith = mlir::arith;
  Halide::Type type = halideType(mlir::getElementTypeOrSelf(op->getResult(0).getType()));
  if (type.bits() == 0)
    return Expr();
  return llvm::TypeSwitch<mlir::Operation *, Expr>(op)
      .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return x[0] + x[1]; })
      .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return x[0] - x[1]; })
      .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return x[0] * x[1]; })
      .Case([&](arith::DivFOp) { return x[0] / x[1]; })
      .Case([&](arith::NegFOp) { return negate(x[0]); })
      // A NaN on either side wins.
      .Case([&](arith::MaximumFOp) { return select(Halide::is_nan(x[0]) || x[0] > x[1], x[0], x[1]); })
      .Case([&](arith::MinimumFOp) { return select(Halide::is_nan(x[0]) || x[0] < x[1], x[0], x[1]); })
      // A NaN on either side loses.
      .Case([&](arith::MaxNumFOp) { return select(Halide::is_nan(x[1]) || x[0] > x[1], x[0], x[1]); })
      .Case([&](arith::MinNumFOp) { return select(Halide::is_nan(x[1]) || x[0] < x[1], x[0], x[1]); })
      .Case([&](arith::MaxSIOp) { return Halide::max(x[0], x[1]); })
      .Case([&](arith::MinSIOp) { return Halide::min(x[0], x[1]); })
      .Case([&](arith::AndIOp) { return type.is_bool() ? x[0] && x[1] : x[0] & x[1]; })
      .Case([&](arith::OrIOp) { return type.is_bool() ? x[0] || x[1] : x[0] | x[1]; })
      .Case([&](arith::XOrIOp) { return type.is_bool() ? x[0] != x[1] : x[0] ^ x[1]; })
      .Case([&](arith::CmpFOp cmp) { return compareFloat(cmp.getPredicate(), x[0], x[1]); })
      .Case([&](arith::CmpIOp cmp) { return compareInteger(cmp.getPredicate(), x[0], x[1]); })
      .Case([&](arith::SelectOp) { return select(x[0], x[1], x[2]); })
      .Case([&](arith::TruncFOp) { return type == Halide::BFloat(16) ? roundToBf16(x[0]) : Halide::cast(type, x[0]); })
      .Case<arith::ExtFOp, arith::SIToFPOp, arith::FPToSIOp, arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(
          [&](auto) { return Halide::cast(type, x[0]); })
      .Case<arith::ExtUIOp, arith::UIToFPOp>(
          [&](auto) { return Halide::cast(type, x[0].type().is_bool() ? x[0] : asUnsigned(x[0])); })
      .Default([&](mlir::Operation *other) { return mathExpr(other, x); });
}
