// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

GraphValue GraphBuilder::map(ArrayRef<GraphValue> operands, OnnxType result, Emit emit) {
  if (failed())
    return {};
  std::optional<Dims> dims = broadcastDims(operands);
  if (!dims)
    return {};
  SmallVector<Value> tensors;
  for (const GraphValue &operand : operands)
    tensors.push_back(tensor(broadcast(operand, *dims)));
  if (failed())
    return {};
  return wrap(emit(tensors), result, *dims);
}

// Whether `number` is a value of `type`.
static bool fits(OnnxType type, const Dim &number) {
  if (!number.isStatic())
    return type == OnnxType::Int64 || type == OnnxType::Int32; // sizes of tensors
  unsigned bits = onnxTypeBits(type);
  if (type == OnnxType::Bool)
    return number.value() == 0 || number.value() == 1;
  if (bits >= 64)
    return type == OnnxType::Int64 || number.value() >= 0;
  int64_t low = isUnsigned(type) ? 0 : -(int64_t(1) << (bits - 1));
  return number.value() >= low && number.value() <= low + ((int64_t(1) << bits) - 1);
}

// Folds integer arithmetic of known elements; an invalid value if some element does not fold.
GraphValue GraphBuilder::foldIntegers(const GraphValue &x, const GraphValue &y, OnnxType type,
                                      function_ref<std::optional<Dim>(const Dim &, const Dim &)> fold) {
  if (failed() || !x.content || !y.content || !x.isStatic() || !y.isStatic())
    return {};
  std::optional<Dims> dims = broadcastDims({x, y});
  if (!dims || product(*dims).value() > 1024)
    return {};
  GraphValue left = broadcast(x, *dims), right = broadcast(y, *dims);
  if (!left.content || !right.content)
    return {};
  std::vector<Dim> content;
  for (size_t i = 0; i < left.content->size(); ++i) {
    std::optional<Dim> element = fold((*left.content)[i], (*right.content)[i]);
    if (!element || !element->isSimple() || !fits(type, *element))
      return {};
    content.push_back(*element);
  }
  return integers(type, *dims, std::move(content));
}

GraphValue GraphBuilder::add(const GraphValue &x, const GraphValue &y) {
  if (GraphValue folded = foldIntegers(x, y, x.type, [](const Dim &a, const Dim &c) { return a + c; }))
    return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::AddFOp::create(b, loc, v[0], v[1]);
    return arith::AddIOp::create(b, loc, v[0], v[1]);
  });
}

GraphValue GraphBuilder::sub(const GraphValue &x, const GraphValue &y) {
  if (GraphValue folded = foldIntegers(x, y, x.type, [](const Dim &a, const Dim &c) { return a - c; }))
    return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::SubFOp::create(b, loc, v[0], v[1]);
    return arith::SubIOp::create(b, loc, v[0], v[1]);
  });
}

GraphValue GraphBuilder::mul(const GraphValue &x, const GraphValue &y) {
  if (GraphValue folded = foldIntegers(x, y, x.type, [](const Dim &a, const Dim &c) { return a * c; }))
    return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::MulFOp::create(b, loc, v[0], v[1]);
    return arith::MulIOp::create(b, loc, v[0], v[1]);
  });
}

GraphValue GraphBuilder::div(const GraphValue &x, const GraphValue &y) {
  auto fold = [this](const Dim &a, const Dim &c) -> std::optional<Dim> {
    if (a.isStatic() && c.isStatic() && c.value() != 0 && c.value() != -1)
      return Dim(a.value() / c.value());
    if (c.isStatic() && c.value() > 0 && isNonNegative(a))
      return floorDiv(a, c);
    return a.dividedBy(c);
  };
  if (GraphValue folded = foldIntegers(x, y, x.type, fold))
    return folded;
  if (failed() || isFloat(x.type))
    return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value { return arith::DivFOp::create(b, loc, v[0], v[1]); });
  // A divisor that the processor would trap at (0, or -1 of the lowest number) is replaced by 1.
  GraphValue divisor = y;
  std::optional<double> known = constantNumber(y);
  if (!known || *known == 0 || *known == -1) {
    GraphValue traps = compare(Predicate::Equal, y, like(y, 0));
    if (!isUnsigned(x.type) && !(known && *known == 0)) {
      GraphValue lowest = wrap(filled(x.type, {}, limit(x.type, false)), x.type, {});
      traps =
          logicalOr(traps, logicalAnd(compare(Predicate::Equal, y, like(y, -1)), compare(Predicate::Equal, x, lowest)));
    }
    divisor = select(traps, like(y, 1), y);
  }
  return map({x, divisor}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isUnsigned(x.type))
      return arith::DivUIOp::create(b, loc, v[0], v[1]);
    return arith::DivSIOp::create(b, loc, v[0], v[1]);
  });
}

