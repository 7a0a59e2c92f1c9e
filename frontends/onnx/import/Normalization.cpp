// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and the norms, written from the formulas of the ONNX operator specification.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/GraphImporter.h"

using namespace mlir;
using namespace heddle;

Normalized heddle::normalize(GraphBuilder &g, const GraphValue &x, ArrayRef<int64_t> axes, double epsilon) {
  GraphValue mean = g.mean(x, axes, true), centered = g.sub(x, mean);
  GraphValue variance = g.mean(g.mul(centered, centered), axes, true);
  GraphValue inverse = g.rsqrt(g.add(variance, g.like(x, epsilon)));
  return {g.mul(centered, inverse), mean, inverse};
}

Normalized heddle::normalizeRms(GraphBuilder &g, const GraphValue &x, ArrayRef<int64_t> axes, double epsilon) {
  GraphValue square = g.mean(g.mul(x, x), axes, true), inverse = g.rsqrt(g.add(square, g.like(x, epsilon)));
  return {g.mul(x, inverse), GraphValue(), inverse};
}

namespace {

// Up to opset 12 the input is seen as a matrix: axes from `axis` on are one. `f` works along an axis.
template <typename F> void alongAxis(NodeImport &n, F f) {
  const GraphValue &x = n.in(0);
  bool isMatrix = n.opset < 13;
  int64_t axis = n.axis(n.integer("axis", isMatrix ? 1 : -1), std::max<int64_t>(x.rank(), 1));
  if (n.g.failed())
    return;
  if (!isMatrix || axis == x.rank() - 1)
    return n.out(f(x, axis));
  n.out(n.g.reshape(f(n.g.flatten(x, axis), 1), x.dims));
}

void softmax(NodeImport &n) {
  alongAxis(n, [&](const GraphValue &x, int64_t axis) { return n.g.softmax(x, axis); });
}

void logSoftmax(NodeImport &n) {
  GraphBuilder &g = n.g;
  alongAxis(n, [&](const GraphValue &x, int64_t axis) {
    GraphValue wide = g.cast(x, accumulatorOf(x.type));
    GraphValue shifted = g.sub(wide, g.reduce(Reduction::Max, wide, {axis}, true));
    GraphValue sum = g.reduce(Reduction::Sum, g.exp(shifted), {axis}, true);
    return g.cast(g.sub(shifted, g.log(sum)), x.type);
  });
}

// 1 at the first largest element, 0 elsewhere
void hardmax(NodeImport &n) {
  GraphBuilder &g = n.g;
  alongAxis(n, [&](const GraphValue &x, int64_t axis) {
    GraphValue top = g.compare(Predicate::Equal, x, g.reduce(Reduction::Max, x, {axis}, true));
    Dims line(x.rank(), Dim(1));
    line[axis] = x.dims[axis];
    GraphValue places = g.reshape(g.iota(OnnxType::Int64, x.dims[axis]), line);
    GraphValue far = g.integers(OnnxType::Int64, {}, {x.dims[axis]});
    GraphValue first = g.reduce(Reduction::Min, g.select(top, places, far), {axis}, true);
    return g.cast(g.compare(Predicate::Equal, places, first), x.type);
  });
}

void layerNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", -1), x.rank());
  if (g.failed())
    return;
  OnnxType stash = n.integer("stash_type", 1) == 1 && x.type != OnnxType::Double ? OnnxType::Float : x.type;
  GraphValue wide = g.cast(x, stash);
  Normalized y = normalize(g, wide, llvm::to_vector(llvm::seq<int64_t>(axis, x.rank())), n.real("epsilon", 1e-5));
  GraphValue result = g.mul(g.cast(y.value, x.type), n.in(1));
  n.out(n.has(2) ? g.add(result, n.in(2)) : result);
  n.out(y.mean, 1);
  n.out(y.inverse, 2);
}

// x / sqrt(mean(x^2) + epsilon) * scale
void rmsNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", -1), x.rank());
  if (g.failed())
    return;
  OnnxType stash = n.integer("stash_type", 1) == 1 && x.type != OnnxType::Double ? OnnxType::Float : x.type;
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(axis, x.rank()));
  Normalized y = normalizeRms(g, g.cast(x, stash), axes, n.real("epsilon", 1e-5));
  n.out(g.mul(g.cast(y.value, x.type), n.in(1)));
  n.out(y.inverse, 1);
}

// (C) as (1, C, 1, …) beside x of the rank.
GraphValue alongChannels(GraphBuilder &g, const GraphValue &v, int64_t rank) {
  if (g.failed() || v.rank() != 1)
    return g.failed() ? GraphValue() : g.fail("scale and bias have rank " + Twine(v.rank()) + ", expected 1");
  Dims dims(rank, Dim(1));
  dims[1] = v.dims[0];
  return g.reshape(v, dims);
}

void instanceNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  if (g.failed() || x.rank() < 3)
    return (void)n.fail("input 0 has rank " + Twine(x.rank()) + ", expected at least 3");
  GraphValue wide = g.cast(x, accumulatorOf(x.type));
  GraphValue y = g.cast(
      normalize(g, wide, llvm::to_vector(llvm::seq<int64_t>(2, x.rank())), n.real("epsilon", 1e-5)).value, x.type);
  n.out(g.add(g.mul(y, alongChannels(g, n.in(1), x.rank())), alongChannels(g, n.in(2), x.rank())));
}

