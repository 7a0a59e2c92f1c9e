// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of a grid read between its places: GridSample.
//
// Each axis has taps, places that are read with weights: y[n, c, o…] = sum over taps t of the axes of weight(n, o, t) * x[n, c, place(n, o, t)…].
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// Both (N, o…): an index, and the weight of what lies there, 0 beyond the grid where zeros stand there.
struct Tap {
  GraphValue place, weight;
};

struct SampleModes {
  std::string mode, padding;
  bool alignsCorners;
};

// x folded back and forth between low and high.
GraphValue reflected(GraphBuilder &g, const GraphValue &x, const GraphValue &low, const GraphValue &high) {
  GraphValue range = g.sub(high, low), from = g.sub(x, low), two = g.like(x, 2);
  // A grid of one place has no range: what is divided by does not matter there.
  GraphValue span = g.maximum(g.mul(two, range), g.like(x, 1e-6));
  GraphValue rest = g.sub(from, g.mul(span, g.floor(g.div(from, span))));
  GraphValue folded = g.select(g.compare(Predicate::Less, range, rest), g.sub(g.mul(two, range), rest), rest);
  return g.add(low, folded);
}

GraphValue bounded(GraphBuilder &g, const GraphValue &x, const GraphValue &low, const GraphValue &high) {
  return g.minimum(g.maximum(x, low), high);
}

// What stands at a whole place, which may lie beyond the grid.
Tap tapAt(GraphBuilder &g, const SampleModes &modes, GraphValue place, GraphValue weight, const GraphValue &size,
          const Dim &length) {
  GraphValue zero = g.like(place, 0), last = g.sub(size, g.like(place, 1));
  if (modes.padding == "zeros") {
    GraphValue isInside =
        g.logicalAnd(g.compare(Predicate::GreaterOrEqual, place, zero), g.compare(Predicate::LessOrEqual, place, last));
    weight = g.select(isInside, weight, zero);
  } else if (modes.padding == "reflection") {
    GraphValue half = g.like(place, modes.alignsCorners ? 0 : 0.5);
    place = reflected(g, place, g.neg(half), g.add(last, half));
  }
  // What is no number is no place; a grid may hold one.
  GraphValue known = g.select(g.compare(Predicate::Equal, place, place), bounded(g, place, zero, last), zero);
  // As a float the last place of a long axis may be rounded up.
  return {g.minimum(g.cast(known, OnnxType::Int64), g.integers(OnnxType::Int64, {}, {length - 1})), weight};
}

// The weight of Keys' kernel at a distance, with a coefficient of -0.75.
GraphValue cubicWeight(GraphBuilder &g, const GraphValue &distance, bool isNear) {
  constexpr double a = -0.75;
  const GraphValue &d = distance;
  GraphValue square = g.mul(d, d);
  if (isNear) // ((a + 2) d - (a + 3)) d^2 + 1
    return g.add(g.mul(g.sub(g.mul(g.like(d, a + 2), d), g.like(d, a + 3)), square), g.like(d, 1));
  // ((a d - 5 a) d + 8 a) d - 4 a
  GraphValue inner = g.mul(g.sub(g.mul(g.like(d, a), d), g.like(d, 5 * a)), d);
  return g.sub(g.mul(g.add(inner, g.like(d, 8 * a)), d), g.like(d, 4 * a));
}

// The taps of one axis at coordinates that run from -1 to 1 over it.
std::vector<Tap> tapsOf(GraphBuilder &g, const SampleModes &modes, const GraphValue &coordinate, const Dim &length) {
  GraphValue one = g.like(coordinate, 1), half = g.like(coordinate, 0.5);
  GraphValue size = g.cast(g.integers(OnnxType::Int64, {}, {length}), coordinate.type), last = g.sub(size, one);
  GraphValue unit = g.mul(g.add(coordinate, one), half);
  GraphValue x = modes.alignsCorners ? g.mul(unit, last) : g.sub(g.mul(unit, size), half);
  auto tap = [&](const GraphValue &place, const GraphValue &weight) {
    return tapAt(g, modes, place, weight, size, length);
  };
  if (modes.mode == "nearest")
    return {tap(g.roundEven(x), one)};
  GraphValue below = g.floor(x), rest = g.sub(x, below);
  if (modes.mode == "linear")
    return {tap(below, g.sub(one, rest)), tap(g.add(below, one), rest)};
  std::vector<Tap> taps;
  for (int offset = -1; offset <= 2; ++offset) {
    GraphValue distance = g.abs(g.sub(rest, g.like(rest, offset)));
    taps.push_back(tap(g.add(below, g.like(below, offset)), cubicWeight(g, distance, offset == 0 || offset == 1)));
  }
  return taps;
}

