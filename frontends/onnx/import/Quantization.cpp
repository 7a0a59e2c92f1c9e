// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integers that stand for reals: x = (q - zero_point) * scale.
#include "frontends/onnx/import/Quantized.h"
#include "frontends/onnx/import/StoredCodes.h"

using namespace mlir;
using namespace heddle;

namespace {

// Scale or zero point beside x: a scalar, one per index of the axis, or one per block along it.
GraphValue beside(NodeImport &n, const GraphValue &v, const GraphValue &x) {
  GraphBuilder &g = n.g;
  if (g.failed() || v.rank() == 0 || (v.rank() == 1 && v.dims[0].is(1)))
    return g.failed() ? GraphValue() : g.reshape(v, {});
  int64_t axis = n.axis(n.integer("axis", 1), x.rank()), block = n.integer("block_size", 0);
  if (g.failed())
    return {};
  if (v.rank() == 1 && block == 0) {
    Dims line(x.rank(), Dim(1));
    line[axis] = v.dims[0];
    return g.reshape(v, line);
  }
  if (v.rank() != x.rank() || block < 1)
    return n.fail("scale or zero point of rank " + Twine(v.rank()) + " with block_size " + Twine(block) +
                  " for an input of rank " + Twine(x.rank()));
  // (…, n, …) -> (…, n, block, …) -> (…, n * block, …), cut to x.
  Dims apart = v.dims, spread, merged = v.dims;
  apart.insert(apart.begin() + axis + 1, Dim(1));
  spread = apart;
  spread[axis + 1] = Dim(block);
  merged[axis] = v.dims[axis] * Dim(block);
  GraphValue repeated = g.reshape(g.broadcast(g.reshape(v, apart), spread), merged);
  if (!n.requireAtMost(x.dims[axis], merged[axis], "the blocks of scale do not cover the input"))
    return {};
  return g.slice(repeated, axis, 0, x.dims[axis]);
}

} // namespace

bool heddle::isQuantized(OnnxType type) {
  return type == OnnxType::Uint8 || type == OnnxType::Int8 || type == OnnxType::Uint16 || type == OnnxType::Int16;
}

GraphValue heddle::saturated(GraphBuilder &g, const GraphValue &x, const GraphValue &zero, OnnxType type) {
  unsigned bits = onnxTypeBits(type);
  double low = isUnsigned(type) ? 0 : -double(int64_t(1) << (bits - 1)), high = low + double((int64_t(1) << bits) - 1);
  GraphValue y = g.roundEven(x);
  if (zero)
    y = g.add(y, g.cast(zero, y.type));
  return g.cast(g.minimum(g.maximum(y, g.like(y, low)), g.like(y, high)), type);
}

