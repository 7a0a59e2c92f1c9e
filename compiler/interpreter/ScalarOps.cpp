// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element-wise ops, written once per element: arith, math and index arithmetic.

#include "compiler/interpreter/Frame.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

using Operands = ArrayRef<Scalar>;

static Scalar real(double value) {
  return {value, 0};
}
static Scalar integer(int64_t value) {
  return {0, value};
}

template <typename F> static ScalarFunction unary(F f) {
  return [f](Operands x) -> FailureOr<Scalar> { return real(f(x[0].real)); };
}
template <typename F> static ScalarFunction binary(F f) {
  return [f](Operands x) -> FailureOr<Scalar> { return real(f(x[0].real, x[1].real)); };
}

//===- integers -----------------------------------------------------------===//

// Operands of signed arithmetic, for which the set i1 is -1, and of unsigned arithmetic.
static int64_t asSigned(int64_t value, unsigned width) {
  return width == 1 ? -value : value;
}
static uint64_t asUnsigned(int64_t value, unsigned width) {
  return width >= 64 ? uint64_t(value) : uint64_t(value) & ((uint64_t(1) << width) - 1);
}

template <typename F> static ScalarFunction unsignedBinary(Operation *op, F f) {
  unsigned width = integerWidth(getElementTypeOrSelf(op->getOperand(0).getType()));
  return [f, width](Operands x) -> FailureOr<Scalar> {
    return integer(f(asUnsigned(x[0].integer, width), asUnsigned(x[1].integer, width)));
  };
}
template <typename F> static ScalarFunction signedBinary(Operation *op, F f) {
  unsigned width = integerWidth(getElementTypeOrSelf(op->getOperand(0).getType()));
  return [f, width](Operands x) -> FailureOr<Scalar> {
    return integer(f(asSigned(x[0].integer, width), asSigned(x[1].integer, width)));
  };
}
// Divisions, which have no value for a divisor of 0 nor for the quotient that overflows.
template <typename F> static ScalarFunction signedDivision(Operation *op, F f) {
  unsigned width = integerWidth(getElementTypeOrSelf(op->getOperand(0).getType()));
  return [op, f, width](Operands x) -> FailureOr<Scalar> {
    int64_t a = asSigned(x[0].integer, width), b = asSigned(x[1].integer, width);
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return op->emitOpError("divides ") << a << " by " << b;
    return integer(f(a, b));
  };
}
template <typename F> static ScalarFunction unsignedDivision(Operation *op, F f) {
  unsigned width = integerWidth(getElementTypeOrSelf(op->getOperand(0).getType()));
  return [op, f, width](Operands x) -> FailureOr<Scalar> {
    uint64_t a = asUnsigned(x[0].integer, width), b = asUnsigned(x[1].integer, width);
    if (b == 0)
      return op->emitOpError("divides ") << a << " by 0";
    return integer(f(a, b));
  };
}

static ScalarFunction integerArithmetic(Operation *op) {
  using U = uint64_t;
  using S = int64_t;
  return llvm::TypeSwitch<Operation *, ScalarFunction>(op)
      .Case<arith::AddIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a + b; }); })
      .Case<arith::SubIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a - b; }); })
      .Case<arith::MulIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a * b; }); })
      .Case<arith::AndIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a & b; }); })
      .Case<arith::OrIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a | b; }); })
      .Case<arith::XOrIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return a ^ b; }); })
      .Case<arith::ShLIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return b > 63 ? 0 : a << b; }); })
      .Case<arith::ShRUIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return b > 63 ? 0 : a >> b; }); })
      .Case<arith::ShRSIOp>([](auto op) { return signedBinary(op, [](S a, S b) { return a >> std::min<U>(b, 63); }); })
      .Case<arith::MaxSIOp>([](auto op) { return signedBinary(op, [](S a, S b) { return std::max(a, b); }); })
      .Case<arith::MinSIOp>([](auto op) { return signedBinary(op, [](S a, S b) { return std::min(a, b); }); })
      .Case<arith::MaxUIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return std::max(a, b); }); })
      .Case<arith::MinUIOp>([](auto op) { return unsignedBinary(op, [](U a, U b) { return std::min(a, b); }); })
      .Case<arith::DivSIOp>([](auto op) { return signedDivision(op, [](S a, S b) { return a / b; }); })
      .Case<arith::RemSIOp>([](auto op) { return signedDivision(op, [](S a, S b) { return a % b; }); })
      .Case<arith::CeilDivSIOp>(
          [](auto op) { return signedDivision(op, [](S a, S b) { return llvm::divideCeilSigned(a, b); }); })
      .Case<arith::FloorDivSIOp>(
          [](auto op) { return signedDivision(op, [](S a, S b) { return llvm::divideFloorSigned(a, b); }); })
      .Case<arith::DivUIOp>([](auto op) { return unsignedDivision(op, [](U a, U b) { return a / b; }); })
      .Case<arith::RemUIOp>([](auto op) { return unsignedDivision(op, [](U a, U b) { return a % b; }); })
      .Case<arith::CeilDivUIOp>(
          [](auto op) { return unsignedDivision(op, [](U a, U b) { return a / b + (a % b != 0); }); })
      .Case<math::AbsIOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> {
          return integer(x[0].integer < 0 ? -uint64_t(x[0].integer) : x[0].integer);
        };
      })
      .Default(ScalarFunction());
}