GraphValue GraphBuilder::maximum(const GraphValue &x, const GraphValue &y) {
  if (!isUnsigned(x.type))
    if (GraphValue folded = foldIntegers(x, y, x.type, [&](const Dim &a, const Dim &c) { return maxOf(a, c); }))
      return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::MaximumFOp::create(b, loc, v[0], v[1]);
    if (isUnsigned(x.type))
      return arith::MaxUIOp::create(b, loc, v[0], v[1]);
    return arith::MaxSIOp::create(b, loc, v[0], v[1]);
  });
}

GraphValue GraphBuilder::minimum(const GraphValue &x, const GraphValue &y) {
  if (!isUnsigned(x.type))
    if (GraphValue folded = foldIntegers(x, y, x.type, [&](const Dim &a, const Dim &c) { return minOf(a, c); }))
      return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::MinimumFOp::create(b, loc, v[0], v[1]);
    if (isUnsigned(x.type))
      return arith::MinUIOp::create(b, loc, v[0], v[1]);
    return arith::MinSIOp::create(b, loc, v[0], v[1]);
  });
}

// A constant exponent of 2, 3 or 1/2 is a product or a root; elsewhere the power is computed in floating point, or by
// squaring where base and exponent are integers.
GraphValue GraphBuilder::pow(const GraphValue &x, const GraphValue &y) {
  if (failed())
    return {};
  std::optional<double> exponent = constantNumber(y);
  std::optional<Dims> dims = broadcastDims({x, y});
  if (!dims)
    return {};
  if (exponent && y.rank() <= x.rank()) {
    GraphValue base = broadcast(x, *dims);
    if (*exponent == 1)
      return base;
    if (*exponent == 2)
      return mul(base, base);
    if (*exponent == 3)
      return mul(mul(base, base), base);
    if (*exponent == 0.5 && isFloat(x.type))
      return sqrt(base);
  }
  if (isInteger(x.type) && isInteger(y.type)) {
    GraphValue power = cast(y, x.type);
    return map({x, power}, x.type,
               [&](ArrayRef<Value> v) -> Value { return math::IPowIOp::create(b, loc, v[0], v[1]); });
  }
  OnnxType real = isFloat(x.type) ? x.type : y.type;
  GraphValue base = cast(x, real), power = cast(y, real);
  GraphValue result =
      map({base, power}, real, [&](ArrayRef<Value> v) -> Value { return math::PowFOp::create(b, loc, v[0], v[1]); });
  return cast(result, x.type);
}

static arith::CmpFPredicate realPredicate(Predicate predicate) {
  switch (predicate) {
  case Predicate::Equal:
    return arith::CmpFPredicate::OEQ;
  case Predicate::NotEqual:
    return arith::CmpFPredicate::UNE;
  case Predicate::Less:
    return arith::CmpFPredicate::OLT;
  case Predicate::LessOrEqual:
    return arith::CmpFPredicate::OLE;
  case Predicate::Greater:
    return arith::CmpFPredicate::OGT;
  case Predicate::GreaterOrEqual:
    return arith::CmpFPredicate::OGE;
  }
  return arith::CmpFPredicate::OEQ;
}

static arith::CmpIPredicate integerPredicate(Predicate predicate, bool isUnsigned) {
  switch (predicate) {
  case Predicate::Equal:
    return arith::CmpIPredicate::eq;
  case Predicate::NotEqual:
    return arith::CmpIPredicate::ne;
  case Predicate::Less:
    return isUnsigned ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  case Predicate::LessOrEqual:
    return isUnsigned ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle;
  case Predicate::Greater:
    return isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  case Predicate::GreaterOrEqual:
    return isUnsigned ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge;
  }
  return arith::CmpIPredicate::eq;
}