void heddle::quantizeLinear(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &scale = n.in(1);
  OnnxType type = n.has(2) ? n.in(2).type : OnnxType(n.integer("output_dtype", int64_t(OnnxType::Uint8)));
  if (!n.has(2) && type == OnnxType::Undefined)
    type = OnnxType::Uint8;
  if (g.failed())
    return;
  if (!isQuantized(type))
    return (void)n.unsupported("to " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  OnnxType real = scale.type == OnnxType::Double || x.type == OnnxType::Double ? OnnxType::Double : OnnxType::Float;
  GraphValue ratio = g.div(g.cast(x, real), g.cast(beside(n, scale, x), real));
  n.out(saturated(g, ratio, n.has(2) ? beside(n, n.in(2), x) : GraphValue(), type));
}

namespace {

// The weight that stored bytes stand for: a matrix, or what a convolution multiplies, whose rows are its channels. Nothing where x, the scales or the
// zeros are computed, or lie otherwise.
GraphValue dequantizedWeight(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &scale = n.in(1);
  WeightOp weight = storedWeight(x);
  if (g.failed() || !weight || x.rank() < 2 || (x.type != OnnxType::Int8 && x.type != OnnxType::Uint8) ||
      scale.type != OnnxType::Float || (n.has(2) && n.in(2).type != x.type))
    return {};
  Codes codes;
  int64_t axis = n.axis(n.integer("axis", 1), x.rank()), block = n.integer("block_size", 0);
  bool isOne = scale.rank() == 0 || (scale.rank() == 1 && scale.dims[0].is(1));
  if (g.failed() || (n.has(2) && n.in(2).dims != scale.dims) || (x.rank() > 2 && !isOne && axis != 0))
    return {};
  int64_t rows = x.dims[0].value(), columns = 1;
  for (const Dim &dim : llvm::drop_begin(x.dims))
    columns *= dim.value();
  if (!isOne && scale.rank() == 1 && block == 0 && scale.dims[0] == x.dims[axis]) {
    codes.axis = 1 - axis;
    codes.size = axis ? rows : columns;
  } else if (!isOne && x.rank() == 2 && scale.rank() == 2 && block > 0 && scale.dims[1 - axis] == x.dims[1 - axis] &&
             scale.dims[axis].is(llvm::divideCeil(x.dims[axis].value(), block))) {
    codes.axis = axis;
    codes.size = block;
  } else if (!isOne) {
    return {};
  }
  if (!addNumbers(g, codes, scale, n.has(2) ? n.in(2) : GraphValue()))
    return {};
  Value value = numbersAt(g, weight, weight.getName(), weight.getStorage(), codes, rows, columns);
  return g.reshape(g.wrap(value, OnnxType::Float, {Dim(rows), Dim(columns)}), x.dims);
}

} // namespace

void heddle::dequantizeLinear(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &scale = n.in(1);
  OnnxType type = OnnxType(n.integer("output_dtype", 0));
  if (g.failed())
    return;
  if (type == OnnxType::Undefined)
    type = scale.type;
  if (!isFloat(type) || isFloat(x.type))
    return (void)n.unsupported("from " + Twine(onnxTypeName(int32_t(x.type))) + " to " + onnxTypeName(int32_t(type)) +
                               " is not supported");
  auto finish = [&](GraphValue real) {
    if (!g.failed() && real.value && scale.rank() < 2 && n.integer("block_size", 0) == 0)
      real.dequantized = std::make_shared<const Dequantized>(Dequantized{
          {x, scale, n.optional(2)}, isOneNumber(scale) ? 0 : n.axis(n.integer("axis", 1), x.rank()), real.value});
    n.out(real);
  };
  if (GraphValue weight = type == OnnxType::Float ? dequantizedWeight(n) : GraphValue())
    return finish(weight);
  if (g.failed())
    return;
  // A difference of 16-bit integers fits in 32 bits.
  GraphValue centered =
      n.has(2) ? g.sub(g.cast(x, OnnxType::Int32), g.cast(beside(n, n.in(2), x), OnnxType::Int32)) : x;
  OnnxType wide = accumulatorOf(type);
  finish(g.cast(g.mul(g.cast(centered, wide), g.cast(beside(n, scale, x), wide)), type));
}

Quantized heddle::quantizedDynamically(GraphBuilder &g, const GraphValue &x) {
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  if (g.failed())
    return {};
  GraphValue zero = g.like(x, 0), high = g.maximum(g.reduce(Reduction::Max, x, all, false), zero);
  GraphValue low = g.minimum(g.reduce(Reduction::Min, x, all, false), zero);
  GraphValue scale = g.div(g.sub(high, low), g.like(x, 255));
  // Of nothing but zeros the scale is 0: any divisor does.
  GraphValue divisor = g.select(g.compare(Predicate::Equal, scale, zero), g.like(x, 1), scale);
  GraphValue point = saturated(g, g.div(g.neg(low), divisor), GraphValue(), OnnxType::Uint8);
  return {saturated(g, g.div(x, divisor), point, OnnxType::Uint8), scale, point};
}

GraphValue heddle::besideMatrix(GraphBuilder &g, const GraphValue &v, bool isRows) {
  if (g.failed() || v.rank() != 1 || v.dims[0].is(1))
    return g.failed() || v.rank() != 1 ? v : g.reshape(v, {});
  return isRows ? g.unsqueeze(v, {1}) : v;
}

namespace {

void dynamicQuantizeLinear(NodeImport &n) {
  Quantized y = quantizedDynamically(n.g, n.in(0));
  n.out(y.codes);
  n.out(y.scale, 1);
  n.out(y.zero, 2);
}

// Of a row of K bytes, which kernels copy to their stack.
constexpr int64_t mostDepth = 16384;

// Codes without their zero point, in int32.
GraphValue centered(GraphBuilder &g, const Quantized &x, bool isRows) {
  GraphValue wide = g.cast(x.codes, OnnxType::Int32);
  return x.zero ? g.sub(wide, g.cast(besideMatrix(g, x.zero, isRows), OnnxType::Int32)) : wide;
}

} // namespace

GraphValue heddle::storedMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b, bool isTransposed) {
  const GraphValue &x = a.codes, &y = b.codes, &zeros = b.zero;
  WeightOp weight = storedWeight(y);
  auto isOfBytes = [](const GraphValue &v) { return v.type == OnnxType::Int8 || v.type == OnnxType::Uint8; };
  if (g.failed() || !weight || !isOfBytes(x) || !isOfBytes(y) || x.rank() < 2 || y.rank() < 2 ||
      (!isTransposed && y.rank() != 2) || (zeros && zeros.type != y.type) || (a.zero && a.zero.type != x.type))
    return {};
  int64_t first = y.dims[0].value(), rest = 1;
  for (const Dim &dim : llvm::drop_begin(y.dims))
    rest *= dim.value();
  int64_t depth = isTransposed ? rest : first, width = isTransposed ? first : rest;
  if (!x.dims.back().is(depth) || depth < 1 || depth > mostDepth || width < 1)
    return {};
  GraphValue zero = a.zero ? besideMatrix(g, a.zero, true) : GraphValue();
  Codes codes;
  if (!isOneNumber(zeros)) {
    if (zeros.rank() > 1 || !zeros.dims[0].is(width))
      return {};
    codes.axis = isTransposed ? 1 : 0;
    codes.size = depth;
  }
  if ((zero && zero.rank() != 0) || !addNumbers(g, codes, GraphValue(), zeros))
    return {};
  StorageAttr storage = weight.getStorage();
  auto matrix = StorageAttr::get(g.b.getContext(), storage.getType(), storage.getFile(), storage.getOffset(),
                                 /*transposed=*/!isTransposed);
  Dims dims = x.dims;
  dims.back() = Dim(width);
  Value product = IntegerLinearOp::create(g.b, g.loc, g.tensorType(OnnxType::Int32, dims), g.tensor(x),
                                          zero ? g.tensor(zero) : Value(),
                                          numbersAt(g, weight, weight.getName(), matrix, codes, width, depth),
                                          isUnsigned(x.type) ? g.b.getUnitAttr() : UnitAttr());
  return g.wrap(product, OnnxType::Int32, dims);
}

