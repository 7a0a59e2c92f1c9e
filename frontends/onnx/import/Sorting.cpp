// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that visit elements in an order: TopK, NonZero, Compress, CumSum.
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/RuntimeAxes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// Whether a comes before c when the largest (smallest) is first.
Value isBefore(OpBuilder &b, Location loc, OnnxType type, bool largest, Value a, Value c) {
  if (isFloat(type))
    return arith::CmpFOp::create(b, loc, largest ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, a, c);
  using P = arith::CmpIPredicate;
  P p = isUnsigned(type) ? (largest ? P::ugt : P::ult) : (largest ? P::sgt : P::slt);
  return arith::CmpIOp::create(b, loc, p, a, c);
}

// The element of row x[outer] that comes next after (value, place) in the order by value, then by place: k passes over
// a row need no memory. A place of -1 stands before all.
std::pair<Value, Value> nextBest(OpBuilder &b, Location loc, const GraphValue &x, Value source, ArrayRef<Value> outer,
                                 int64_t axis, Value size, bool largest, Value lastValue, Value lastPlace) {
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value none = arith::ConstantIndexOp::create(b, loc, -1);
  auto compare = [&](OpBuilder &b, arith::CmpIPredicate p, Value a, Value c) -> Value {
    return arith::CmpIOp::create(b, loc, p, a, c);
  };
  auto loop = scf::ForOp::create(
      b, loc, zero, size, one, ValueRange{lastValue, none}, [&](OpBuilder &b, Location, Value i, ValueRange best) {
        SmallVector<Value> at(outer.begin(), outer.end());
        at.insert(at.begin() + axis, i);
        Value element = tensor::ExtractOp::create(b, loc, source, at);
        Value isFirst = compare(b, arith::CmpIPredicate::slt, lastPlace, zero);
        Value isLater = isBefore(b, loc, x.type, largest, lastValue, element);
        Value isEqual = arith::XOrIOp::create(
            b, loc, arith::OrIOp::create(b, loc, isLater, isBefore(b, loc, x.type, largest, element, lastValue)),
            arith::ConstantIntOp::create(b, loc, 1, 1));
        Value follows = arith::AndIOp::create(b, loc, isEqual, compare(b, arith::CmpIPredicate::sgt, i, lastPlace));
        Value isLeft = arith::OrIOp::create(b, loc, isFirst, arith::OrIOp::create(b, loc, isLater, follows));
        Value isBetter = arith::OrIOp::create(b, loc, compare(b, arith::CmpIPredicate::slt, best[1], zero),
                                              isBefore(b, loc, x.type, largest, element, best[0]));
        Value take = arith::AndIOp::create(b, loc, isLeft, isBetter);
        Value value = arith::SelectOp::create(b, loc, take, element, best[0]),
              place = arith::SelectOp::create(b, loc, take, i, best[1]);
        scf::YieldOp::create(b, loc, ValueRange{value, place});
      });
  return {loop.getResult(0), loop.getResult(1)};
}

void topK(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", -1), x.rank());
  Dim k = n.opset < 10 ? Dim(n.integer("k", 0)) : g.toDim(g.cast(n.in(1), OnnxType::Int64));
  bool largest = n.integer("largest", 1) != 0;
  if (g.failed() || !n.requireAtMost(k, x.dims[axis], "k is larger than the dimension") ||
      !n.requireAtMost(0, k, "k is negative"))
    return;
  Dims outer = x.dims, dims = x.dims;
  outer.erase(outer.begin() + axis);
  dims[axis] = k;
  Value source = g.tensor(x), size = g.index(x.dims[axis]), count = g.index(k), zero = g.constantIndex(0),
        one = g.constantIndex(1);
  Value start = g.constant(x.type, 0), none = g.constantIndex(-1);
  SmallVector<Value> state = {g.empty(x.type, dims), g.empty(OnnxType::Int64, dims)};
  SmallVector<Value> done =
      g.loopNest(outer, state, [&](OpBuilder &b, ValueRange at, ValueRange state) -> SmallVector<Value> {
        SmallVector<Value> outerAt(at.begin(), at.end());
        auto loop = scf::ForOp::create(b, g.loc, zero, count, one, ValueRange{state[0], state[1], start, none},
                                       [&](OpBuilder &b, Location loc, Value j, ValueRange v) {
                                         auto [value, place] =
                                             nextBest(b, loc, x, source, outerAt, axis, size, largest, v[2], v[3]);
                                         SmallVector<Value> to = outerAt;
                                         to.insert(to.begin() + axis, j);
                                         Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), place);
                                         Value values = tensor::InsertOp::create(b, loc, value, v[0], to),
                                               places = tensor::InsertOp::create(b, loc, number, v[1], to);
                                         scf::YieldOp::create(b, loc, ValueRange{values, places, value, place});
                                       });
        return {loop.getResult(0), loop.getResult(1)};
      });
  n.out(g.wrap(done[0], x.type, dims));
  n.out(g.wrap(done[1], OnnxType::Int64, dims), 1);
}

