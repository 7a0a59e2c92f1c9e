// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// arith and math ops as expressions.

#include "compiler/raise/ElementTrace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static bool isBool(Value value) {
  return getElementTypeOrSelf(value.getType()).isInteger(1);
}

// a >= b on floats is decided for integers and constants, else it is an atom of its own.
static Expr atLeast(ExprContext &exprs, Expr a, Expr b, bool strictly) {
  if (a->isInteger && b->isInteger)
    return exprs.notBelow(strictly ? exprs.sub(a, exprs.constant(1)) : a, b);
  return exprs.condition(exprs.call(strictly ? "greater" : "at_least", {a, b}));
}

static Expr equals(ExprContext &exprs, Expr a, Expr b) {
  if (a->isInteger && b->isInteger)
    return exprs.equal(a, b);
  return exprs.condition(exprs.call("equal", {a, b}));
}

static Expr isUnordered(ExprContext &exprs, Expr a, Expr b) {
  if (a->isInteger && b->isInteger)
    return exprs.constant(0);
  return exprs.condition(a == b ? exprs.call("isnan", {a}) : exprs.call("unordered", {a, b}));
}

static Expr compareFloats(ExprContext &exprs, arith::CmpFPredicate predicate, Expr a, Expr b) {
  // A value equals itself unless it is not a number.
  bool isSelf = a == b;
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return isSelf ? exprs.negate(isUnordered(exprs, a, b)) : equals(exprs, a, b);
  case arith::CmpFPredicate::UEQ:
    return isSelf ? exprs.constant(1) : equals(exprs, a, b);
  case arith::CmpFPredicate::ONE:
    return isSelf ? exprs.constant(0) : exprs.negate(equals(exprs, a, b));
  case arith::CmpFPredicate::UNE:
    return isSelf ? isUnordered(exprs, a, b) : exprs.negate(equals(exprs, a, b));
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::UGT:
    return atLeast(exprs, a, b, true);
  case arith::CmpFPredicate::OGE:
  case arith::CmpFPredicate::UGE:
    return atLeast(exprs, a, b, false);
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::ULT:
    return atLeast(exprs, b, a, true);
  case arith::CmpFPredicate::OLE:
  case arith::CmpFPredicate::ULE:
    return atLeast(exprs, b, a, false);
  case arith::CmpFPredicate::UNO:
    return isUnordered(exprs, a, b);
  case arith::CmpFPredicate::ORD:
    return exprs.negate(isUnordered(exprs, a, b));
  default:
    return exprs.constant(predicate == arith::CmpFPredicate::AlwaysTrue);
  }
}

static Expr compareIntegers(ExprContext &exprs, arith::CmpIOp op, Expr a, Expr b) {
  switch (op.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return equals(exprs, a, b);
  case arith::CmpIPredicate::ne:
    return exprs.negate(equals(exprs, a, b));
  case arith::CmpIPredicate::sgt:
    return atLeast(exprs, a, b, true);
  case arith::CmpIPredicate::sge:
    return atLeast(exprs, a, b, false);
  case arith::CmpIPredicate::slt:
    return atLeast(exprs, b, a, true);
  case arith::CmpIPredicate::sle:
    return atLeast(exprs, b, a, false);
  default:
    // Unsigned order is the signed one where neither is negative.
    if (exprs.isNotBelowZero(a) != true || exprs.isNotBelowZero(b) != true)
      return exprs.condition(exprs.call(stringifyCmpIPredicate(op.getPredicate()), {a, b}));
    bool strictly = op.getPredicate() == arith::CmpIPredicate::ugt || op.getPredicate() == arith::CmpIPredicate::ult;
    bool swapped = op.getPredicate() == arith::CmpIPredicate::ult || op.getPredicate() == arith::CmpIPredicate::ule;
    return swapped ? atLeast(exprs, b, a, strictly) : atLeast(exprs, a, b, strictly);
  }
}