GraphValue heddle::integerMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b, bool isTransposed) {
  if (GraphValue product = storedMatmul(g, a, b, isTransposed))
    return product;
  if (g.failed())
    return {};
  Quantized matrix = b;
  if (isTransposed)
    matrix.codes = g.transpose(b.codes, {1, 0});
  return g.matmul(centered(g, a, true), centered(g, matrix, false));
}

GraphValue heddle::realMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b) {
  GraphValue scale = g.mul(g.cast(besideMatrix(g, a.scale, true), OnnxType::Float),
                           g.cast(besideMatrix(g, b.scale, false), OnnxType::Float));
  return g.mul(g.cast(integerMatmul(g, a, b), OnnxType::Float), scale);
}

GraphValue heddle::matmulOfDequantized(GraphBuilder &g, const GraphValue &a, const GraphValue &b, bool isTransposed) {
  const Dequantized *x = Dequantized::of(a), *y = Dequantized::of(b);
  if (g.failed() || !x || !y || a.type != OnnxType::Float || b.type != OnnxType::Float || b.rank() != 2)
    return {};
  const GraphValue &scale = y->integers.scale, &zero = y->integers.zero;
  bool isOfColumns = (isOneNumber(scale) && isOneNumber(zero)) || y->axis == (isTransposed ? 0 : 1);
  if (!isOneNumber(x->integers.scale) || !isOneNumber(x->integers.zero) || !isOfColumns)
    return {};
  GraphValue product = storedMatmul(g, x->integers, y->integers, isTransposed);
  if (!product)
    return {};
  GraphValue both = g.mul(besideMatrix(g, x->integers.scale, true), besideMatrix(g, scale, false));
  return g.mul(g.cast(product, OnnxType::Float), both);
}

namespace {

void matMulInteger(NodeImport &n) {
  n.out(integerMatmul(n.g, {n.in(0), {}, n.optional(2)}, {n.in(1), {}, n.optional(3)}));
}

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
void qLinearMatMul(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue product = integerMatmul(g, {n.in(0), n.in(1), n.optional(2)}, {n.in(3), n.in(4), n.optional(5)});
  OnnxType type = n.in(7).type;
  if (g.failed())
    return;
  if (!isQuantized(type))
    return (void)n.unsupported("to " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  auto scale = [&](size_t i, bool isRows) { return g.cast(besideMatrix(g, n.in(i), isRows), OnnxType::Float); };
  GraphValue real =
      g.mul(g.cast(product, OnnxType::Float), g.div(g.mul(scale(1, true), scale(4, false)), scale(6, true)));
  n.out(saturated(g, real, besideMatrix(g, n.in(7), true), type));
}

} // namespace

ArrayRef<OpRow> heddle::quantizationOps() {
  static const OpRow table[] = {
      {"", "DequantizeLinear", 10, dequantizeLinear}, {"", "DynamicQuantizeLinear", 11, dynamicQuantizeLinear},
      {"", "MatMulInteger", 10, matMulInteger},       {"", "QLinearMatMul", 10, qLinearMatMul},
      {"", "QuantizeLinear", 10, quantizeLinear},
  };
  return table;
}