// The indices of elements that are not 0, one column each, in row-major order.
GraphValue placesOfTrue(GraphBuilder &g, const GraphValue &given) {
  if (g.failed())
    return {};
  GraphValue x = given.rank() == 0 ? g.reshape(given, {Dim(1)}) : given;
  GraphValue flags = g.cast(x, OnnxType::Bool);
  GraphValue count =
      g.reduce(Reduction::Sum, g.cast(flags, OnnxType::Int64), llvm::to_vector(llvm::seq<int64_t>(0, x.rank())), false);
  Dims dims = {Dim(x.rank()), g.asCount(g.toDim(count))};
  Value source = g.tensor(flags);
  SmallVector<Value> state = {g.empty(OnnxType::Int64, dims), g.constantIndex(0)};
  SmallVector<Value> done =
      g.loopNest(x.dims, state, [&](OpBuilder &b, ValueRange at, ValueRange state) -> SmallVector<Value> {
        Value flag = tensor::ExtractOp::create(b, g.loc, source, at);
        auto branch = scf::IfOp::create(
            b, g.loc, flag,
            [&](OpBuilder &b, Location loc) {
              Value result = state[0];
              for (auto [d, index] : llvm::enumerate(at)) {
                Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index),
                      row = arith::ConstantIndexOp::create(b, loc, d);
                result = tensor::InsertOp::create(b, loc, number, result, ValueRange{row, state[1]});
              }
              Value next = arith::AddIOp::create(b, loc, state[1], arith::ConstantIndexOp::create(b, loc, 1));
              scf::YieldOp::create(b, loc, ValueRange{result, next});
            },
            [&](OpBuilder &b, Location loc) { scf::YieldOp::create(b, loc, state); });
        return {branch.getResult(0), branch.getResult(1)};
      });
  return g.wrap(done[0], OnnxType::Int64, dims);
}

void nonZero(NodeImport &n) {
  n.out(placesOfTrue(n.g, n.in(0)));
}

// What the condition marks along an axis, or of all elements in row-major order.
void compress(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0);
  if (!n.checkRank(1, 1, "condition"))
    return;
  int64_t axis = 0;
  if (n.hasAttribute("axis"))
    axis = n.axis(n.integer("axis", 0), x.rank());
  else
    x = g.reshape(x, {g.product(x.dims)});
  n.out(g.gather(x, g.squeeze(placesOfTrue(g, n.in(1)), {0}), axis));
}

// sum of x[j] for j <= i, j < i, j >= i or j > i: the sum over a triangle. Integers count positions of a sequence, and
// what they are is seen in this form; for long rows of floats it would be too slow.
GraphValue triangleSum(GraphBuilder &g, const GraphValue &x, int64_t axis, bool exclusive, bool reverse) {
  unsigned rank = unsigned(x.rank()), row = unsigned(axis);
  SmallVector<AffineExpr> from;
  for (unsigned i = 0; i < rank; ++i)
    from.push_back(g.b.getAffineDimExpr(i == row ? rank : i));
  AffineMap xMap = AffineMap::get(rank + 1, 0, from, g.b.getContext());
  AffineMap outMap = g.b.getMultiDimIdentityMap(rank + 1).getMajorSubMap(rank);
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
  iterators.push_back(utils::IteratorType::reduction);
  using P = arith::CmpIPredicate;
  P isIn = reverse ? (exclusive ? P::sgt : P::sge) : (exclusive ? P::slt : P::sle);
  Value zero = g.constant(x.type, 0);
  auto op =
      linalg::GenericOp::create(g.b, g.loc, g.tensorType(x.type, x.dims), g.tensor(x), g.filled(x.type, x.dims, zero),
                                {xMap, outMap}, iterators, [&](OpBuilder &b, Location loc, ValueRange v) {
                                  Value i = linalg::IndexOp::create(b, loc, row),
                                        j = linalg::IndexOp::create(b, loc, rank);
                                  Value inside = arith::CmpIOp::create(b, loc, isIn, j, i);
                                  Value term = arith::SelectOp::create(b, loc, inside, v[0], zero);
                                  Value sum = arith::AddIOp::create(b, loc, v[1], term);
                                  linalg::YieldOp::create(b, loc, sum);
                                });
  return g.wrap(op.getResult(0), x.type, x.dims);
}