// The greater of two, or the smaller.
static Expr extremum(ExprContext &exprs, Expr a, Expr b, bool greater) {
  if (a == b)
    return a;
  if ((a->isInteger && b->isInteger) || (a->isConstant() && b->isConstant())) {
    if (a->isInteger && b->isInteger && exprs.isNotBelowZero(exprs.sub(b, a)) == true)
      return greater ? b : a;
    Expr first = atLeast(exprs, a, b, false);
    return greater ? exprs.select(first, a, b) : exprs.select(first, b, a);
  }
  if (a->id > b->id)
    std::swap(a, b);
  return exprs.call(greater ? "max" : "min", {a, b});
}

static Expr power(ExprContext &exprs, Expr base, Expr exponent) {
  if (exponent->isConstant() && std::abs(exponent->constant) <= 16)
    return exprs.power(base, exponent->constant);
  if (base->isConstant() && base->constant > 0)
    return exprs.call("exp", exprs.mul(exprs.constant(std::log(base->constant)), exponent));
  return exprs.call("pow", {base, exponent});
}

// |x|; a decision where x is an index, and x itself where it is an exponential.
static Expr magnitude(ExprContext &exprs, Expr x) {
  if (x->kind == ExprKind::Call && x->name == "exp")
    return x;
  if (!x->isInteger)
    return exprs.call("abs", x);
  return exprs.select(exprs.notBelow(x, exprs.constant(0)), x, exprs.mul(exprs.constant(-1), x));
}

// Integer division: towards zero where the op says so, which is downwards for what is not negative.
static Expr division(ExprContext &exprs, Operation *op, Expr a, Expr b) {
  bool isExact = isa<arith::FloorDivSIOp>(op) || (exprs.isNotBelowZero(a) == true && exprs.isNotBelowZero(b) == true);
  if (isExact && isa<arith::RemSIOp, arith::RemUIOp>(op))
    return exprs.remainder(a, b);
  if (isExact)
    return exprs.floorDiv(a, b);
  return exprs.call(op->getName().getStringRef(), {a, b}, true);
}