static bool compareIntegers(arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned width) {
  uint64_t ua = asUnsigned(a, width), ub = asUnsigned(b, width);
  a = asSigned(a, width);
  b = asSigned(b, width);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  llvm_unreachable("all predicates are listed");
}

//===- floats -------------------------------------------------------------===//

static bool compareReals(arith::CmpFPredicate predicate, double a, double b) {
  using P = arith::CmpFPredicate;
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::ORD:
    return !unordered;
  case P::UNO:
    return unordered;
  case P::OEQ:
    return a == b;
  case P::OGT:
    return a > b;
  case P::OGE:
    return a >= b;
  case P::OLT:
    return a < b;
  case P::OLE:
    return a <= b;
  case P::ONE:
    return !unordered && a != b;
  case P::UEQ:
    return unordered || a == b;
  case P::UGT:
    return unordered || a > b;
  case P::UGE:
    return unordered || a >= b;
  case P::ULT:
    return unordered || a < b;
  case P::ULE:
    return unordered || a <= b;
  case P::UNE:
    return a != b;
  }
  llvm_unreachable("all predicates are listed");
}

// maximumf and minimumf give NaN where an operand is NaN; maxnumf and minnumf the other operand, as fmax does.
static double maximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
}
static double minimum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b);
}

static ScalarFunction realArithmetic(Operation *op) {
  return llvm::TypeSwitch<Operation *, ScalarFunction>(op)
      .Case<arith::AddFOp>([](auto) { return binary([](double a, double b) { return a + b; }); })
      .Case<arith::SubFOp>([](auto) { return binary([](double a, double b) { return a - b; }); })
      .Case<arith::MulFOp>([](auto) { return binary([](double a, double b) { return a * b; }); })
      .Case<arith::DivFOp>([](auto) { return binary([](double a, double b) { return a / b; }); })
      .Case<arith::RemFOp>([](auto) { return binary([](double a, double b) { return std::fmod(a, b); }); })
      .Case<arith::MaximumFOp>([](auto) { return binary(maximum); })
      .Case<arith::MinimumFOp>([](auto) { return binary(minimum); })
      .Case<arith::MaxNumFOp>([](auto) { return binary([](double a, double b) { return std::fmax(a, b); }); })
      .Case<arith::MinNumFOp>([](auto) { return binary([](double a, double b) { return std::fmin(a, b); }); })
      .Case<arith::NegFOp>([](auto) { return unary([](double a) { return -a; }); })
      .Case<arith::ExtFOp, arith::TruncFOp>([](auto) { return unary([](double a) { return a; }); })
      .Case<math::PowFOp>([](auto) { return binary([](double a, double b) { return std::pow(a, b); }); })
      .Case<math::Atan2Op>([](auto) { return binary([](double a, double b) { return std::atan2(a, b); }); })
      .Case<math::CopySignOp>([](auto) { return binary([](double a, double b) { return std::copysign(a, b); }); })
      .Case<math::FmaOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return real(std::fma(x[0].real, x[1].real, x[2].real)); };
      })
      .Case<math::ClampFOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return real(minimum(maximum(x[0].real, x[1].real), x[2].real)); };
      })
      .Case<math::FPowIOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return real(std::pow(x[0].real, double(x[1].integer))); };
      })
      .Default(ScalarFunction());
}

