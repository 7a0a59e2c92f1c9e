// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of com.microsoft on integers that stand for reals: each is its formula on the reals, rounded again.
#include "frontends/onnx/import/Quantized.h"

using namespace mlir;
using namespace heddle;

namespace {

// The tensor whose codes, scale and zero point are inputs i to i + 2; the last one may be left out.
Quantized quantizedAt(NodeImport &n, size_t i) {
  return {n.in(i), n.in(i + 1), n.optional(i + 2)};
}

GraphValue scalarOf(GraphBuilder &g, const GraphValue &x) {
  return g.failed() ? GraphValue() : g.reshape(x, {});
}

// (codes - zero) * scale in f32, with one scale for the whole tensor.
GraphValue realOf(GraphBuilder &g, const Quantized &x) {
  GraphValue codes = g.cast(x.codes, OnnxType::Float);
  if (x.zero)
    codes = g.sub(codes, g.cast(scalarOf(g, x.zero), OnnxType::Float));
  return g.mul(codes, g.cast(scalarOf(g, x.scale), OnnxType::Float));
}

// x by input i (the scale) and i + 1 (the zero point, or left out), in codes of `type`.
GraphValue quantizedAs(NodeImport &n, const GraphValue &x, size_t i, OnnxType type) {
  GraphBuilder &g = n.g;
  const GraphValue &scale = n.in(i);
  GraphValue zero = n.optional(i + 1);
  if (!g.failed() && !isQuantized(type))
    return n.unsupported("to " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  return saturated(g, g.div(x, scalarOf(g, scale)), zero ? scalarOf(g, zero) : zero, type);
}

// A, its scale and zero point, B, its, the result's.
template <GraphValue (GraphBuilder::*Build)(const GraphValue &, const GraphValue &)> void qLinearBinary(NodeImport &n) {
  GraphValue y = (n.g.*Build)(realOf(n.g, quantizedAt(n, 0)), realOf(n.g, quantizedAt(n, 3)));
  n.out(quantizedAs(n, y, 6, n.in(0).type));
}

// X, its scale and zero point, the result's.
template <GraphValue (*Curve)(NodeImport &, const GraphValue &)> void qLinearUnary(NodeImport &n) {
  GraphValue x = realOf(n.g, quantizedAt(n, 0));
  GraphValue y = n.g.failed() ? GraphValue() : Curve(n, x);
  n.out(quantizedAs(n, y, 3, n.in(0).type));
}

GraphValue sigmoidOf(NodeImport &n, const GraphValue &x) {
  return n.g.sigmoid(x);
}

GraphValue leakyReluOf(NodeImport &n, const GraphValue &x) {
  GraphBuilder &g = n.g;
  return g.select(g.compare(Predicate::Less, x, g.like(x, 0)), g.mul(x, g.like(x, n.real("alpha", 0.01))), x);
}

// Before opset 13 over all dimensions from the axis on.
GraphValue softmaxOf(NodeImport &n, const GraphValue &x) {
  GraphBuilder &g = n.g;
  int64_t axis = n.axis(n.integer("axis", -1), x.rank());
  if (g.failed() || n.integer("opset", 13) >= 13)
    return g.failed() ? GraphValue() : g.softmax(x, axis);
  return g.reshape(g.softmax(g.flatten(x, axis), 1), x.dims);
}

GraphValue globalAverageOf(NodeImport &n, const GraphValue &x) {
  bool isLast = n.integer("channels_last", 0) != 0;
  int64_t first = isLast ? 1 : 2;
  return n.g.mean(x, llvm::to_vector(llvm::seq<int64_t>(first, std::max(first, x.rank() - isLast))), true);
}

// The result's scale and zero point, then each part's codes, scale and zero point.
void qLinearConcat(NodeImport &n) {
  GraphBuilder &g = n.g;
  SmallVector<GraphValue> parts;
  for (size_t i = 2; i + 2 < n.numInputs(); i += 3)
    parts.push_back(realOf(g, quantizedAt(n, i)));
  if (!g.failed() && (parts.empty() || n.numInputs() % 3 != 2))
    n.fail("has " + Twine(n.numInputs()) + " inputs, expected 2 and 3 for each part");
  if (g.failed())
    return;
  GraphValue y = g.concat(parts, n.axis(n.integer("axis", 0), parts[0].rank()));
  n.out(quantizedAs(n, y, 0, n.in(2).type));
}

// condition, X, its scale and zero point, Y, its, the result's.
void qLinearWhere(NodeImport &n) {
  GraphValue y = n.g.select(n.in(0), realOf(n.g, quantizedAt(n, 1)), realOf(n.g, quantizedAt(n, 4)));
  n.out(quantizedAs(n, y, 7, n.in(1).type));
}

// A, B, their scales, their zero points, a bias.
void matMulIntegerToFloat(NodeImport &n) {
  GraphValue y = realMatmul(n.g, {n.in(0), n.in(2), n.optional(4)}, {n.in(1), n.in(3), n.optional(5)});
  n.out(n.has(6) ? n.g.add(y, n.in(6)) : y);
}

// A (f32), B, its scale and zero point, a bias.
void dynamicQuantizeMatMul(NodeImport &n) {
  GraphValue y = realMatmul(n.g, quantizedDynamically(n.g, n.in(0)), {n.in(1), n.in(2), n.optional(3)});
  n.out(n.has(4) ? n.g.add(y, n.in(4)) : y);
}

// alpha A B + C, with C in int32 at the product's scale; f32 without a scale of the result.
void qGemm(NodeImport &n) {
  GraphBuilder &g = n.g;
  Quantized a = quantizedAt(n, 0), b = quantizedAt(n, 3);
  if (!n.checkRank(0, 2, "A") || !n.checkRank(3, 2, "B"))
    return;
  if (n.integer("transA", 0))
    a.codes = g.transpose(a.codes, {1, 0});
  GraphValue product = integerMatmul(g, a, b, n.integer("transB", 0));
  GraphValue scale = g.mul(scalarOf(g, a.scale), besideMatrix(g, b.scale, false));
  scale = g.mul(scale, g.like(scale, n.real("alpha", 1)));
  if (n.has(6))
    product = g.add(product, n.in(6));
  GraphValue y = g.mul(g.cast(product, OnnxType::Float), scale);
  n.out(n.has(7) ? quantizedAs(n, y, 7, n.has(8) ? n.in(8).type : n.in(0).type) : y);
}

} // namespace

ArrayRef<OpRow> heddle::microsoftQuantizationOps() {
  static const OpRow table[] = {
      {"com.microsoft", "DequantizeLinear", 1, dequantizeLinear},
      {"com.microsoft", "DynamicQuantizeMatMul", 1, dynamicQuantizeMatMul},
      {"com.microsoft", "MatMulIntegerToFloat", 1, matMulIntegerToFloat},
      {"com.microsoft", "QGemm", 1, qGemm},
      {"com.microsoft", "QLinearAdd", 1, qLinearBinary<&GraphBuilder::add>},
      {"com.microsoft", "QLinearConcat", 1, qLinearConcat},
      {"com.microsoft", "QLinearGlobalAveragePool", 1, qLinearUnary<globalAverageOf>},
      {"com.microsoft", "QLinearLeakyRelu", 1, qLinearUnary<leakyReluOf>},
      {"com.microsoft", "QLinearMul", 1, qLinearBinary<&GraphBuilder::mul>},
      {"com.microsoft", "QLinearSigmoid", 1, qLinearUnary<sigmoidOf>},
      {"com.microsoft", "QLinearSoftmax", 1, qLinearUnary<softmaxOf>},
      {"com.microsoft", "QLinearWhere", 1, qLinearWhere},
      {"com.microsoft", "QuantizeLinear", 1, quantizeLinear},
  };
  return table;
}