// Each element from the one before it on the axis, of which only the indicators may be known. Row-major order visits
// that one first; in reverse both are counted from the end.
GraphValue runningTotal(GraphBuilder &g, const GraphValue &x, Reduction kind, const Dims &isAxis, bool exclusive,
                        bool reverse) {
  OnnxType wide = accumulatorOf(x.type);
  Value source = g.tensor(x), neutral = g.constant(wide, kind == Reduction::Product), zero = g.constantIndex(0);
  Type wideType = g.elementType(wide);
  SmallVector<Value> flags, lasts;
  for (auto [flag, dim] : llvm::zip_equal(isAxis, x.dims)) {
    flags.push_back(g.index(flag));
    lasts.push_back(g.index(dim - 1));
  }
  Value total = g.loopNest(
      x.dims, g.empty(wide, x.dims), [&](OpBuilder &b, ValueRange at, ValueRange state) -> SmallVector<Value> {
        Location loc = g.loc;
        auto flipped = [&](Value i, size_t d) -> Value {
          if (!reverse)
            return i;
          Value isLine = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, flags[d], zero);
          return arith::SelectOp::create(b, loc, isLine, arith::SubIOp::create(b, loc, lasts[d], i), i);
        };
        SmallVector<Value> place, before;
        Value position = zero;
        for (size_t d = 0; d < at.size(); ++d) {
          position = arith::AddIOp::create(b, loc, position, arith::MulIOp::create(b, loc, flags[d], at[d]));
          Value previous = arith::MaxSIOp::create(b, loc, arith::SubIOp::create(b, loc, at[d], flags[d]), zero);
          place.push_back(flipped(at[d], d));
          before.push_back(flipped(previous, d));
        }
        auto load = [&](Value tensor, ArrayRef<Value> where) -> Value {
          Value element = tensor::ExtractOp::create(b, loc, tensor, where);
          return element.getType() == wideType ? element : arith::ExtFOp::create(b, loc, wideType, element).getResult();
        };
        Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, position, zero);
        Value sum = arith::SelectOp::create(b, loc, isFirst, neutral, load(state[0], before));
        Value term = load(source, exclusive ? before : place);
        if (exclusive)
          term = arith::SelectOp::create(b, loc, isFirst, neutral, term);
        return {
            tensor::InsertOp::create(b, loc, GraphBuilder::combine(b, loc, kind, wide, sum, term), state[0], place)};
      })[0];
  return g.cast(g.wrap(total, wide, x.dims), x.type);
}

template <Reduction Kind> void cumulative(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  bool exclusive = n.integer("exclusive", 0) != 0, reverse = n.integer("reverse", 0) != 0;
  std::optional<RuntimeAxes> axes = RuntimeAxes::read(n, n.in(1), x.rank());
  if (!axes)
    return;
  if (axes->count() != 1)
    return (void)n.fail("axis has " + Twine(axes->count()) + " elements, expected 1");
  if (auto known = axes->constants(); known && Kind == Reduction::Sum && isInteger(x.type))
    return n.out(triangleSum(g, x, known->front(), exclusive, reverse));
  n.out(runningTotal(g, x, Kind, axes->members(), exclusive, reverse));
}

} // namespace

ArrayRef<OpRow> heddle::sortingOps() {
  static const OpRow table[] = {
      {"", "Compress", 9, compress},
      {"", "CumProd", 26, cumulative<Reduction::Product>},
      {"", "CumSum", 11, cumulative<Reduction::Sum>},
      {"", "NonZero", 9, nonZero},
      {"", "TopK", 1, topK},
  };
  return table;
}
