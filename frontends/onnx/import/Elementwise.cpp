// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One element in, one element out: arithmetic, comparisons, logic, activations, casts.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

GraphValue heddle::gelu(GraphBuilder &g, const GraphValue &x) {
  GraphValue curve = g.erf(g.mul(x, g.like(x, 0.7071067811865476)));
  return g.mul(g.mul(g.like(x, 0.5), x), g.add(g.like(x, 1), curve));
}

GraphValue heddle::geluTanh(GraphBuilder &g, const GraphValue &x) {
  GraphValue cube = g.mul(g.mul(x, x), x);
  GraphValue curve = g.tanh(g.mul(g.like(x, 0.7978845608028654), g.add(x, g.mul(g.like(x, 0.044715), cube))));
  return g.mul(g.mul(g.like(x, 0.5), x), g.add(g.like(x, 1), curve));
}

GraphValue heddle::swish(GraphBuilder &g, const GraphValue &x, double alpha) {
  return g.mul(x, g.sigmoid(alpha == 1 ? x : g.mul(g.like(x, alpha), x)));
}

namespace {

bool sameTypes(NodeImport &n, ArrayRef<GraphValue> operands) {
  for (const GraphValue &operand : operands)
    if (operand.type != operands[0].type)
      n.fail("inputs of " + Twine(onnxTypeName(int32_t(operands[0].type))) + " and " +
             onnxTypeName(int32_t(operand.type)) + ", expected one type");
  return !n.g.failed();
}

// Ops of two inputs of one type.
template <GraphValue (GraphBuilder::*Build)(const GraphValue &, const GraphValue &)> void binary(NodeImport &n) {
  if (sameTypes(n, {n.in(0), n.in(1)}))
    n.out((n.g.*Build)(n.in(0), n.in(1)));
}

// Ops of any number of inputs, from left to right.
template <GraphValue (GraphBuilder::*Build)(const GraphValue &, const GraphValue &)> GraphValue foldAll(NodeImport &n) {
  ArrayRef<GraphValue> operands = n.all();
  if (n.g.failed() || !sameTypes(n, operands))
    return {};
  GraphValue result = operands[0];
  for (const GraphValue &operand : operands.drop_front())
    result = (n.g.*Build)(result, operand);
  return result;
}

template <GraphValue (GraphBuilder::*Build)(const GraphValue &, const GraphValue &)> void variadic(NodeImport &n) {
  n.out(foldAll<Build>(n));
}

void mean(NodeImport &n) {
  GraphValue sum = foldAll<&GraphBuilder::add>(n);
  n.out(n.g.div(sum, n.g.like(sum, double(n.numInputs()))));
}

template <GraphValue (GraphBuilder::*Build)(const GraphValue &)> void unary(NodeImport &n) {
  n.out((n.g.*Build)(n.in(0)));
}

// An op of the math dialect on floats.
template <typename Op> void mathOp(NodeImport &n) {
  const GraphValue &x = n.in(0);
  if (!n.g.failed() && !isFloat(x.type))
    n.fail("input 0 is of " + Twine(onnxTypeName(int32_t(x.type))) + ", expected a float");
  n.out(n.g.map({x}, x.type, [&](ArrayRef<Value> v) -> Value { return Op::create(n.g.b, n.g.loc, v[0]); }));
}

template <Predicate P> void comparison(NodeImport &n) {
  if (sameTypes(n, {n.in(0), n.in(1)}))
    n.out(n.g.compare(P, n.in(0), n.in(1)));
}

template <typename Op> void bitwise(NodeImport &n) {
  const GraphValue &x = n.in(0), &y = n.in(1);
  if (!sameTypes(n, {x, y}))
    return;
  if (isFloat(x.type))
    n.fail("inputs are floats, expected integers");
  n.out(n.g.map({x, y}, x.type, [&](ArrayRef<Value> v) -> Value { return Op::create(n.g.b, n.g.loc, v[0], v[1]); }));
}

void bitwiseNot(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphValue ones = n.g.like(x, -1);
  n.out(n.g.map({x, ones}, x.type,
                [&](ArrayRef<Value> v) -> Value { return arith::XOrIOp::create(n.g.b, n.g.loc, v[0], v[1]); }));
}

// A shift by the type's width or more gives 0, where the processor's would be undefined.
void bitShift(NodeImport &n) {
  const GraphValue &x = n.in(0), &y = n.in(1);
  std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    n.fail("attribute 'direction' is '" + direction + "', expected LEFT or RIGHT");
  if (!sameTypes(n, {x, y}))
    return;
  GraphBuilder &g = n.g;
  GraphValue isWide = g.compare(Predicate::GreaterOrEqual, y, g.like(y, onnxTypeBits(x.type)));
  GraphValue amount = g.select(isWide, g.like(y, 0), y);
  GraphValue shifted = g.map({x, amount}, x.type, [&](ArrayRef<Value> v) -> Value {
    if (direction == "LEFT")
      return arith::ShLIOp::create(g.b, g.loc, v[0], v[1]);
    return arith::ShRUIOp::create(g.b, g.loc, v[0], v[1]);
  });
  n.out(g.select(isWide, g.like(x, 0), shifted));
}

void logicalXor(NodeImport &n) {
  n.out(n.g.map({n.in(0), n.in(1)}, OnnxType::Bool,
                [&](ArrayRef<Value> v) -> Value { return arith::XOrIOp::create(n.g.b, n.g.loc, v[0], v[1]); }));
}

void where(NodeImport &n) {
  if (sameTypes(n, {n.in(1), n.in(2)}))
    n.out(n.g.select(n.in(0), n.in(1), n.in(2)));
}

void sign(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue zero = g.like(x, 0), positive = g.select(g.compare(Predicate::Greater, x, zero), g.like(x, 1), zero);
  n.out(isUnsigned(x.type) ? positive : g.select(g.compare(Predicate::Less, x, zero), g.like(x, -1), positive));
}

void reciprocal(NodeImport &n) {
  n.out(n.g.div(n.g.like(n.in(0), 1), n.in(0)));
}

void relu(NodeImport &n) {
  n.out(n.g.maximum(n.in(0), n.g.like(n.in(0), 0)));
}

void power(NodeImport &n) {
  n.out(n.g.pow(n.in(0), n.in(1)));
}

// fmod keeps the dividend's sign, Mod of integers takes the divisor's.
void mod(NodeImport &n) {
  const GraphValue &x = n.in(0), &y = n.in(1);
  GraphBuilder &g = n.g;
  if (!sameTypes(n, {x, y}))
    return;
  if (isFloat(x.type)) {
    GraphValue rest = g.map({x, y}, x.type,
                            [&](ArrayRef<Value> v) -> Value { return arith::RemFOp::create(g.b, g.loc, v[0], v[1]); });
    if (n.integer("fmod", 0))
      return n.out(rest);
    GraphValue differs = g.compare(Predicate::Less, g.mul(rest, y), g.like(x, 0));
    return n.out(g.select(differs, g.add(rest, y), rest));
  }
  n.out(n.integer("fmod", 0) ? g.sub(x, g.mul(g.div(x, y), y)) : g.modulo(x, y));
}

// Bounds are attributes up to opset 6, inputs since 11.
void clip(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0);
  if (g.failed())
    return;
  GraphValue low = n.has(1) ? n.in(1) : n.hasAttribute("min") ? g.like(x, n.real("min", 0)) : GraphValue();
  GraphValue high = n.has(2) ? n.in(2) : n.hasAttribute("max") ? g.like(x, n.real("max", 0)) : GraphValue();
  if (low)
    x = g.maximum(x, low);
  if (high)
    x = g.minimum(x, high);
  n.out(x);
}