static Expr integerOp(ExprContext &exprs, Operation *op, ArrayRef<Expr> x) {
  return llvm::TypeSwitch<Operation *, Expr>(op)
      .Case([&](arith::AddIOp) { return isBool(op->getResult(0)) ? Expr() : exprs.add(x[0], x[1]); })
      .Case([&](arith::SubIOp) { return isBool(op->getResult(0)) ? Expr() : exprs.sub(x[0], x[1]); })
      .Case([&](arith::MulIOp) { return exprs.mul(x[0], x[1]); })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](Operation *division_) { return division(exprs, division_, x[0], x[1]); })
      .Case<arith::MaxSIOp>([&](auto) { return extremum(exprs, x[0], x[1], true); })
      .Case<arith::MinSIOp>([&](auto) { return extremum(exprs, x[0], x[1], false); })
      .Case([&](arith::AndIOp) {
        return isBool(op->getResult(0)) ? exprs.mul(exprs.condition(x[0]), exprs.condition(x[1])) : Expr();
      })
      .Case([&](arith::OrIOp) {
        if (!isBool(op->getResult(0)))
          return Expr();
        return exprs.negate(exprs.mul(exprs.negate(exprs.condition(x[0])), exprs.negate(exprs.condition(x[1]))));
      })
      .Case([&](arith::XOrIOp) {
        if (!isBool(op->getResult(0)))
          return Expr();
        Expr a = exprs.condition(x[0]), b = exprs.condition(x[1]);
        return exprs.select(a, exprs.negate(b), b);
      })
      .Case([&](arith::CmpIOp cmp) {
        if (!isBool(cmp.getLhs()))
          return compareIntegers(exprs, cmp, x[0], x[1]);
        Expr a = exprs.condition(x[0]), b = exprs.condition(x[1]);
        bool isEqual = cmp.getPredicate() == arith::CmpIPredicate::eq;
        if (!isEqual && cmp.getPredicate() != arith::CmpIPredicate::ne)
          return Expr();
        return exprs.select(a, isEqual ? b : exprs.negate(b), isEqual ? exprs.negate(b) : b);
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp>(
          [&](auto) { return isBool(op->getOperand(0)) ? exprs.condition(x[0]) : x[0]; })
      .Case([&](arith::ExtSIOp) {
        return isBool(op->getOperand(0)) ? exprs.mul(exprs.constant(-1), exprs.condition(x[0])) : x[0];
      })
      // Indices and positions fit: what is cut off is zero.
      .Case([&](arith::TruncIOp) { return isBool(op->getResult(0)) ? Expr() : x[0]; })
      .Case<arith::SIToFPOp, arith::UIToFPOp>(
          [&](auto) { return isBool(op->getOperand(0)) ? exprs.condition(x[0]) : x[0]; })
      .Case([&](math::AbsIOp) { return magnitude(exprs, x[0]); })
      .Case<arith::FPToSIOp, arith::FPToUIOp>(
          [&](auto) { return x[0]->isInteger ? x[0] : exprs.call("truncate", x, /*isInteger=*/true); })
      .Default([](Operation *) { return Expr(); });
}

static Expr floatOp(ExprContext &exprs, Operation *op, ArrayRef<Expr> x) {
  return llvm::TypeSwitch<Operation *, Expr>(op)
      .Case([&](arith::AddFOp) { return exprs.add(x[0], x[1]); })
      .Case([&](arith::SubFOp) { return exprs.sub(x[0], x[1]); })
      .Case([&](arith::MulFOp) { return exprs.mul(x[0], x[1]); })
      .Case([&](arith::DivFOp) { return exprs.div(x[0], x[1]); })
      .Case([&](arith::NegFOp) { return exprs.mul(exprs.constant(-1), x[0]); })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return x[0]; })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) { return extremum(exprs, x[0], x[1], true); })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) { return extremum(exprs, x[0], x[1], false); })
      .Case([&](arith::CmpFOp cmp) { return compareFloats(exprs, cmp.getPredicate(), x[0], x[1]); })
      .Case([&](math::SqrtOp) { return exprs.power(x[0], 0.5); })
      .Case([&](math::RsqrtOp) { return exprs.power(x[0], -0.5); })
      .Case<math::PowFOp, math::FPowIOp>([&](auto) { return power(exprs, x[0], x[1]); })
      .Case([&](math::ExpOp) { return exprs.call("exp", x); })
      .Case([&](math::Exp2Op) { return power(exprs, exprs.constant(2), x[0]); })
      .Case([&](math::TanhOp) { return exprs.call("tanh", x); })
      .Case([&](math::ErfOp) { return exprs.call("erf", x); })
      .Case([&](math::SinOp) { return exprs.call("sin", x); })
      .Case([&](math::CosOp) { return exprs.call("cos", x); })
      .Case([&](math::LogOp) { return exprs.call("log", x); })
      .Case([&](math::AbsFOp) { return magnitude(exprs, x[0]); })
      .Case([&](math::FloorOp) { return x[0]->isInteger ? x[0] : exprs.call("floor", x); })
      .Case([&](math::CeilOp) { return x[0]->isInteger ? x[0] : exprs.call("ceil", x); })
      .Case([&](math::IsNaNOp) { return exprs.condition(exprs.call("isnan", x)); })
      .Default([](Operation *) { return Expr(); });
}

Expr heddle::scalarOp(ExprContext &exprs, Operation *op, ArrayRef<Expr> x) {
  if (isa<arith::SelectOp>(op))
    return exprs.select(exprs.condition(x[0]), x[1], x[2]);
  if (Expr result = integerOp(exprs, op, x))
    return result;
  return floatOp(exprs, op, x);
}
