// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over axes, and ArgMax, ArgMin.
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/RuntimeAxes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// What a Reduce op reduces, and over which axes. Without axes it reduces all, or nothing with noop_with_empty_axes.
class Reduced {
public:
  static std::optional<Reduced> read(NodeImport &n);

  GraphValue reduce(Reduction kind, const GraphValue &value) const { return squeezed(reduceKept(kind, value)); }
  // Reduced dimensions stay, as 1.
  GraphValue reduceKept(Reduction kind, const GraphValue &value) const;
  GraphValue squeezed(const GraphValue &kept) const;
  // How many elements become one.
  GraphValue count(OnnxType type) const;

  GraphValue x;

private:
  Reduced(GraphBuilder &g) : g(g) {}
  GraphBuilder &g;
  std::optional<SmallVector<int64_t>> axes; // if they are constants
  std::optional<RuntimeAxes> places;        // else
  bool keepDims = true;
};

std::optional<Reduced> Reduced::read(NodeImport &n) {
  Reduced r(n.g);
  r.x = n.in(0);
  r.keepDims = n.integer("keepdims", 1) != 0;
  bool isEmpty = n.has(1) && n.in(1).rank() == 1 && n.in(1).dims[0].is(0);
  if (n.g.failed())
    return std::nullopt;
  if (auto attribute = n.integers("axes"); attribute && !attribute->empty())
    r.axes = n.axes(*attribute, r.x.rank());
  else if (n.has(1) && !isEmpty && !(r.places = RuntimeAxes::read(n, n.in(1), r.x.rank())))
    return std::nullopt;
  else if (r.places)
    r.axes = r.places->constants();
  else if (n.integer("noop_with_empty_axes", 0))
    r.axes.emplace();
  else
    r.axes = llvm::to_vector(llvm::seq<int64_t>(0, r.x.rank()));
  if (n.g.failed())
    return std::nullopt;
  return r;
}

GraphValue Reduced::reduceKept(Reduction kind, const GraphValue &value) const {
  if (axes || g.failed())
    return g.reduce(kind, value, axes.value_or(SmallVector<int64_t>()), true);
  // Which dimensions are 1 is known only at run time: every element is added where its other indices say.
  Dims ones(value.rank(), Dim(1)), dims = places->spread(g, ones, value.dims);
  OnnxType wide = accumulatorOf(value.type);
  GraphValue terms = g.cast(value, wide);
  Value source = g.tensor(terms), zero = g.constantIndex(0);
  SmallVector<Value> isReduced;
  for (const Dim &member : places->members())
    isReduced.push_back(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::ne, g.index(member), zero));
  Value start = g.filled(wide, dims, g.neutral(kind, wide));
  Value sum = g.loopNest(value.dims, start, [&](OpBuilder &b, ValueRange at, ValueRange state) -> SmallVector<Value> {
    SmallVector<Value> to;
    for (auto [index, flag] : llvm::zip_equal(at, isReduced))
      to.push_back(arith::SelectOp::create(b, g.loc, flag, zero, index));
    Value old = tensor::ExtractOp::create(b, g.loc, state[0], to),
          term = tensor::ExtractOp::create(b, g.loc, source, at);
    return {tensor::InsertOp::create(b, g.loc, GraphBuilder::combine(b, g.loc, kind, wide, old, term), state[0], to)};
  })[0];
  return g.cast(g.wrap(sum, wide, dims), value.type);
}

GraphValue Reduced::squeezed(const GraphValue &kept) const {
  if (keepDims || g.failed())
    return kept;
  return axes ? g.squeeze(kept, *axes) : g.reshape(kept, places->without(g, kept.dims));
}

GraphValue Reduced::count(OnnxType type) const {
  Dims sizes;
  if (axes)
    for (int64_t axis : *axes)
      sizes.push_back(x.dims[axis]);
  else
    for (auto [member, dim] : llvm::zip_equal(places->members(), x.dims))
      sizes.push_back(member * dim + Dim(1) - member);
  return g.cast(g.integers(OnnxType::Int64, {}, {g.product(sizes)}), type);
}

// before(x) combined in the accumulator's type, then after(result).
template <typename Before, typename After> void reduceWith(NodeImport &n, Reduction kind, Before before, After after) {
  auto r = Reduced::read(n);
  if (!r)
    return;
  GraphValue wide = n.g.cast(r->x, accumulatorOf(r->x.type));
  n.out(n.g.cast(after(*r, r->reduce(kind, before(wide))), r->x.type));
}

GraphValue itself(const GraphValue &x) {
  return x;
}
GraphValue result(const Reduced &, const GraphValue &sum) {
  return sum;
}

template <Reduction Kind> void reduction(NodeImport &n) {
  bool isBool = n.in(0).type == OnnxType::Bool;
  constexpr Reduction ofBools = Kind == Reduction::Max ? Reduction::Or : Kind == Reduction::Min ? Reduction::And : Kind;
  reduceWith(n, isBool ? ofBools : Kind, itself, result);
}

void reduceMean(NodeImport &n) {
  reduceWith(n, Reduction::Sum, itself,
             [&](const Reduced &r, const GraphValue &sum) { return n.g.div(sum, r.count(sum.type)); });
}

