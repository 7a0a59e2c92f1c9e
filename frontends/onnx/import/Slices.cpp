// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that cut tensors or add a border: Split, Slice, Pad.
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/RuntimeAxes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// Lengths from an attribute or input, or equal parts, the last one smaller.
void split(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  if (g.failed())
    return;
  size_t count = n.node.outputs.size();
  Dims lengths;
  std::optional<SmallVector<int64_t>> attribute = n.integers("split");
  if (n.has(1) || attribute) {
    std::optional<Dims> given = n.has(1) ? g.toDims(n.in(1)) : Dims(attribute->begin(), attribute->end());
    if (!given || given->size() != count)
      return (void)n.fail("split has " + Twine(given ? given->size() : 0) + " lengths for " + Twine(count) +
                          " outputs");
    lengths = *given;
    Dim sum(0);
    for (const Dim &length : lengths) {
      if (length.isStatic() && length.value() < 0)
        return (void)n.fail("split has a length of " + Twine(length.value()));
      sum = sum + length;
    }
    if (sum.isStatic() && x.dims[axis].isStatic() && sum != x.dims[axis])
      return (void)n.fail("the lengths of split add up to " + Twine(sum.value()) + ", dimension " + Twine(axis) +
                          " is " + Twine(x.dims[axis].value()));
    if (sum != x.dims[axis])
      g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(sum), g.index(x.dims[axis])),
                "the lengths of a split do not add up");
  } else {
    Dim part = g.floorDiv(x.dims[axis] + Dim(int64_t(count) - 1), int64_t(count));
    Dim rest = x.dims[axis];
    for (size_t i = 0; i < count; ++i) {
      lengths.push_back(g.minOf(part, g.maxOf(rest, 0)));
      rest = rest - lengths.back();
    }
  }
  Dim begin(0);
  for (size_t i = 0; i < count; ++i) {
    n.out(g.slice(x, axis, begin, lengths[i]), i);
    begin = begin + lengths[i];
  }
}

// Where a slice begins or ends: negative counts from the end, then clamped.
Dim clampEnd(GraphBuilder &g, const Dim &given, const Dim &size, const Dim &low, const Dim &high) {
  Dim position = given;
  if (given.isStatic()) {
    if (given.value() < 0)
      position = given.value() == INT64_MIN ? low : size + given;
    if (given.value() >= INT32_MAX)
      return high;
    if (given.value() <= -int64_t(INT32_MAX))
      return low;
  } else if (!g.isNonNegative(given)) {
    Value index = g.index(given), zero = g.constantIndex(0);
    Value isNegative = arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::slt, index, zero);
    Value wrapped = arith::AddIOp::create(g.b, g.loc, index, g.index(size));
    position = g.dimOf(arith::SelectOp::create(g.b, g.loc, isNegative, wrapped, index));
  }
  return g.minOf(g.maxOf(position, low), high);
}

