// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions as scalar ops.

#include "compiler/raise/Arrange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

// Dimensions of tensors that are known as ops.
using Sizes = DenseMap<std::pair<Value, int64_t>, Value>;

namespace {
// Emits an expression in one of two kinds: index, for integers, or `real`.
class ScalarEmitter {
public:
  ScalarEmitter(OpBuilder &b, Location loc, const DenseMap<Expr, Value> &symbols, const Sizes &sizes = Sizes())
      : b(b), loc(loc), symbols(symbols), sizes(sizes) {}

  Value index(Expr expr);
  Value real(Expr expr);
  Value condition(Expr atom);

private:
  Value sizeOf(Value tensor, int64_t dimension);
  Value leaf(Expr expr, Type wanted);
  Value inside(Value tensor, int64_t dimension, Expr expr);
  Value power(Value base, double exponent);
  Value realConstant(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); }
  Value call(Expr expr);

  OpBuilder &b;
  Location loc;
  const DenseMap<Expr, Value> &symbols;
  Sizes sizes;
};
} // namespace

Value ScalarEmitter::sizeOf(Value tensor, int64_t dimension) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dimension))
    return arith::ConstantIndexOp::create(b, loc, type.getDimSize(dimension));
  if (Value known = sizes.lookup({tensor, dimension}))
    return known;
  return tensor::DimOp::create(b, loc, tensor, dimension);
}

// The dynamic sizes of tensors that `expr` names: a body reads elements, not sizes.
static void collectSizes(OpBuilder &b, Location loc, Expr expr, Sizes &sizes) {
  for (Expr argument : expr->arguments)
    collectSizes(b, loc, argument, sizes);
  for (auto &[term, factor] : expr->terms)
    collectSizes(b, loc, term, sizes);
  bool isNamed = expr->kind == ExprKind::Size || expr->kind == ExprKind::Leaf;
  auto type = isNamed ? dyn_cast<RankedTensorType>(expr->value.getType()) : RankedTensorType();
  for (int64_t d = 0; type && d < type.getRank(); ++d)
    if (Value &size = sizes[{expr->value, d}]; !size && type.isDynamicDim(d))
      size = tensor::DimOp::create(b, loc, expr->value, d);
}

// An index of `tensor`, kept within it: both ends of a decision are computed, and that which is not taken may lie outside.
Value ScalarEmitter::inside(Value tensor, int64_t dimension, Expr expr) {
  Value at = index(expr);
  int64_t size = cast<RankedTensorType>(tensor.getType()).getDimSize(dimension);
  bool isWithin =
      expr->isConstant() ||
      (expr->kind == ExprKind::Symbol && expr->extent &&
       (expr->extent->isConstant(size) || (expr->extent->value == tensor && expr->extent->dimension == dimension)));
  if (!at || isWithin)
    return at;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value end = sizeOf(tensor, dimension);
  at = arith::MaxSIOp::create(b, loc, at, zero);
  return arith::MinSIOp::create(b, loc, at, arith::SubIOp::create(b, loc, end, one));
}

Value ScalarEmitter::leaf(Expr expr, Type wanted) {
  if (!isa<RankedTensorType>(expr->value.getType()))
    return {};
  SmallVector<Value> indices;
  for (auto [d, argument] : llvm::enumerate(expr->arguments)) {
    indices.push_back(inside(expr->value, d, argument));
    if (!indices.back())
      return {};
  }
  Value element = tensor::ExtractOp::create(b, loc, expr->value, indices);
  Type type = element.getType();
  if (type == wanted)
    return element;
  if (isa<FloatType>(wanted) && isa<FloatType>(type))
    return type.getIntOrFloatBitWidth() < wanted.getIntOrFloatBitWidth()
               ? arith::ExtFOp::create(b, loc, wanted, element).getResult()
               : arith::TruncFOp::create(b, loc, wanted, element).getResult();
  if (isa<FloatType>(wanted))
    return type.isInteger(1) ? arith::UIToFPOp::create(b, loc, wanted, element).getResult()
                             : arith::SIToFPOp::create(b, loc, wanted, element).getResult();
  if (isa<FloatType>(type))
    return {};
  return type.isInteger(1) ? arith::IndexCastUIOp::create(b, loc, wanted, element).getResult()
                           : arith::IndexCastOp::create(b, loc, wanted, element).getResult();
}

