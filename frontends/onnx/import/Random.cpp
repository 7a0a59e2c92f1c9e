// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Noise: RandomNormal, RandomUniform and those that take a shape from a tensor. A number is a hash of its place and of a seed, so that runs
// give the same noise, threads need no order, and nothing is kept between calls. Without a seed a node's is its result's name.
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace heddle;

namespace {

uint64_t seedOf(NodeImport &n) {
  if (!n.hasAttribute("seed"))
    return n.node.outputs.empty() ? 0 : llvm::xxh3_64bits(n.node.outputs.front());
  float seed = float(n.real("seed", 0));
  uint32_t bits;
  memcpy(&bits, &seed, sizeof(bits));
  return bits;
}

// 64 bits of a number that look like none of those of its neighbours (the finish of splitmix64).
Value mixed(OpBuilder &b, Location loc, Value x) {
  auto number = [&](uint64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, int64_t(value), 64); };
  auto fold = [&](Value v, unsigned bits) -> Value {
    return arith::XOrIOp::create(b, loc, v, arith::ShRUIOp::create(b, loc, v, number(bits)));
  };
  x = arith::MulIOp::create(b, loc, fold(x, 30), number(0xBF58476D1CE4E5B9));
  x = arith::MulIOp::create(b, loc, fold(x, 27), number(0x94D049BB133111EB));
  return fold(x, 31);
}

// 24 of the bits from `first` on as a number between 0 and 1, without 0.
Value unit(OpBuilder &b, Location loc, Value bits, unsigned first) {
  auto number = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, value, 64); };
  Value part = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, number(first)), number(0xFFFFFF));
  auto real = [&](float value) -> Value { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); };
  Value wide = arith::UIToFPOp::create(b, loc, b.getF32Type(), part);
  return arith::MulFOp::create(b, loc, arith::AddFOp::create(b, loc, wide, real(0.5f)), real(0x1p-24f));
}

// sqrt(-2 log u) cos(2 pi v) of two such numbers is normal (Box and Muller).
Value normal(OpBuilder &b, Location loc, Value bits) {
  auto real = [&](float value) -> Value { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); };
  Value logarithm = math::LogOp::create(b, loc, unit(b, loc, bits, 40));
  Value radius = math::SqrtOp::create(b, loc, arith::MulFOp::create(b, loc, logarithm, real(-2)));
  Value angle = arith::MulFOp::create(b, loc, unit(b, loc, bits, 16), real(6.2831853f));
  return arith::MulFOp::create(b, loc, radius, math::CosOp::create(b, loc, angle));
}

// Noise of these dims: normal with a mean and a deviation, or uniform between two numbers.
void noise(NodeImport &n, ArrayRef<Dim> dims, OnnxType otherwise, bool isNormal) {
  GraphBuilder &g = n.g;
  OnnxType type = OnnxType(n.integer("dtype", int64_t(otherwise)));
  uint64_t seed = seedOf(n);
  if (g.failed())
    return;
  if (!isFloat(type))
    return (void)n.unsupported("of " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  SmallVector<Value> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(g.index(dim));
  GraphValue x = g.generate(OnnxType::Float, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    Location loc = g.loc;
    Value place = arith::ConstantIndexOp::create(b, loc, 0);
    for (auto [size, i] : llvm::zip_equal(sizes, at))
      place = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, place, size), i);
    Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), place);
    Value step = arith::ConstantIntOp::create(b, loc, int64_t(0x9E3779B97F4A7C15), 64);
    Value start = arith::ConstantIntOp::create(b, loc, int64_t(seed), 64);
    Value bits = mixed(b, loc, arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, number, step), start));
    return isNormal ? normal(b, loc, bits) : unit(b, loc, bits, 40);
  });
  double low = isNormal ? n.real("mean", 0) : n.real("low", 0);
  double scale = isNormal ? n.real("scale", 1) : n.real("high", 1) - low;
  n.out(g.cast(g.add(g.mul(x, g.like(x, scale)), g.like(x, low)), type));
}

template <bool IsNormal> void random(NodeImport &n) {
  SmallVector<int64_t> shape = n.integers("shape").value_or(SmallVector<int64_t>());
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    return (void)n.fail("attribute 'shape' has a negative number");
  noise(n, Dims(shape.begin(), shape.end()), OnnxType::Float, IsNormal);
}

template <bool IsNormal> void randomLike(NodeImport &n) {
  const GraphValue &x = n.in(0);
  if (!n.g.failed())
    noise(n, x.dims, isFloat(x.type) ? x.type : OnnxType::Float, IsNormal);
}

} // namespace

ArrayRef<OpRow> heddle::randomOps() {
  static const OpRow table[] = {
      {"", "RandomNormal", 1, random<true>},
      {"", "RandomNormalLike", 1, randomLike<true>},
      {"", "RandomUniform", 1, random<false>},
      {"", "RandomUniformLike", 1, randomLike<false>},
  };
  return table;
}