GraphValue sliceStep(NodeImport &n, const GraphValue &x, int64_t axis, const Dim &start, const Dim &end, int64_t step) {
  GraphBuilder &g = n.g;
  const Dim &size = x.dims[axis];
  // The end of a table, as long as another tensor: where that is longer than the table, the run stops.
  bool isToEnd = end.isStatic() && size.isStatic() && end.value() >= size.value();
  if (std::optional<Dim> length = step == 1 && isToEnd ? g.lengthBehind(start, size) : std::nullopt)
    return g.slice(x, axis, start, *length);
  if (step == 1 && isToEnd && !start.isStatic() && g.isNonNegative(size - start)) {
    Value isWithin = arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::sge, g.index(start), g.constantIndex(0));
    g.require(isWithin, "a slice begins before the first element");
    return g.slice(x, axis, start, size - start);
  }
  if (step == 1) {
    Dim begin = clampEnd(g, start, size, 0, size), stop = clampEnd(g, end, size, 0, size);
    return g.slice(x, axis, begin, g.maxOf(stop - begin, 0));
  }
  Dim last = step > 0 ? size : size - 1, first = step > 0 ? Dim(0) : Dim(-1);
  Dim begin = clampEnd(g, start, size, 0, last), stop = clampEnd(g, end, size, first, last);
  int64_t width = step > 0 ? step : -step;
  Dim span = step > 0 ? stop - begin : begin - stop;
  Dim length = g.floorDiv(g.maxOf(span, 0) + Dim(width - 1), width);
  Dims dims = x.dims;
  dims[axis] = length;
  auto offset = [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t> place(at);
    place[axis] = begin.value() + at[axis] * step;
    return GraphBuilder::offsetIn(x, place);
  };
  if (begin.isStatic())
    if (GraphValue folded = g.foldShape(x, dims, offset))
      return folded;
  if (length.is(0))
    return g.slice(x, axis, 0, 0);
  if (step > 0) {
    SmallVector<OpFoldResult> offsets(dims.size(), g.b.getIndexAttr(0)), strides(dims.size(), g.b.getIndexAttr(1));
    offsets[axis] = g.size(begin);
    strides[axis] = g.b.getIndexAttr(step);
    return g.wrap(tensor::ExtractSliceOp::create(g.b, g.loc, g.tensor(x), offsets, g.sizes(dims), strides), x.type,
                  dims);
  }
  Value source = g.tensor(x), from = g.index(begin), stride = g.constantIndex(step);
  return g.generate(x.type, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    SmallVector<Value> place(at.begin(), at.end());
    place[axis] = arith::AddIOp::create(b, g.loc, from, arith::MulIOp::create(b, g.loc, at[axis], stride));
    return tensor::ExtractOp::create(b, g.loc, source, place);
  });
}

// One dimension of a slice of which nothing need be known: its first element and its length.
std::pair<Value, Dim> runtimeSlice(GraphBuilder &g, const Dim &size, const Dim &start, const Dim &end, Value step) {
  OpBuilder &b = g.b;
  Value zero = g.constantIndex(0), all = g.index(size);
  auto compare = [&](arith::CmpIPredicate p, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, g.loc, p, x, y);
  };
  g.require(compare(arith::CmpIPredicate::ne, step, zero), "a step is 0");
  Value isForward = compare(arith::CmpIPredicate::sgt, step, zero);
  auto choose = [&](int64_t forward, int64_t backward, bool ofSize) -> Value {
    Dim base = ofSize ? size : Dim(0);
    return arith::SelectOp::create(b, g.loc, isForward, g.index(base + forward), g.index(base + backward));
  };
  auto clamp = [&](const Dim &given, Value low, Value high) -> Value {
    Value position = g.index(given), isNegative = compare(arith::CmpIPredicate::slt, position, zero);
    position = arith::SelectOp::create(b, g.loc, isNegative, arith::AddIOp::create(b, g.loc, position, all), position);
    return arith::MinSIOp::create(b, g.loc, arith::MaxSIOp::create(b, g.loc, position, low), high);
  };
  Value begin = clamp(start, zero, choose(0, -1, true)), stop = clamp(end, choose(0, -1, false), choose(0, -1, true));
  Value span = arith::SubIOp::create(b, g.loc, stop, begin);
  // The step may be 0 on the way to the check.
  Value divisor =
      arith::SelectOp::create(b, g.loc, compare(arith::CmpIPredicate::eq, step, zero), g.constantIndex(1), step);
  Value count = arith::MaxSIOp::create(b, g.loc, arith::CeilDivSIOp::create(b, g.loc, span, divisor), zero);
  return {begin, g.dimOf(count)};
}