Value ScalarEmitter::index(Expr expr) {
  if (Value known = symbols.lookup(expr))
    return known;
  auto constant = [&](double value) -> Value { return arith::ConstantIndexOp::create(b, loc, (int64_t)value); };
  switch (expr->kind) {
  case ExprKind::Constant:
    return constant(expr->constant);
  case ExprKind::Size:
    return sizeOf(expr->value, expr->dimension);
  case ExprKind::Leaf:
    return leaf(expr, b.getIndexType());
  case ExprKind::Sum: {
    Value total = expr->constant || expr->terms.empty() ? constant(expr->constant) : Value();
    for (auto &[term, factor] : expr->terms) {
      Value part = index(term);
      if (!part)
        return {};
      if (factor != 1)
        part = arith::MulIOp::create(b, loc, part, constant(factor));
      total = total ? arith::AddIOp::create(b, loc, total, part).getResult() : part;
    }
    return total;
  }
  case ExprKind::Product: {
    Value total;
    for (auto &[base, exponent] : expr->terms) {
      Value part = index(base);
      if (!part || exponent < 1)
        return {};
      for (int i = 0; i < exponent; ++i)
        total = total ? arith::MulIOp::create(b, loc, total, part).getResult() : part;
    }
    return total;
  }
  case ExprKind::FloorDiv: {
    Value dividend = index(expr->arguments[0]), divisor = index(expr->arguments[1]);
    if (!dividend || !divisor)
      return {};
    return arith::FloorDivSIOp::create(b, loc, dividend, divisor);
  }
  case ExprKind::Choice: {
    Value decided = condition(expr->atom()), high = index(expr->high()), low = index(expr->low());
    if (!decided || !high || !low)
      return {};
    return arith::SelectOp::create(b, loc, decided, high, low);
  }
  case ExprKind::Call: {
    Value whole = expr->name == "truncate" ? real(expr->arguments[0]) : Value();
    if (!whole)
      return {};
    // Both ends of a decision are computed, and that which is not taken may be infinite.
    whole = arith::MaxNumFOp::create(b, loc, whole, realConstant(-2147483648.0));
    whole = arith::MinNumFOp::create(b, loc, whole, realConstant(2147483520.0));
    whole = arith::FPToSIOp::create(b, loc, b.getI64Type(), whole);
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), whole);
  }
  default:
    return {};
  }
}

Value ScalarEmitter::condition(Expr atom) {
  if (atom->kind == ExprKind::NotBelow) {
    Value value = index(atom->arguments[0]);
    if (!value)
      return {};
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, value, arith::ConstantIndexOp::create(b, loc, 0));
  }
  if (atom->kind == ExprKind::Leaf && atom->value.getType() && atom->isInteger) {
    Value value = leaf(atom, b.getIndexType());
    if (!value)
      return {};
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, arith::ConstantIndexOp::create(b, loc, 0));
  }
  if (atom->kind != ExprKind::Call || atom->arguments.size() > 2)
    return {};
  SmallVector<Value> operands;
  for (Expr argument : atom->arguments) {
    operands.push_back(real(argument));
    if (!operands.back())
      return {};
  }
  auto predicate = llvm::StringSwitch<std::optional<arith::CmpFPredicate>>(atom->name)
                       .Case("greater", arith::CmpFPredicate::OGT)
                       .Case("at_least", arith::CmpFPredicate::OGE)
                       .Case("equal", arith::CmpFPredicate::OEQ)
                       .Case("isnan", arith::CmpFPredicate::UNO)
                       .Default(std::nullopt);
  if (!predicate)
    return {};
  return arith::CmpFOp::create(b, loc, *predicate, operands.front(), operands.back());
}

Value ScalarEmitter::power(Value base, double exponent) {
  if (exponent == 0.5)
    return math::SqrtOp::create(b, loc, base);
  if (exponent == -0.5)
    return math::RsqrtOp::create(b, loc, base);
  if (exponent < 0)
    return arith::DivFOp::create(b, loc, realConstant(1), power(base, -exponent));
  if (exponent == std::floor(exponent) && exponent <= 4) {
    Value result = base;
    for (int i = 1; i < exponent; ++i)
      result = arith::MulFOp::create(b, loc, result, base);
    return result;
  }
  return math::PowFOp::create(b, loc, base, realConstant(exponent));
}

Value ScalarEmitter::call(Expr expr) {
  SmallVector<Value> x;
  for (Expr argument : expr->arguments) {
    x.push_back(real(argument));
    if (!x.back())
      return {};
  }
  return llvm::StringSwitch<std::function<Value()>>(expr->name)
      .Case("exp", [&] { return math::ExpOp::create(b, loc, x[0]); })
      .Case("tanh", [&] { return math::TanhOp::create(b, loc, x[0]); })
      .Case("erf", [&] { return math::ErfOp::create(b, loc, x[0]); })
      .Case("sin", [&] { return math::SinOp::create(b, loc, x[0]); })
      .Case("cos", [&] { return math::CosOp::create(b, loc, x[0]); })
      .Case("log", [&] { return math::LogOp::create(b, loc, x[0]); })
      .Case("floor", [&] { return math::FloorOp::create(b, loc, x[0]); })
      .Case("ceil", [&] { return math::CeilOp::create(b, loc, x[0]); })
      .Case("abs", [&] { return math::AbsFOp::create(b, loc, x[0]); })
      .Case("max", [&] { return arith::MaximumFOp::create(b, loc, x[0], x[1]); })
      .Case("min", [&] { return arith::MinimumFOp::create(b, loc, x[0], x[1]); })
      .Default([] { return Value(); })();
}