void castTo(NodeImport &n) {
  int64_t to = n.integer("to", 0);
  if (onnxTypeBits(OnnxType(to)) < 8)
    n.unsupported("to " + Twine(onnxTypeName(int32_t(to))) + " (attribute 'to') is not supported");
  n.out(n.g.cast(n.in(0), OnnxType(to)));
}

void castLike(NodeImport &n) {
  n.out(n.g.cast(n.in(0), n.in(1).type));
}

void bitCast(NodeImport &n) {
  const GraphValue &x = n.in(0);
  OnnxType to = OnnxType(n.integer("to", 0));
  if (!n.g.failed() && (onnxTypeBits(to) != onnxTypeBits(x.type) || to == OnnxType::Bool || x.type == OnnxType::Bool))
    n.unsupported("from " + Twine(onnxTypeName(int32_t(x.type))) + " to " + onnxTypeName(int32_t(to)) +
                  " is not supported");
  n.out(n.g.map({x}, to, [&](ArrayRef<Value> v) -> Value {
    auto type = n.g.tensorType(to, x.dims);
    return v[0].getType() == type ? v[0] : arith::BitcastOp::create(n.g.b, n.g.loc, type, v[0]).getResult();
  }));
}

void identity(NodeImport &n) {
  n.out(n.in(0));
}