// Axes and steps that only the run knows: every dimension may be cut.
void sliceAtRunTime(NodeImport &n, const RuntimeAxes &axes, ArrayRef<Dim> starts, ArrayRef<Dim> ends,
                    ArrayRef<Dim> steps) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  Dims zeros(x.rank(), Dim(0)), ones(x.rank(), Dim(1));
  Dims first = axes.spread(g, starts, zeros), last = axes.spread(g, ends, x.dims), width = axes.spread(g, steps, ones),
       dims;
  SmallVector<Value> begins, strides;
  for (int64_t d = 0; d < x.rank(); ++d) {
    strides.push_back(g.index(width[d]));
    auto [begin, length] = runtimeSlice(g, x.dims[d], first[d], last[d], strides.back());
    begins.push_back(begin);
    dims.push_back(length);
  }
  Value source = g.tensor(x);
  n.out(g.generate(x.type, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    SmallVector<Value> place;
    for (size_t d = 0; d < at.size(); ++d)
      place.push_back(arith::AddIOp::create(b, g.loc, begins[d], arith::MulIOp::create(b, g.loc, at[d], strides[d])));
    return tensor::ExtractOp::create(b, g.loc, source, place);
  }));
}

void slice(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0);
  // Up to opset 9 all are attributes.
  auto numbers = [&](StringRef attribute, size_t input) -> std::optional<Dims> {
    if (n.opset >= 10)
      return n.has(input) ? g.toDims(n.in(input)) : std::nullopt;
    auto given = n.integers(attribute);
    return given ? std::optional<Dims>(Dims(given->begin(), given->end())) : std::nullopt;
  };
  std::optional<Dims> starts = numbers("starts", 1), ends = numbers("ends", 2), axes = numbers("axes", 3),
                      steps = numbers("steps", 4);
  if (g.failed())
    return;
  if (!starts || !ends || (n.has(3) && !axes) || (n.has(4) && !steps))
    return (void)n.fail("has no starts or ends, or lists of unknown length");
  if (!axes)
    axes = llvm::map_to_vector(llvm::seq<int64_t>(0, int64_t(starts->size())), [](int64_t i) { return Dim(i); });
  if (!steps)
    steps = Dims(starts->size(), Dim(1));
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size() ||
      int64_t(axes->size()) > x.rank())
    return (void)n.fail("has " + Twine(starts->size()) + " starts, " + Twine(ends->size()) + " ends, " +
                        Twine(axes->size()) + " axes and " + Twine(steps->size()) + " steps for rank " +
                        Twine(x.rank()));
  std::optional<RuntimeAxes> places = RuntimeAxes::read(n, g.vectorOf(*axes), x.rank());
  if (!places)
    return;
  std::optional<SmallVector<int64_t>> known = places->constants(), strides = g.vectorOf(*steps).integers();
  if (!known || !strides)
    return sliceAtRunTime(n, *places, *starts, *ends, *steps);
  for (size_t i = 0; i < known->size() && !g.failed(); ++i) {
    if ((*strides)[i] == 0 || (*strides)[i] == INT64_MIN)
      return (void)n.fail("has a step of " + Twine((*strides)[i]));
    x = sliceStep(n, x, (*known)[i], (*starts)[i], (*ends)[i], (*strides)[i]);
  }
  n.out(x);
}

