// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over axes, and ArgMax, ArgMin.
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace heddle;

namespace {

// Input and axes of a Reduce op. Without axes it reduces all, or nothing with noop_with_empty_axes.
struct Reduced {
  GraphValue x;
  SmallVector<int64_t> axes;
  bool keepDims;
};

std::optional<Reduced> operands(NodeImport &n) {
  Reduced r{n.in(0), {}, n.integer("keepdims", 1) != 0};
  std::optional<SmallVector<int64_t>> given;
  if (n.has(1) && n.in(1).isStatic() && n.in(1).rank() == 1 && n.in(1).dims[0].is(0))
    given.emplace();
  else
    given = n.axesOf(1, "axes", r.x.rank());
  if (n.g.failed())
    return std::nullopt;
  if (given && !given->empty())
    r.axes = *given;
  else if (!n.integer("noop_with_empty_axes", 0))
    r.axes = llvm::to_vector(llvm::seq<int64_t>(0, r.x.rank()));
  return r;
}

template <Reduction Kind> void reduction(NodeImport &n) {
  if (auto r = operands(n)) {
    Reduction kind = Kind;
    if (r->x.type == OnnxType::Bool && (Kind == Reduction::Max || Kind == Reduction::Min))
      kind = Kind == Reduction::Max ? Reduction::Or : Reduction::And;
    n.out(n.g.reduce(kind, r->x, r->axes, r->keepDims));
  }
}

void reduceMean(NodeImport &n) {
  if (auto r = operands(n))
    n.out(n.g.mean(r->x, r->axes, r->keepDims));
}

// A sum of f(x), in the accumulator's type, then h of it.
template <typename Before, typename After> void sumOf(NodeImport &n, Before before, After after) {
  auto r = operands(n);
  if (!r)
    return;
  GraphValue wide = n.g.cast(r->x, accumulatorOf(r->x.type));
  GraphValue sum = n.g.reduce(Reduction::Sum, before(wide), r->axes, r->keepDims);
  n.out(n.g.cast(after(sum), r->x.type));
}

void reduceSumSquare(NodeImport &n) {
  sumOf(n, [&](const GraphValue &x) { return n.g.mul(x, x); }, [](const GraphValue &sum) { return sum; });
}

void reduceL1(NodeImport &n) {
  sumOf(n, [&](const GraphValue &x) { return isUnsigned(x.type) ? x : n.g.maximum(x, n.g.neg(x)); },
        [](const GraphValue &sum) { return sum; });
}

void reduceL2(NodeImport &n) {
  sumOf(n, [&](const GraphValue &x) { return n.g.mul(x, x); },
        [&](const GraphValue &sum) { return n.g.sqrt(isFloat(sum.type) ? sum : n.g.cast(sum, OnnxType::Double)); });
}

void reduceLogSum(NodeImport &n) {
  sumOf(n, [](const GraphValue &x) { return x; },
        [&](const GraphValue &sum) { return n.g.log(isFloat(sum.type) ? sum : n.g.cast(sum, OnnxType::Double)); });
}

// m + log(sum(exp(x - m))) with m the largest, or 0 where that is not finite
void reduceLogSumExp(NodeImport &n) {
  GraphBuilder &g = n.g;
  auto r = operands(n);
  if (!r)
    return;
  GraphValue wide = g.cast(r->x, isFloat(r->x.type) ? accumulatorOf(r->x.type) : OnnxType::Double);
  GraphValue top = g.reduce(Reduction::Max, wide, r->axes, true), magnitude = g.maximum(top, g.neg(top));
  GraphValue infinite = g.wrap(g.filled(wide.type, {}, g.limit(wide.type, true)), wide.type, {});
  top = g.select(g.compare(Predicate::Less, magnitude, infinite), top, g.like(top, 0));
  GraphValue sum = g.reduce(Reduction::Sum, g.exp(g.sub(wide, top)), r->axes, true);
  GraphValue result = g.add(g.log(sum), top);
  n.out(g.cast(r->keepDims ? result : g.squeeze(result, r->axes), r->x.type));
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
  AffineMap all = g.b.getMultiDimIdentityMap(unsigned(x.rank())), kept = AffineMap::get(unsigned(x.rank()), 0, outer, g.b.getContext());
  Value best = g.filled(x.type, dims, g.limit(x.type, !IsMax)), place = g.filled(OnnxType::Int64, dims, g.constant(OnnxType::Int64, -1));
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
      {"", "ArgMax", 1, argument<true>}, {"", "ArgMin", 1, argument<false>}, {"", "ReduceL1", 1, reduceL1},
      {"", "ReduceL2", 1, reduceL2}, {"", "ReduceLogSum", 1, reduceLogSum}, {"", "ReduceLogSumExp", 1, reduceLogSumExp},
      {"", "ReduceMax", 1, reduction<Reduction::Max>}, {"", "ReduceMean", 1, reduceMean},
      {"", "ReduceMin", 1, reduction<Reduction::Min>}, {"", "ReduceProd", 1, reduction<Reduction::Product>},
      {"", "ReduceSum", 1, reduction<Reduction::Sum>}, {"", "ReduceSumSquare", 1, reduceSumSquare},
  };
  return table;
}