// What a comparison is, where it follows from the polynomials and from sizes of tensors that are not negative.
static std::optional<Dim> foldCompare(const GraphBuilder &g, Predicate predicate, const Dim &a, const Dim &c) {
  auto isWide = [](const Dim &dim) { // a difference with it may wrap
    auto constant = dim.polynomial().find({});
    return constant != dim.polynomial().end() &&
           (constant->second >= INT64_MAX / 2 || constant->second <= INT64_MIN / 2);
  };
  if (isWide(a) || isWide(c))
    return std::nullopt;
  Dim difference = a - c, opposite = c - a;
  bool isPositive = g.isNonNegative(difference - Dim(1)), isNegative = g.isNonNegative(opposite - Dim(1));
  bool isNotNegative = g.isNonNegative(difference), isNotPositive = g.isNonNegative(opposite);
  auto decided = [](bool holds, bool fails) { return holds || fails ? std::optional(Dim(holds)) : std::nullopt; };
  switch (predicate) {
  case Predicate::Equal:
    return decided(isNotNegative && isNotPositive, isPositive || isNegative);
  case Predicate::NotEqual:
    return decided(isPositive || isNegative, isNotNegative && isNotPositive);
  case Predicate::Less:
    return decided(isNegative, isNotNegative);
  case Predicate::LessOrEqual:
    return decided(isNotPositive, isPositive);
  case Predicate::Greater:
    return decided(isPositive, isNotPositive);
  case Predicate::GreaterOrEqual:
    return decided(isNotNegative, isNegative);
  }
  return std::nullopt;
}

GraphValue GraphBuilder::compare(Predicate predicate, const GraphValue &x, const GraphValue &y) {
  auto fold = [&](const Dim &a, const Dim &c) { return foldCompare(*this, predicate, a, c); };
  if (x.type == OnnxType::Int64 || x.type == OnnxType::Int32)
    if (GraphValue folded = foldIntegers(x, y, OnnxType::Bool, fold))
      return folded;
  return map({x, y}, OnnxType::Bool, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return arith::CmpFOp::create(b, loc, realPredicate(predicate), v[0], v[1]);
    return arith::CmpIOp::create(b, loc, integerPredicate(predicate, isUnsigned(x.type)), v[0], v[1]);
  });
}

GraphValue GraphBuilder::select(const GraphValue &condition, const GraphValue &x, const GraphValue &y) {
  if (failed())
    return {};
  std::optional<Dims> dims = broadcastDims({condition, x, y});
  if (!dims)
    return {};
  if (auto known = condition.integers(); known && x.content && y.content && x.isStatic() && y.isStatic()) {
    GraphValue c = broadcast(condition, *dims), left = broadcast(x, *dims), right = broadcast(y, *dims);
    if (c.content && left.content && right.content) {
      std::vector<Dim> content;
      for (size_t i = 0; i < c.content->size(); ++i)
        content.push_back((*c.content)[i].value() ? (*left.content)[i] : (*right.content)[i]);
      return integers(x.type, *dims, std::move(content));
    }
  }
  return map({condition, x, y}, x.type,
             [&](ArrayRef<Value> v) -> Value { return arith::SelectOp::create(b, loc, v[0], v[1], v[2]); });
}

GraphValue GraphBuilder::logicalAnd(const GraphValue &x, const GraphValue &y) {
  if (GraphValue folded = foldIntegers(x, y, OnnxType::Bool, [](const Dim &a, const Dim &c) { return a * c; }))
    return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value { return arith::AndIOp::create(b, loc, v[0], v[1]); });
}

GraphValue GraphBuilder::logicalOr(const GraphValue &x, const GraphValue &y) {
  if (GraphValue folded = foldIntegers(x, y, OnnxType::Bool, [](const Dim &a, const Dim &c) { return a + c - a * c; }))
    return folded;
  return map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value { return arith::OrIOp::create(b, loc, v[0], v[1]); });
}

GraphValue GraphBuilder::logicalNot(const GraphValue &x) {
  GraphValue one = scalar(OnnxType::Bool, 1);
  if (GraphValue folded = foldIntegers(x, one, OnnxType::Bool, [](const Dim &a, const Dim &c) { return c - a; }))
    return folded;
  return map({x, one}, OnnxType::Bool,
             [&](ArrayRef<Value> v) -> Value { return arith::XOrIOp::create(b, loc, v[0], v[1]); });
}