void reduceSumSquare(NodeImport &n) {
  reduceWith(n, Reduction::Sum, [&](const GraphValue &x) { return n.g.mul(x, x); }, result);
}

void reduceL1(NodeImport &n) {
  reduceWith(n, Reduction::Sum, [&](const GraphValue &x) { return n.g.abs(x); }, result);
}

// f of a sum, computed in floating point.
template <typename F> auto real(NodeImport &n, F f) {
  return [&n, f](const Reduced &, const GraphValue &sum) {
    return (n.g.*f)(isFloat(sum.type) ? sum : n.g.cast(sum, OnnxType::Double));
  };
}

void reduceL2(NodeImport &n) {
  reduceWith(n, Reduction::Sum, [&](const GraphValue &x) { return n.g.mul(x, x); }, real(n, &GraphBuilder::sqrt));
}

void reduceLogSum(NodeImport &n) {
  reduceWith(n, Reduction::Sum, itself, real(n, &GraphBuilder::log));
}

// m + log(sum(exp(x - m))) with m the largest, or 0 where that is not finite
void reduceLogSumExp(NodeImport &n) {
  GraphBuilder &g = n.g;
  auto r = Reduced::read(n);
  if (!r)
    return;
  GraphValue wide = g.cast(r->x, isFloat(r->x.type) ? accumulatorOf(r->x.type) : OnnxType::Double);
  GraphValue top = r->reduceKept(Reduction::Max, wide);
  GraphValue infinite = g.wrap(g.filled(wide.type, {}, g.limit(wide.type, true)), wide.type, {});
  top = g.select(g.compare(Predicate::Less, g.abs(top), infinite), top, g.like(top, 0));
  GraphValue sum = r->reduceKept(Reduction::Sum, g.exp(g.sub(wide, top)));
  n.out(g.cast(r->squeezed(g.add(g.log(sum), top)), r->x.type));
}

// The place of the largest (smallest) element: the first, or with select_last_index the last of equal ones.
template <bool IsMax> void argument(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  bool last = n.integer("select_last_index", 0) != 0, keepDims = n.integer("keepdims", 1) != 0;
  if (g.failed())
    return;
  Dims dims = x.dims;
  dims.erase(dims.begin() + axis);
  SmallVector<AffineExpr> outer;
  SmallVector<utils::IteratorType> iterators(x.rank(), utils::IteratorType::parallel);
  iterators[axis] = utils::IteratorType::reduction;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis)
      outer.push_back(g.b.getAffineDimExpr(unsigned(i)));
  AffineMap all = g.b.getMultiDimIdentityMap(unsigned(x.rank())),
            kept = AffineMap::get(unsigned(x.rank()), 0, outer, g.b.getContext());
  Value best = g.filled(x.type, dims, g.limit(x.type, !IsMax)),
        place = g.filled(OnnxType::Int64, dims, g.constant(OnnxType::Int64, -1));
  auto op = linalg::GenericOp::create(
      g.b, g.loc, TypeRange{g.tensorType(x.type, dims), g.tensorType(OnnxType::Int64, dims)}, ValueRange{g.tensor(x)},
      ValueRange{best, place}, {all, kept, kept}, iterators, [&](OpBuilder &b, Location loc, ValueRange v) {
        Value i = arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, axis));
        Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, v[2],
                                           arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0)));
        Value better;
        if (isFloat(x.type)) {
          better = arith::CmpFOp::create(b, loc,
                                         IsMax ? (last ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT)
                                               : (last ? arith::CmpFPredicate::OLE : arith::CmpFPredicate::OLT),
                                         v[0], v[1]);
        } else {
          using P = arith::CmpIPredicate;
          P p = isUnsigned(x.type) ? (IsMax ? (last ? P::uge : P::ugt) : (last ? P::ule : P::ult))
                                   : (IsMax ? (last ? P::sge : P::sgt) : (last ? P::sle : P::slt));
          better = arith::CmpIOp::create(b, loc, p, v[0], v[1]);
        }
        better = arith::OrIOp::create(b, loc, better, none);
        Value value = arith::SelectOp::create(b, loc, better, v[0], v[1]);
        Value where = arith::SelectOp::create(b, loc, better, i, v[2]);
        linalg::YieldOp::create(b, loc, ValueRange{value, where});
      });
  GraphValue result = g.wrap(op.getResult(1), OnnxType::Int64, dims);
  n.out(keepDims ? g.unsqueeze(result, {axis}) : result);
}

} // namespace

ArrayRef<OpRow> heddle::reductionOps() {
  static const OpRow table[] = {
      {"", "ArgMax", 1, argument<true>},
      {"", "ArgMin", 1, argument<false>},
      {"", "ReduceL1", 1, reduceL1},
      {"", "ReduceL2", 1, reduceL2},
      {"", "ReduceLogSum", 1, reduceLogSum},
      {"", "ReduceLogSumExp", 1, reduceLogSumExp},
      {"", "ReduceMax", 1, reduction<Reduction::Max>},
      {"", "ReduceMean", 1, reduceMean},
      {"", "ReduceMin", 1, reduction<Reduction::Min>},
      {"", "ReduceProd", 1, reduction<Reduction::Product>},
      {"", "ReduceSum", 1, reduction<Reduction::Sum>},
      {"", "ReduceSumSquare", 1, reduceSumSquare},
  };
  return table;
}