// Nothing is dropped outside training; the mask says so.
void dropout(NodeImport &n) {
  if (n.has(2) && n.g.constantNumber(n.in(2)).value_or(1) != 0)
    n.unsupported("with training_mode is not supported");
  n.out(n.in(0));
  if (n.wants(1))
    n.out(n.g.full(OnnxType::Bool, n.in(0).dims, 1), 1);
}

void isNan(NodeImport &n) {
  n.out(n.g.compare(Predicate::NotEqual, n.in(0), n.in(0)));
}

void isInf(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  if (g.failed())
    return;
  auto infinite = [&](bool positive) {
    return g.compare(Predicate::Equal, x, g.wrap(g.filled(x.type, {}, g.limit(x.type, positive)), x.type, {}));
  };
  GraphValue result = g.scalar(OnnxType::Bool, 0);
  if (n.integer("detect_positive", 1))
    result = g.logicalOr(result, infinite(true));
  if (n.integer("detect_negative", 1))
    result = g.logicalOr(result, infinite(false));
  n.out(g.broadcast(result, x.dims));
}

// --- activations ----------------------------------------------------------------------------------------------------

void leakyRelu(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphValue scaled = n.g.mul(x, n.g.like(x, n.real("alpha", 0.01)));
  n.out(n.g.select(n.g.compare(Predicate::Less, x, n.g.like(x, 0)), scaled, x));
}

void prelu(NodeImport &n) {
  const GraphValue &x = n.in(0);
  n.out(n.g.select(n.g.compare(Predicate::Less, x, n.g.like(x, 0)), n.g.mul(n.in(1), x), x));
}

// x where x > 0, alpha (exp(x) - 1) elsewhere, times gamma
void exponentialUnit(NodeImport &n, double alpha, double gamma) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue curve = g.mul(g.like(x, alpha), g.sub(g.exp(x), g.like(x, 1)));
  GraphValue result = g.select(g.compare(Predicate::Greater, x, g.like(x, 0)), x, curve);
  n.out(gamma == 1 ? result : g.mul(g.like(x, gamma), result));
}

void elu(NodeImport &n) {
  exponentialUnit(n, n.real("alpha", 1), 1);
}
void selu(NodeImport &n) {
  exponentialUnit(n, n.real("alpha", 1.67326319217681884765625), n.real("gamma", 1.05070102214813232421875));
}

// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
void celu(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue alpha = g.like(x, n.real("alpha", 1)), zero = g.like(x, 0);
  GraphValue curve = g.mul(alpha, g.sub(g.exp(g.div(x, alpha)), g.like(x, 1)));
  n.out(g.add(g.maximum(x, zero), g.minimum(curve, zero)));
}

void hardSigmoid(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue line = g.add(g.mul(g.like(x, n.real("alpha", 0.2)), x), g.like(x, n.real("beta", 0.5)));
  n.out(g.maximum(g.like(x, 0), g.minimum(g.like(x, 1), line)));
}