GraphValue GraphBuilder::cast(const GraphValue &x, OnnxType type) {
  if (failed() || x.type == type)
    return x;
  if (x.content && !isFloat(type)) {
    bool isSame = llvm::all_of(*x.content, [&](const Dim &element) { return fits(type, element); });
    if (isSame)
      return {type, x.dims, Value(), x.content};
  }
  if (type == OnnxType::Bool)
    return compare(Predicate::NotEqual, x, like(x, 0));
  // Integers become 16-bit floats by way of f32: processors have no instruction for it.
  if (!isFloat(x.type) && isFloat(type) && onnxTypeBits(type) == 16)
    return cast(cast(x, OnnxType::Float), type);
  RankedTensorType to = tensorType(type, x.dims);
  unsigned fromBits = x.type == OnnxType::Bool ? 1 : onnxTypeBits(x.type), toBits = onnxTypeBits(type);
  Value value = tensor(x), result;
  if (isFloat(x.type) && isFloat(type)) {
    if (fromBits == toBits) { // the two 16-bit formats have no common part
      value = arith::ExtFOp::create(b, loc, tensorType(OnnxType::Float, x.dims), value);
      fromBits = 32;
    }
    result = toBits > fromBits ? arith::ExtFOp::create(b, loc, to, value).getResult()
                               : arith::TruncFOp::create(b, loc, to, value).getResult();
  } else if (isFloat(x.type)) {
    result = isUnsigned(type) ? arith::FPToUIOp::create(b, loc, to, value).getResult()
                              : arith::FPToSIOp::create(b, loc, to, value).getResult();
  } else if (isFloat(type)) {
    result = isUnsigned(x.type) ? arith::UIToFPOp::create(b, loc, to, value).getResult()
                                : arith::SIToFPOp::create(b, loc, to, value).getResult();
  } else if (toBits > fromBits) {
    result = isUnsigned(x.type) ? arith::ExtUIOp::create(b, loc, to, value).getResult()
                                : arith::ExtSIOp::create(b, loc, to, value).getResult();
  } else {
    result = toBits < fromBits ? arith::TruncIOp::create(b, loc, to, value).getResult() : value;
  }
  return wrap(result, type, x.dims);
}

GraphValue GraphBuilder::modulo(const GraphValue &x, const GraphValue &y) {
  auto fold = [this](const Dim &a, const Dim &c) {
    return c.isStatic() && c.value() > 0 ? std::optional(floorMod(a, c)) : std::nullopt;
  };
  if (GraphValue folded = foldIntegers(x, y, x.type, fold))
    return folded;
  GraphValue rest = sub(x, mul(div(x, y), y));
  if (isUnsigned(x.type))
    return rest;
  GraphValue zero = like(x, 0);
  GraphValue isRest = compare(Predicate::NotEqual, rest, zero);
  GraphValue restNegative = compare(Predicate::Less, rest, zero), divisorNegative = compare(Predicate::Less, y, zero);
  GraphValue differ = compare(Predicate::NotEqual, restNegative, divisorNegative);
  return select(logicalAnd(isRest, differ), add(rest, y), rest);
}

GraphValue GraphBuilder::neg(const GraphValue &x) {
  if (!isFloat(x.type))
    return sub(like(x, 0), x);
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return arith::NegFOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::abs(const GraphValue &x) {
  if (isUnsigned(x.type))
    return x;
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (isFloat(x.type))
      return math::AbsFOp::create(b, loc, v[0]);
    return math::AbsIOp::create(b, loc, v[0]);
  });
}

GraphValue GraphBuilder::exp(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::ExpOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::log(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::LogOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::sqrt(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::SqrtOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::tanh(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::TanhOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::erf(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::ErfOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::floor(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::FloorOp::create(b, loc, v[0]); });
}

GraphValue GraphBuilder::roundEven(const GraphValue &x) {
  return map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return math::RoundEvenOp::create(b, loc, v[0]); });
}

// 1 / (1 + exp(-x))
GraphValue GraphBuilder::sigmoid(const GraphValue &x) {
  return div(like(x, 1), add(like(x, 1), exp(neg(x))));
}
