// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that read elements at computed places.
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

void gather(NodeImport &n) {
  const GraphValue &x = n.in(0), &indices = n.in(1);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  if (!n.g.failed())
    n.out(n.g.gather(x, indices, axis));
}

// out[i, j] = x[indices[i, j], j] for axis 0
void gatherElements(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &indices = n.in(1);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  if (g.failed() || !n.checkRank(1, x.rank(), "indices"))
    return;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis && !n.requireAtMost(indices.dims[i], x.dims[i],
                                      "dimension " + Twine(i) + " of indices is larger than that of data"))
      return;
  }
  GraphValue at = g.checkedIndices(indices, x.dims[axis], "elements");
  if (g.failed())
    return;
  Value source = g.tensor(x), rows = g.tensor(at);
  n.out(g.generate(x.type, indices.dims, [&](OpBuilder &b, ValueRange to) -> Value {
    SmallVector<Value> place(to.begin(), to.end());
    place[axis] = g.indexAt(b, rows, to);
    return tensor::ExtractOp::create(b, g.loc, source, place);
  }));
}

// out[b, i, …] = x[b, indices[b, i, 0], indices[b, i, 1], …, …], where b stands for batch_dims dimensions
void gatherNd(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &indices = n.in(1);
  int64_t batch = n.integer("batch_dims", 0);
  if (g.failed())
    return;
  if (indices.rank() < 1 || x.rank() < 1 || !indices.dims.back().isStatic())
    return (void)n.fail("the last dimension of indices is not known");
  int64_t depth = indices.dims.back().value();
  if (batch < 0 || batch >= std::min(x.rank(), indices.rank()) || depth < 1 || depth > x.rank() - batch)
    return (void)n.fail("indices of " + Twine(depth) + " elements after " + Twine(batch) +
                        " batch dimensions, for data of rank " + Twine(x.rank()));
  // One column of indices per dimension that they name.
  SmallVector<Value> columns;
  for (int64_t i = 0; i < depth; ++i) {
    GraphValue column = g.squeeze(g.slice(indices, indices.rank() - 1, i, 1), {indices.rank() - 1});
    columns.push_back(g.tensor(g.checkedIndices(column, x.dims[batch + i], "rows")));
  }
  if (g.failed())
    return;
  Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  int64_t leading = int64_t(dims.size());
  dims.append(x.dims.begin() + batch + depth, x.dims.end());
  Value source = g.tensor(x);
  n.out(g.generate(x.type, dims, [&](OpBuilder &b, ValueRange to) -> Value {
    SmallVector<Value> place(to.begin(), to.begin() + batch);
    for (Value column : columns)
      place.push_back(g.indexAt(b, column, to.take_front(leading)));
    place.append(to.begin() + leading, to.end());
    return tensor::ExtractOp::create(b, g.loc, source, place);
  }));
}

// The first lengths[b] elements of each sequence backwards, the rest as it is.
void reverseSequence(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t time = n.integer("time_axis", 0), batch = n.integer("batch_axis", 1);
  if (!n.checkRank(1, 1, "sequence_lens"))
    return;
  if (x.rank() < 2 || std::min(time, batch) != 0 || std::max(time, batch) != 1)
    return (void)n.fail("time_axis and batch_axis must be 0 and 1, of an input of rank 2 or more");
  GraphValue lengths = g.cast(n.in(1), OnnxType::Int64), at = g.unsqueeze(g.iota(OnnxType::Int64, x.dims[time]), {1});
  GraphValue last = g.sub(lengths, g.like(lengths, 1));
  GraphValue from = g.select(g.compare(Predicate::Less, at, lengths), g.sub(last, at), at);
  Value places = g.tensor(g.checkedIndices(from, x.dims[time], "elements")); // (time, batch)
  Value source = g.tensor(x);
  if (g.failed())
    return;
  n.out(g.generate(x.type, x.dims, [&](OpBuilder &b, ValueRange to) -> Value {
    SmallVector<Value> place(to);
    place[time] = g.indexAt(b, places, {to[time], to[batch]});
    return tensor::ExtractOp::create(b, g.loc, source, place);
  }));
}