// reflect, edge, wrap: the element of the input that stands at a position outside of it.
GraphValue padFrom(NodeImport &n, const GraphValue &x, const std::string &mode, ArrayRef<Dim> low, ArrayRef<Dim> high) {
  GraphBuilder &g = n.g;
  Dims dims;
  SmallVector<Value> lows, sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    dims.push_back(x.dims[i] + low[i] + high[i]);
    lows.push_back(g.index(low[i]));
    sizes.push_back(g.index(x.dims[i]));
    if (low[i].is(0) && high[i].is(0))
      continue;
    g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::sgt, sizes[i], g.constantIndex(0)),
              "an empty tensor cannot be padded with its elements");
  }
  Value source = g.tensor(x), zero = g.constantIndex(0), one = g.constantIndex(1);
  return g.generate(x.type, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    SmallVector<Value> place;
    Location loc = g.loc;
    for (int64_t i = 0; i < x.rank(); ++i) {
      Value p = arith::SubIOp::create(b, loc, at[i], lows[i]), last = arith::SubIOp::create(b, loc, sizes[i], one);
      auto wrapped = [&](Value value, Value size) -> Value {
        Value rest = arith::RemSIOp::create(b, loc, value, size);
        Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, rest, zero);
        return arith::SelectOp::create(b, loc, isNegative, arith::AddIOp::create(b, loc, rest, size), rest);
      };
      if (low[i].is(0) && high[i].is(0)) {
        place.push_back(at[i]);
      } else if (mode == "wrap") {
        place.push_back(wrapped(p, sizes[i]));
      } else if (mode == "edge") {
        place.push_back(arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, p, zero), last));
      } else { // reflect: period 2 (size - 1), mirrored in its second half
        Value period = arith::MaxSIOp::create(b, loc, arith::AddIOp::create(b, loc, last, last), one);
        Value q = wrapped(p, period);
        place.push_back(arith::MinSIOp::create(b, loc, q, arith::SubIOp::create(b, loc, period, q)));
        Value isPoint = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, last, zero);
        place.back() = arith::SelectOp::create(b, loc, isPoint, zero, place.back());
      }
    }
    return tensor::ExtractOp::create(b, loc, source, place);
  });
}

void pad(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0);
  std::optional<Dims> given;
  if (auto attribute = n.integers("pads"))
    given = Dims(attribute->begin(), attribute->end());
  else
    given = g.toDims(n.in(1));
  Dims low, high, zeros(x.rank(), Dim(0));
  if (n.has(3)) {
    std::optional<RuntimeAxes> axes = RuntimeAxes::read(n, n.in(3), x.rank());
    if (!axes)
      return;
    if (!given || int64_t(given->size()) != 2 * axes->count())
      return (void)n.fail("pads has " + Twine(given ? given->size() : 0) + " elements, expected " +
                          Twine(2 * axes->count()));
    low = axes->spread(g, ArrayRef<Dim>(*given).take_front(axes->count()), zeros);
    high = axes->spread(g, ArrayRef<Dim>(*given).drop_front(axes->count()), zeros);
  } else {
    if (!given || int64_t(given->size()) != 2 * x.rank())
      return (void)n.fail("pads has " + Twine(given ? given->size() : 0) + " elements, expected " +
                          Twine(2 * x.rank()));
    low.append(given->begin(), given->begin() + x.rank());
    high.append(given->begin() + x.rank(), given->end());
  }
  // Negative pads cut.
  for (int64_t i = 0; i < x.rank(); ++i) {
    auto cut = [](Dim &pad) {
      int64_t amount = pad.isStatic() && pad.value() < 0 ? -pad.value() : 0;
      if (amount)
        pad = Dim(0);
      return Dim(amount);
    };
    Dim before = cut(low[i]), after = cut(high[i]);
    if (!before.is(0) || !after.is(0))
      x = g.slice(x, i, before, g.maxOf(x.dims[i] - before - after, 0));
  }
  if (g.failed())
    return;
  std::string mode = n.text("mode", "constant");
  if (mode == "reflect" || mode == "edge" || mode == "wrap")
    return n.out(padFrom(n, x, mode, low, high));
  if (mode != "constant")
    return (void)n.fail("attribute 'mode' is '" + mode + "', expected constant, reflect, edge or wrap");
  Value scalar = n.has(2) ? g.toScalar(n.in(2)) : g.constant(x.type, n.real("value", 0));
  n.out(g.pad(x, low, high, scalar));
}

} // namespace

ArrayRef<OpRow> heddle::sliceOps() {
  static const OpRow table[] = {{"", "Pad", 2, pad}, {"", "Slice", 1, slice}, {"", "Split", 2, split}};
  return table;
}