static ScalarFunction realFunction(Operation *op) {
  using Table = llvm::StringMap<double (*)(double)>;
  static const Table functions = [] {
    Table table;
    auto add = [&](StringRef name, double (*f)(double)) { table[("math." + name).str()] = f; };
    add("absf", std::fabs), add("ceil", std::ceil), add("floor", std::floor), add("trunc", std::trunc);
    add("round", std::round), add("roundeven", [](double x) { return std::nearbyint(x); });
    add("exp", std::exp), add("exp2", std::exp2), add("expm1", std::expm1);
    add("log", std::log), add("log2", std::log2), add("log10", std::log10), add("log1p", std::log1p);
    add("sin", std::sin), add("cos", std::cos), add("tan", std::tan);
    add("asin", std::asin), add("acos", std::acos), add("atan", std::atan);
    add("sinh", std::sinh), add("cosh", std::cosh), add("tanh", std::tanh);
    add("asinh", std::asinh), add("acosh", std::acosh), add("atanh", std::atanh);
    add("erf", std::erf), add("erfc", std::erfc);
    add("sqrt", std::sqrt), add("cbrt", std::cbrt), add("rsqrt", [](double x) { return 1 / std::sqrt(x); });
    return table;
  }();
  auto found = functions.find(op->getName().getStringRef());
  return found == functions.end() ? ScalarFunction() : unary(found->second);
}

//===- between integers and floats ----------------------------------------===//

static ScalarFunction toInteger(Operation *op, bool isSigned) {
  unsigned width = integerWidth(getElementTypeOrSelf(op->getResult(0).getType()));
  double high = std::ldexp(1.0, isSigned ? width - 1 : width), low = isSigned ? -high : 0;
  return [op, isSigned, high, low](Operands x) -> FailureOr<Scalar> {
    double value = std::trunc(x[0].real);
    if (!(value >= low && value < high))
      return op->emitOpError("converts ") << x[0].real << ", which its result type cannot hold";
    return integer(isSigned ? int64_t(value) : int64_t(uint64_t(value)));
  };
}

static ScalarFunction bitcast(arith::BitcastOp op) {
  Type from = getElementTypeOrSelf(op.getIn().getType()), to = getElementTypeOrSelf(op.getType());
  return [from, to](Operands x) -> FailureOr<Scalar> {
    unsigned width = integerWidth(from);
    llvm::APInt bits(width, asUnsigned(x[0].integer, width));
    if (auto type = dyn_cast<FloatType>(from)) {
      bool losesInfo;
      llvm::APFloat value(x[0].real);
      value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      bits = value.bitcastToAPInt();
    }
    if (auto type = dyn_cast<FloatType>(to)) {
      bool losesInfo;
      llvm::APFloat value(type.getFloatSemantics(), bits);
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      return real(value.convertToDouble());
    }
    return integer(bits.getSExtValue());
  };
}

static ScalarFunction conversion(Operation *op) {
  unsigned width = 0;
  if (op->getNumOperands() == 1 && !isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType())))
    width = integerWidth(getElementTypeOrSelf(op->getOperand(0).getType()));
  ScalarFunction fromSigned = [width](Operands x) -> FailureOr<Scalar> {
    return Scalar{double(asSigned(x[0].integer, width)), asSigned(x[0].integer, width)};
  };
  ScalarFunction fromUnsigned = [width](Operands x) -> FailureOr<Scalar> {
    return Scalar{double(asUnsigned(x[0].integer, width)), int64_t(asUnsigned(x[0].integer, width))};
  };
  return llvm::TypeSwitch<Operation *, ScalarFunction>(op)
      .Case<arith::ExtSIOp, arith::TruncIOp, arith::SIToFPOp, arith::IndexCastOp>([&](auto) { return fromSigned; })
      .Case<arith::ExtUIOp, arith::UIToFPOp, arith::IndexCastUIOp>([&](auto) { return fromUnsigned; })
      .Case<arith::FPToSIOp>([](auto op) { return toInteger(op, true); })
      .Case<arith::FPToUIOp>([](auto op) { return toInteger(op, false); })
      .Case<arith::BitcastOp>([](auto op) { return bitcast(op); })
      .Default(ScalarFunction());
}

//===- choices, tests and affine maps -------------------------------------===//