Value ScalarEmitter::real(Expr expr) {
  if (expr->isConstant())
    return realConstant(expr->constant);
  if (expr->kind == ExprKind::Leaf)
    return leaf(expr, b.getF32Type());
  if (expr->kind == ExprKind::Choice) {
    Value decided = condition(expr->atom()), high = real(expr->high()), low = real(expr->low());
    if (!decided || !high || !low)
      return {};
    return arith::SelectOp::create(b, loc, decided, high, low);
  }
  if (expr->isInteger) {
    Value whole = index(expr);
    if (!whole)
      return {};
    whole = arith::IndexCastOp::create(b, loc, b.getI64Type(), whole);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), whole);
  }
  if (expr->kind == ExprKind::Call)
    return call(expr);
  Value total;
  if (expr->kind == ExprKind::Sum && expr->constant)
    total = realConstant(expr->constant);
  if (expr->kind != ExprKind::Sum && expr->kind != ExprKind::Product)
    return {};
  for (auto &[part, factor] : expr->terms) {
    Value value = real(part);
    if (!value)
      return {};
    if (expr->kind == ExprKind::Product) {
      value = power(value, factor);
      total = total ? arith::MulFOp::create(b, loc, total, value).getResult() : value;
      continue;
    }
    if (factor != 1)
      value = arith::MulFOp::create(b, loc, value, realConstant(factor));
    total = total ? arith::AddFOp::create(b, loc, total, value).getResult() : value;
  }
  return total;
}

Value heddle::emitIndex(OpBuilder &b, Location loc, Expr expr, const DenseMap<Expr, Value> &symbols) {
  return ScalarEmitter(b, loc, symbols).index(expr);
}

Value heddle::emitIntegers(OpBuilder &b, Location loc, ExprContext &exprs, Expr expr, ArrayRef<Axis> axes) {
  bool isElement = expr->kind == ExprKind::Leaf && expr->arguments.size() == axes.size() &&
                   llvm::all_of(llvm::zip_equal(expr->arguments, axes),
                                [](auto pair) { return std::get<0>(pair) == std::get<1>(pair).index; });
  if (!isElement)
    return emitTensor(b, loc, exprs, expr, axes, b.getI32Type(), /*repeats=*/true);
  auto type = cast<RankedTensorType>(expr->value.getType());
  if (type.getElementType().isInteger(32))
    return expr->value;
  auto narrow = type.clone(b.getI32Type());
  return type.getElementTypeBitWidth() > 32 ? arith::TruncIOp::create(b, loc, narrow, expr->value).getResult()
                                            : arith::ExtSIOp::create(b, loc, narrow, expr->value).getResult();
}

Value heddle::emitTensor(OpBuilder &b, Location loc, ExprContext &exprs, Expr expr, ArrayRef<Axis> axes,
                         Type elementType, bool repeats) {
  SmallVector<OpFoldResult> sizes;
  for (const Axis &axis : axes) {
    bool isThere = repeats || exprs.contains(expr, axis.index);
    if (axis.extent->isConstant() || !isThere) {
      sizes.push_back(b.getIndexAttr(isThere ? (int64_t)axis.extent->constant : 1));
      continue;
    }
    Value size = emitIndex(b, loc, axis.extent, DenseMap<Expr, Value>());
    if (!size)
      return {};
    sizes.push_back(size);
  }
  Value init = tensor::EmptyOp::create(b, loc, sizes, elementType);
  AffineMap identity = b.getMultiDimIdentityMap(axes.size());
  SmallVector<utils::IteratorType> loops(axes.size(), utils::IteratorType::parallel);
  bool complete = true;
  Sizes known;
  collectSizes(b, loc, expr, known);
  auto generic = linalg::GenericOp::create(
      b, loc, init.getType(), ValueRange{}, init, identity, loops, [&](OpBuilder &inner, Location at, ValueRange) {
        DenseMap<Expr, Value> symbols;
        for (auto [d, axis] : llvm::enumerate(axes))
          if (!axis.index->isConstant())
            symbols[axis.index] = linalg::IndexOp::create(inner, at, d);
        ScalarEmitter emitter(inner, at, symbols, known);
        bool isReal = isa<FloatType>(elementType);
        Value value = isReal ? emitter.real(expr) : emitter.index(expr);
        complete = bool(value);
        if (!complete)
          value = arith::ConstantOp::create(inner, at, inner.getZeroAttr(elementType));
        else if (!isReal && value.getType() != elementType)
          value = arith::IndexCastOp::create(inner, at, elementType, value);
        else if (isReal && value.getType() != elementType)
          value = elementType.getIntOrFloatBitWidth() > 32
                      ? arith::ExtFOp::create(inner, at, elementType, value).getResult()
                      : arith::TruncFOp::create(inner, at, elementType, value).getResult();
        linalg::YieldOp::create(inner, at, value);
      });
  if (complete)
    return generic.getResult(0);
  generic.erase();
  return {};
}