void hardSwish(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue line = g.add(g.mul(g.like(x, 1.0 / 6), x), g.like(x, 0.5));
  n.out(g.mul(x, g.maximum(g.like(x, 0), g.minimum(g.like(x, 1), line))));
}

// log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow
GraphValue softplusOf(GraphBuilder &g, const GraphValue &x) {
  GraphValue magnitude = g.abs(x);
  return g.add(g.maximum(x, g.like(x, 0)), g.log(g.add(g.like(x, 1), g.exp(g.neg(magnitude)))));
}

void softplus(NodeImport &n) {
  n.out(softplusOf(n.g, n.in(0)));
}
void mish(NodeImport &n) {
  n.out(n.g.mul(n.in(0), n.g.tanh(softplusOf(n.g, n.in(0)))));
}

void softsign(NodeImport &n) {
  const GraphValue &x = n.in(0);
  n.out(n.g.div(x, n.g.add(n.g.like(x, 1), n.g.abs(x))));
}

void swishOp(NodeImport &n) {
  n.out(swish(n.g, n.in(0), n.real("alpha", 1)));
}

void thresholdedRelu(NodeImport &n) {
  const GraphValue &x = n.in(0);
  n.out(n.g.select(n.g.compare(Predicate::Greater, x, n.g.like(x, n.real("alpha", 1))), x, n.g.like(x, 0)));
}

void shrink(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphBuilder &g = n.g;
  GraphValue bias = g.like(x, n.real("bias", 0)), lambda = g.like(x, n.real("lambd", 0.5));
  GraphValue high = g.select(g.compare(Predicate::Greater, x, lambda), g.sub(x, bias), g.like(x, 0));
  n.out(g.select(g.compare(Predicate::Less, x, g.neg(lambda)), g.add(x, bias), high));
}

void geluOp(NodeImport &n) {
  std::string approximate = n.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    n.fail("attribute 'approximate' is '" + approximate + "', expected none or tanh");
  n.out(approximate == "tanh" ? geluTanh(n.g, n.in(0)) : gelu(n.g, n.in(0)));
}

} // namespace

GraphValue heddle::fusedActivation(GraphBuilder &g, const GraphValue &x, StringRef name,
                                   ArrayRef<std::optional<float>> parameters) {
  if (g.failed() || name.empty())
    return x;
  auto parameter = [&](size_t i, double otherwise) {
    return g.like(x, i < parameters.size() && parameters[i] ? double(*parameters[i]) : otherwise);
  };
  GraphValue zero = g.like(x, 0);
  if (name == "Relu")
    return g.maximum(x, zero);
  if (name == "Tanh")
    return g.tanh(x);
  if (name == "Sigmoid")
    return g.sigmoid(x);
  if (name == "LeakyRelu")
    return g.select(g.compare(Predicate::Less, x, zero), g.mul(x, parameter(0, 0.01)), x);
  if (name == "Clip" && parameters.size() == 2 && parameters[0] && parameters[1])
    return g.minimum(g.maximum(x, parameter(0, 0)), parameter(1, 0));
  if (name == "HardSigmoid")
    return g.maximum(zero, g.minimum(g.like(x, 1), g.add(g.mul(parameter(0, 0.2), x), parameter(1, 0.5))));
  return g.fail(
      "activation '" + name +
          "' is not supported: expected Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid, or Clip with two parameters",
      StatusCode::Unsupported);
}