// X (N, C, i…), grid (N, o…, axes), whose coordinates name the last axis of X first.
void gridSample(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &grid = n.in(1);
  if (g.failed())
    return;
  SampleModes modes{n.text("mode", n.opset >= 20 ? "linear" : "bilinear"), n.text("padding_mode", "zeros"),
                    n.integer("align_corners", 0) != 0};
  if (modes.mode == "bilinear" || modes.mode == "bicubic")
    modes.mode.erase(0, 2);
  int64_t spatial = x.rank() - 2;
  if (modes.mode != "linear" && modes.mode != "nearest" && modes.mode != "cubic")
    return (void)n.fail("attribute 'mode' is '" + modes.mode + "', expected linear, nearest or cubic");
  if (modes.padding != "zeros" && modes.padding != "border" && modes.padding != "reflection")
    return (void)n.fail("attribute 'padding_mode' is '" + modes.padding + "', expected zeros, border or reflection");
  if (spatial < 1 || spatial > 3 || grid.rank() != x.rank() || !grid.dims.back().is(spatial) || !isFloat(x.type))
    return (void)n.fail("an input of rank " + Twine(x.rank()) + " and a grid of rank " + Twine(grid.rank()) +
                        ": expected the same, 3 to 5, and a grid of one coordinate for each axis behind the second");
  if (!n.requireAtMost(grid.dims[0], x.dims[0], "the grid has more batches than the input") ||
      !n.requireAtMost(x.dims[0], grid.dims[0], "the grid has fewer batches than the input"))
    return;
  for (const Dim &dim : llvm::drop_begin(x.dims, 2))
    if (!n.requireAtMost(1, dim, "the input is empty"))
      return;
  OnnxType wide = accumulatorOf(x.type);
  GraphValue source = g.cast(x, wide), coordinates = g.cast(grid, wide), result;
  std::vector<std::vector<Tap>> combinations = {{}};
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t last = grid.rank() - 1;
    GraphValue coordinate = g.squeeze(g.slice(coordinates, last, spatial - 1 - i, 1), {last});
    std::vector<std::vector<Tap>> longer;
    for (const Tap &tap : tapsOf(g, modes, coordinate, x.dims[i + 2]))
      for (std::vector<Tap> taps : combinations) {
        taps.push_back(tap);
        longer.push_back(taps);
      }
    combinations = longer;
  }
  if (g.failed())
    return;
  Dims dims = {grid.dims[0], x.dims[1]};
  dims.append(grid.dims.begin() + 1, grid.dims.end() - 1);
  Value elements = g.tensor(source);
  for (const std::vector<Tap> &taps : combinations) {
    GraphValue weight = taps[0].weight;
    SmallVector<Value> places = {g.tensor(taps[0].place)};
    for (const Tap &tap : llvm::drop_begin(taps)) {
      weight = g.mul(weight, tap.weight);
      places.push_back(g.tensor(tap.place));
    }
    if (g.failed())
      return;
    GraphValue read = g.generate(wide, dims, [&](OpBuilder &b, ValueRange to) -> Value {
      SmallVector<Value> at(to.begin() + 1, to.end()), from(to.begin(), to.begin() + 2);
      at[0] = to[0];
      for (Value place : places)
        from.push_back(g.indexAt(b, place, at));
      return tensor::ExtractOp::create(b, g.loc, elements, from);
    });
    GraphValue term = weight.rank() ? g.mul(read, g.unsqueeze(weight, {1})) : g.mul(read, weight);
    result = result ? g.add(result, term) : term;
  }
  n.out(g.cast(result, x.type));
}

} // namespace

ArrayRef<OpRow> heddle::gridSampleOps() {
  static const OpRow table[] = {
      {"", "GridSample", 16, gridSample},
      {"com.microsoft", "GridSample", 1, gridSample},
  };
  return table;
}