static ScalarFunction affineMap(AffineMap map, bool isMin) {
  // compose takes dimensions only.
  SmallVector<AffineExpr> dims, symbols;
  for (unsigned i = 0; i < map.getNumDims(); ++i)
    dims.push_back(getAffineDimExpr(i, map.getContext()));
  for (unsigned i = 0; i < map.getNumSymbols(); ++i)
    symbols.push_back(getAffineDimExpr(map.getNumDims() + i, map.getContext()));
  map = map.replaceDimsAndSymbols(dims, symbols, map.getNumInputs(), 0);
  return [map, isMin](Operands x) -> FailureOr<Scalar> {
    SmallVector<int64_t> operands;
    for (Scalar operand : x)
      operands.push_back(operand.integer);
    SmallVector<int64_t> values = map.compose(operands);
    return integer(isMin ? *llvm::min_element(values) : *llvm::max_element(values));
  };
}

static ScalarFunction choice(Operation *op) {
  return llvm::TypeSwitch<Operation *, ScalarFunction>(op)
      .Case<arith::SelectOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return x[0].integer ? x[1] : x[2]; };
      })
      .Case<arith::CmpIOp>([](arith::CmpIOp op) -> ScalarFunction {
        unsigned width = integerWidth(getElementTypeOrSelf(op.getLhs().getType()));
        return [predicate = op.getPredicate(), width](Operands x) -> FailureOr<Scalar> {
          return integer(compareIntegers(predicate, x[0].integer, x[1].integer, width));
        };
      })
      .Case<arith::CmpFOp>([](arith::CmpFOp op) -> ScalarFunction {
        return [predicate = op.getPredicate()](Operands x) -> FailureOr<Scalar> {
          return integer(compareReals(predicate, x[0].real, x[1].real));
        };
      })
      .Case<math::IsNaNOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return integer(std::isnan(x[0].real)); };
      })
      .Case<math::IsInfOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return integer(std::isinf(x[0].real)); };
      })
      .Case<math::IsFiniteOp>([](auto) -> ScalarFunction {
        return [](Operands x) -> FailureOr<Scalar> { return integer(std::isfinite(x[0].real)); };
      })
      .Case<affine::AffineApplyOp>([](auto op) { return affineMap(op.getAffineMap(), true); })
      .Case<affine::AffineMinOp>([](auto op) { return affineMap(op.getMap(), true); })
      .Case<affine::AffineMaxOp>([](auto op) { return affineMap(op.getMap(), false); })
      .Default(ScalarFunction());
}

ScalarFunction heddle::scalarFunctionOf(Operation *op) {
  for (auto *group : {integerArithmetic, realArithmetic, realFunction, conversion, choice})
    if (ScalarFunction function = group(op))
      return function;
  Attribute constant;
  if (!matchPattern(op, m_Constant(&constant)))
    return {};
  if (auto number = dyn_cast<FloatAttr>(constant)) {
    llvm::APFloat value = number.getValue();
    bool losesInfo;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return [value = value.convertToDouble()](Operands) -> FailureOr<Scalar> { return real(value); };
  }
  if (auto number = dyn_cast<IntegerAttr>(constant))
    return [value = number.getValue().getSExtValue()](Operands) -> FailureOr<Scalar> { return integer(value); };
  return {};
}

//===- on tensors ---------------------------------------------------------===//

LogicalResult heddle::evaluateElementwise(Frame &frame, Operation *op) {
  ScalarFunction function = scalarFunctionOf(op);
  if (!function || op->getNumResults() != 1)
    return frame.unknown(op);
  // A scalar operand, such as the condition of select, goes with every element.
  SmallVector<const Tensor *> operands;
  ArrayRef<int64_t> shape;
  for (Value operand : op->getOperands()) {
    operands.push_back(&frame.tensor(operand));
    if (isa<RankedTensorType>(operand.getType())) {
      if (!shape.empty() && shape != ArrayRef<int64_t>(operands.back()->shape))
        return op->emitOpError("has tensor operands of different shapes");
      shape = operands.back()->shape;
    }
  }
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op->getResult(0).getType()), shape);
  SmallVector<Scalar> elements(operands.size());
  for (int64_t i = 0, end = result.size(); i < end; ++i) {
    for (auto [element, operand] : llvm::zip_equal(elements, operands))
      element = operand->get(operand->shape.empty() ? 0 : i);
    FailureOr<Scalar> value = function(elements);
    if (failed(value))
      return failure();
    result.set(i, *value);
  }
  frame.set(op->getResult(0), std::move(result));
  return success();
}