ArrayRef<OpRow> heddle::elementwiseOps() {
  static const OpRow table[] = {
      {"", "Abs", 6, unary<&GraphBuilder::abs>},
      {"", "Acos", 7, mathOp<math::AcosOp>},
      {"", "Acosh", 9, mathOp<math::AcoshOp>},
      {"", "Add", 7, binary<&GraphBuilder::add>},
      {"", "And", 7, binary<&GraphBuilder::logicalAnd>},
      {"", "Asin", 7, mathOp<math::AsinOp>},
      {"", "Asinh", 9, mathOp<math::AsinhOp>},
      {"", "Atan", 7, mathOp<math::AtanOp>},
      {"", "Atanh", 9, mathOp<math::AtanhOp>},
      {"", "BitCast", 26, bitCast},
      {"", "BitShift", 11, bitShift},
      {"", "BitwiseAnd", 18, bitwise<arith::AndIOp>},
      {"", "BitwiseNot", 18, bitwiseNot},
      {"", "BitwiseOr", 18, bitwise<arith::OrIOp>},
      {"", "BitwiseXor", 18, bitwise<arith::XOrIOp>},
      {"", "Cast", 6, castTo},
      {"", "CastLike", 15, castLike},
      {"", "Ceil", 6, mathOp<math::CeilOp>},
      {"", "Celu", 12, celu},
      {"", "Clip", 6, clip},
      {"", "Cos", 7, mathOp<math::CosOp>},
      {"", "Cosh", 9, mathOp<math::CoshOp>},
      {"", "Div", 7, binary<&GraphBuilder::div>},
      {"", "Dropout", 7, dropout},
      {"", "Elu", 6, elu},
      {"", "Equal", 7, comparison<Predicate::Equal>},
      {"", "Erf", 9, unary<&GraphBuilder::erf>},
      {"", "Exp", 6, unary<&GraphBuilder::exp>},
      {"", "Floor", 6, mathOp<math::FloorOp>},
      {"", "Gelu", 20, geluOp},
      {"", "Greater", 7, comparison<Predicate::Greater>},
      {"", "GreaterOrEqual", 12, comparison<Predicate::GreaterOrEqual>},
      {"", "HardSigmoid", 6, hardSigmoid},
      {"", "HardSwish", 14, hardSwish},
      {"", "Identity", 1, identity},
      {"", "IsInf", 10, isInf},
      {"", "IsNaN", 9, isNan},
      {"", "LeakyRelu", 6, leakyRelu},
      {"", "Less", 7, comparison<Predicate::Less>},
      {"", "LessOrEqual", 12, comparison<Predicate::LessOrEqual>},
      {"", "Log", 6, unary<&GraphBuilder::log>},
      {"", "Max", 6, variadic<&GraphBuilder::maximum>},
      {"", "Mean", 6, mean},
      {"", "Min", 6, variadic<&GraphBuilder::minimum>},
      {"", "Mish", 18, mish},
      {"", "Mod", 10, mod},
      {"", "Mul", 7, binary<&GraphBuilder::mul>},
      {"", "Neg", 6, unary<&GraphBuilder::neg>},
      {"", "Not", 1, unary<&GraphBuilder::logicalNot>},
      {"", "Or", 7, binary<&GraphBuilder::logicalOr>},
      {"", "PRelu", 7, prelu},
      {"", "Pow", 7, power},
      {"", "Reciprocal", 6, reciprocal},
      {"", "Relu", 6, relu},
      {"", "Round", 11, mathOp<math::RoundEvenOp>},
      {"", "Selu", 6, selu},
      {"", "Shrink", 9, shrink},
      {"", "Sigmoid", 6, unary<&GraphBuilder::sigmoid>},
      {"", "Sign", 9, sign},
      {"", "Sin", 7, mathOp<math::SinOp>},
      {"", "Sinh", 9, mathOp<math::SinhOp>},
      {"", "Softplus", 1, softplus},
      {"", "Softsign", 1, softsign},
      {"", "Sqrt", 6, unary<&GraphBuilder::sqrt>},
      {"", "Sub", 7, binary<&GraphBuilder::sub>},
      {"", "Sum", 6, variadic<&GraphBuilder::add>},
      {"", "Swish", 24, swishOp},
      {"", "Tan", 7, mathOp<math::TanOp>},
      {"", "Tanh", 6, unary<&GraphBuilder::tanh>},
      {"", "ThresholdedRelu", 10, thresholdedRelu},
      {"", "Where", 9, where},
      {"", "Xor", 7, logicalXor},
  };
  return table;
}