// max(ceil((limit - start) / delta), 0) numbers from start in steps of delta
void range(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &start = n.in(0), &limit = n.in(1), &delta = n.in(2);
  if (g.failed())
    return;
  if (start.type != limit.type || start.type != delta.type || start.rank() > 1 || limit.rank() > 1 || delta.rank() > 1)
    return (void)n.fail("start, limit and delta are no scalars of one type");
  std::optional<double> step = g.constantNumber(delta);
  if (step && *step == 0)
    return (void)n.fail("delta is 0");
  GraphValue s = g.reshape(start, {}), d = g.reshape(delta, {}), l = g.reshape(limit, {});
  Dim length;
  if (isFloat(start.type)) {
    OnnxType wide = start.type == OnnxType::Double ? OnnxType::Double : OnnxType::Float;
    GraphValue count = g.div(g.sub(g.cast(l, wide), g.cast(s, wide)), g.cast(d, wide));
    GraphValue up = g.neg(g.floor(g.neg(count)));
    length = g.maxOf(g.toDim(g.cast(up, OnnxType::Int64)), 0);
  } else {
    Dim from = g.toDim(s), to = g.toDim(l), by = step ? Dim(int64_t(*step)) : g.toDim(d);
    if (by.isStatic() && by.value() < 0)
      length = g.maxOf(g.floorDiv(from - to + Dim(-by.value() - 1), Dim(-by.value())), 0);
    else if (by.isStatic())
      length = g.maxOf(g.floorDiv(to - from + Dim(by.value() - 1), by), 0);
    else
      length = g.maxOf(g.dimOf(arith::CeilDivSIOp::create(g.b, g.loc, g.index(to - from), g.index(by))), 0);
    if (!by.isStatic())
      g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::ne, g.index(by), g.constantIndex(0)),
                "the step of a range is 0");
  }
  if (g.failed())
    return;
  OnnxType wide = accumulatorOf(start.type);
  GraphValue count = g.iota(wide, length);
  GraphValue steps = step && *step == 1 ? count : g.mul(count, g.cast(d, wide));
  bool startsAtZero = g.constantNumber(start).value_or(1) == 0;
  n.out(g.cast(startsAtZero ? steps : g.add(g.cast(s, wide), steps), start.type));
}

// x where column - row <= k (lower) or >= k (upper), 0 elsewhere
void trilu(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  if (g.failed())
    return;
  if (x.rank() < 2)
    return (void)n.fail("input 0 has rank " + Twine(x.rank()) + ", expected at least 2");
  bool upper = n.integer("upper", 1) != 0;
  GraphValue k = n.has(1) ? g.reshape(n.in(1), {}) : g.integers(OnnxType::Int64, {}, {Dim(0)});
  GraphValue rows = g.unsqueeze(g.iota(OnnxType::Int64, x.dims[x.rank() - 2]), {1});
  GraphValue columns = g.unsqueeze(g.iota(OnnxType::Int64, x.dims[x.rank() - 1]), {0});
  GraphValue kept = g.compare(upper ? Predicate::GreaterOrEqual : Predicate::LessOrEqual, columns, g.add(rows, k));
  n.out(g.select(kept, x, g.like(x, 0)));
}

// 1 (values[1]) where the index is the position on the new axis, 0 (values[0]) elsewhere, as for an index out of range
void oneHot(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &indices = n.in(0), &values = n.in(2);
  if (g.failed())
    return;
  Dim depth = g.toDim(g.cast(n.in(1), OnnxType::Int64));
  int64_t axis = n.axis(n.integer("axis", -1), indices.rank() + 1);
  if (g.failed() || !n.checkRank(2, 1, "values"))
    return;
  GraphValue at = g.cast(indices, OnnxType::Int64), count = g.integers(OnnxType::Int64, {}, {depth});
  at = g.unsqueeze(g.select(g.compare(Predicate::Less, at, g.like(at, 0)), g.add(at, count), at), {axis});
  Dims line(indices.rank() + 1, Dim(1));
  line[axis] = depth;
  GraphValue hot = g.compare(Predicate::Equal, at, g.reshape(g.iota(OnnxType::Int64, depth), line));
  GraphValue off = g.reshape(g.slice(values, 0, 0, 1), {}), on = g.reshape(g.slice(values, 0, 1, 1), {});
  n.out(g.select(hot, on, off));
}

void eyeLike(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  if (!n.checkRank(0, 2, "input"))
    return;
  OnnxType type = OnnxType(n.integer("dtype", int64_t(x.type)));
  if (onnxTypeBits(type) < 8)
    return (void)n.unsupported("of " + Twine(onnxTypeName(int32_t(type))) + " is not supported");
  GraphValue rows = g.unsqueeze(g.iota(OnnxType::Int64, x.dims[0]), {1}), columns = g.iota(OnnxType::Int64, x.dims[1]);
  GraphValue shifted = g.add(rows, g.integers(OnnxType::Int64, {}, {Dim(n.integer("k", 0))}));
  n.out(g.cast(g.compare(Predicate::Equal, columns, shifted), type));
}

} // namespace

ArrayRef<OpRow> heddle::indexingOps() {
  static const OpRow table[] = {
      {"", "EyeLike", 9, eyeLike},
      {"", "Gather", 1, gather},
      {"", "GatherElements", 11, gatherElements},
      {"", "GatherND", 11, gatherNd},
      {"", "OneHot", 9, oneHot},
      {"", "Range", 11, range},
      {"", "ReverseSequence", 10, reverseSequence},
      {"", "Trilu", 14, trilu},
  };
  return table;
}