// Groups of channels; scale and bias are per channel since opset 21, per group before.
void groupNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t groups = n.integer("num_groups", 0);
  if (g.failed())
    return;
  std::optional<Dim> size = x.rank() >= 3 && groups > 0 ? x.dims[1].dividedBy(groups) : std::nullopt;
  if (!size)
    return (void)n.fail("num_groups " + Twine(groups) + " does not divide the channels");
  Dims apart = {x.dims[0], Dim(groups), *size};
  apart.append(x.dims.begin() + 2, x.dims.end());
  GraphValue wide = g.reshape(g.cast(x, accumulatorOf(x.type)), apart);
  GraphValue y = normalize(g, wide, llvm::to_vector(llvm::seq<int64_t>(2, wide.rank())), n.real("epsilon", 1e-5)).value;
  y = g.cast(y, x.type);
  if (n.opset < 21)
    return n.out(
        g.reshape(g.add(g.mul(y, alongChannels(g, n.in(1), y.rank())), alongChannels(g, n.in(2), y.rank())), x.dims));
  y = g.reshape(y, x.dims);
  n.out(g.add(g.mul(y, alongChannels(g, n.in(1), x.rank())), alongChannels(g, n.in(2), x.rank())));
}

void batchNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  if (g.failed() || x.rank() < 2)
    return (void)n.unsupported("of rank below 2 is not supported");
  auto channel = [&](size_t i) { return alongChannels(g, n.in(i), x.rank()); };
  double epsilon = n.real("epsilon", 1e-5);
  // Exporters say so what standardizes a convolution's weights.
  if (n.integer("training_mode", 0)) {
    SmallVector<int64_t> axes = {0};
    llvm::append_range(axes, llvm::seq<int64_t>(2, x.rank()));
    GraphValue wide = g.cast(x, accumulatorOf(x.type));
    Normalized y = normalize(g, wide, axes, epsilon);
    n.out(g.add(g.mul(g.cast(y.value, x.type), channel(1)), channel(2)));
    // The running mean and variance, which a graph may name and not read.
    double momentum = n.real("momentum", 0.9);
    GraphValue variance = g.mean(g.mul(g.sub(wide, y.mean), g.sub(wide, y.mean)), axes, false);
    auto running = [&](size_t input, const GraphValue &now) {
      const GraphValue &before = n.in(input);
      return g.add(g.mul(before, g.like(before, momentum)),
                   g.mul(g.cast(now, before.type), g.like(before, 1 - momentum)));
    };
    if (n.wants(1))
      n.out(running(3, g.mean(wide, axes, false)), 1);
    if (n.wants(2))
      n.out(running(4, variance), 2);
    return;
  }
  GraphValue variance = channel(4);
  GraphValue inverse = g.rsqrt(g.add(variance, g.like(variance, epsilon)));
  n.out(g.add(g.mul(g.mul(g.sub(x, channel(3)), inverse), channel(1)), channel(2)));
}

void meanVarianceNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  SmallVector<int64_t> axes = n.axes(n.integers("axes").value_or(SmallVector<int64_t>{0, 2, 3}), x.rank());
  if (g.failed())
    return;
  GraphValue mean = g.mean(x, axes, true);
  GraphValue square = g.mean(g.mul(x, x), axes, true), deviation = g.sqrt(g.sub(square, g.mul(mean, mean)));
  n.out(g.div(g.sub(x, mean), g.add(deviation, g.like(x, 1e-9))));
}

void lpNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", -1), x.rank()), p = n.integer("p", 2);
  if (g.failed())
    return;
  if (p != 1 && p != 2)
    return (void)n.fail("attribute 'p' is " + Twine(p) + ", expected 1 or 2");
  GraphValue norm = p == 1 ? g.reduce(Reduction::Sum, g.abs(x), {axis}, true)
                           : g.sqrt(g.reduce(Reduction::Sum, g.mul(x, x), {axis}, true));
  GraphValue isZero = g.compare(Predicate::Equal, norm, g.like(norm, 0));
  n.out(g.div(x, g.select(isZero, g.like(norm, 1), norm)));
}

} // namespace

ArrayRef<OpRow> heddle::normalizationOps() {
  static const OpRow table[] = {
      {"", "BatchNormalization", 7, batchNormalization},
      {"", "GroupNormalization", 18, groupNormalization},
      {"", "Hardmax", 1, hardmax},
      {"", "InstanceNormalization", 6, instanceNormalization},
      {"", "LayerNormalization", 1, layerNormalization},
      {"", "LogSoftmax", 1, logSoftmax},
      {"", "LpNormalization", 1, lpNormalization},
      {"", "MeanVarianceNormalization", 9, meanVarianceNormalization},
      {"", "RMSNormalization", 23, rmsNormalization},
      {"", "SimplifiedLayerNormalization", 1, rmsNormalization},
      {"", "Softmax", 1, softmax},
  };
  return table;
}
