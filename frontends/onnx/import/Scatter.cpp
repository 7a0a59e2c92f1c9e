// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that write elements at computed places, one after the other: of equal places the last one wins, or all are
// combined.
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// What an update and the element it meets become; nothing: the update.
std::optional<Reduction> reductionOf(NodeImport &n) {
  std::string name = n.text("reduction", "none");
  static const std::pair<StringRef, Reduction> known[] = {
      {"add", Reduction::Sum}, {"mul", Reduction::Product}, {"max", Reduction::Max}, {"min", Reduction::Min}};
  for (auto [word, reduction] : known)
    if (name == word)
      return reduction;
  if (name != "none")
    n.fail("attribute 'reduction' is '" + name + "', expected none, add, mul, max or min");
  return std::nullopt;
}

using Place = function_ref<SmallVector<Value>(OpBuilder &b, ValueRange at)>;

// x with updates[at] written to place(at), for every index of updates in row-major order.
GraphValue scatter(NodeImport &n, const GraphValue &x, const GraphValue &updates, Place place) {
  GraphBuilder &g = n.g;
  std::optional<Reduction> reduction = reductionOf(n);
  if (!g.failed() && updates.type != x.type)
    n.fail("updates are of " + Twine(onnxTypeName(int32_t(updates.type))) + ", data of " +
           onnxTypeName(int32_t(x.type)));
  if (g.failed())
    return {};
  Value source = g.tensor(updates);
  Value result =
      g.loopNest(updates.dims, g.tensor(x), [&](OpBuilder &b, ValueRange at, ValueRange state) -> SmallVector<Value> {
        SmallVector<Value> to = place(b, at);
        Value update = tensor::ExtractOp::create(b, g.loc, source, at);
        if (reduction)
          update = GraphBuilder::combine(b, g.loc, *reduction, x.type,
                                         tensor::ExtractOp::create(b, g.loc, state[0], to), update);
        return {tensor::InsertOp::create(b, g.loc, update, state[0], to)};
      })[0];
  return g.wrap(result, x.type, x.dims);
}

bool sameDim(NodeImport &n, const Dim &a, const Dim &c, const Twine &what) {
  GraphBuilder &g = n.g;
  if (a == c)
    return true;
  if (a.isStatic() && c.isStatic()) {
    n.fail(what + ": " + Twine(a.value()) + " and " + Twine(c.value()));
    return false;
  }
  g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(a), g.index(c)), what);
  return true;
}

// out[indices[i, j], j] = updates[i, j] for axis 0
void scatterElements(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &indices = n.in(1), &updates = n.in(2);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  if (g.failed() || !n.checkRank(1, x.rank(), "indices") || !n.checkRank(2, x.rank(), "updates"))
    return;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!sameDim(n, indices.dims[i], updates.dims[i], "indices and updates have different shapes"))
      return;
    if (i != axis && !n.requireAtMost(indices.dims[i], x.dims[i],
                                      "dimension " + Twine(i) + " of indices is larger than that of data"))
      return;
  }
  GraphValue rows = g.checkedIndices(indices, x.dims[axis], "elements");
  if (g.failed())
    return;
  Value places = g.tensor(rows);
  n.out(scatter(n, x, updates, [&](OpBuilder &b, ValueRange at) {
    SmallVector<Value> to(at.begin(), at.end());
    to[axis] = g.indexAt(b, places, at);
    return to;
  }));
}

// Where a run of rows that known indices of one element number begins, one after the other; nothing for others.
std::optional<int64_t> firstOfRun(const GraphValue &indices, const Dim &rows) {
  bool isKnown = indices.content && indices.rank() == 2 && indices.dims[1].is(1) && !indices.content->empty();
  if (!isKnown || !rows.isStatic() || !(*indices.content)[0].isStatic())
    return std::nullopt;
  int64_t first = (*indices.content)[0].value(), count = int64_t(indices.content->size());
  for (int64_t i = 0; i < count; ++i)
    if (!(*indices.content)[i].is(first + i))
      return std::nullopt;
  bool isWithin = first >= 0 && first <= rows.value() - count;
  return isWithin ? std::optional(first) : std::nullopt;
}

// out[indices[i, 0], indices[i, 1], …] = updates[i, …]
void scatterNd(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0), &indices = n.in(1), &updates = n.in(2);
  if (g.failed())
    return;
  if (indices.rank() < 1 || !indices.dims.back().isStatic())
    return (void)n.fail("the last dimension of indices is not known");
  int64_t depth = indices.dims.back().value(), leading = indices.rank() - 1;
  if (depth > x.rank() || depth < 0)
    return (void)n.fail("indices of " + Twine(depth) + " elements, for data of rank " + Twine(x.rank()));
  if (!n.checkRank(2, leading + x.rank() - depth, "updates"))
    return;
  for (int64_t i = 0; i < updates.rank(); ++i)
    if (!sameDim(n, updates.dims[i], i < leading ? indices.dims[i] : x.dims[depth + i - leading],
                 "dimension " + Twine(i) + " of updates does not fit indices and data"))
      return;
  // Rows that are written whole, as a tensor is filled part by part, are a concatenation.
  if (std::optional<int64_t> first = firstOfRun(indices, x.dims[0]); first && n.text("reduction", "none") == "none") {
    int64_t count = int64_t(indices.content->size()), rows = x.dims[0].value();
    SmallVector<GraphValue> parts{g.slice(x, 0, 0, *first), updates,
                                  g.slice(x, 0, *first + count, rows - *first - count)};
    llvm::erase_if(parts, [](const GraphValue &part) { return part.dims[0].is(0); });
    return n.out(g.concat(parts, 0));
  }
  SmallVector<Value> columns;
  for (int64_t i = 0; i < depth; ++i) {
    GraphValue column = g.squeeze(g.slice(indices, leading, i, 1), {leading});
    columns.push_back(g.tensor(g.checkedIndices(column, x.dims[i], "rows")));
  }
  n.out(scatter(n, x, updates, [&](OpBuilder &b, ValueRange at) {
    SmallVector<Value> to;
    for (Value column : columns)
      to.push_back(g.indexAt(b, column, at.take_front(leading)));
    to.append(at.begin() + leading, at.end());
    return to;
  }));
}

// out[b, w[b] + i] = update[b, i] along the axis, elsewhere the past; places wrap around in mode circular.
void tensorScatter(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &past = n.in(0), &update = n.in(1);
  int64_t axis = n.axis(n.integer("axis", -2), past.rank());
  std::string mode = n.text("mode", "linear");
  if (g.failed() || !n.checkRank(1, past.rank(), "update"))
    return;
  if (axis == 0 || (mode != "linear" && mode != "circular") || past.type != update.type)
    return (void)n.fail("axis " + Twine(axis) + ", mode '" + mode +
                        "': expected an axis behind the batch, and linear or circular");
  for (int64_t i = 0; i < past.rank(); ++i)
    if (i != axis && !sameDim(n, past.dims[i], update.dims[i], "cache and update differ in dimension " + Twine(i)))
      return;
  if (!n.requireAtMost(update.dims[axis], past.dims[axis], "the update is longer than the cache"))
    return;
  Dim length = update.dims[axis], size = past.dims[axis];
  GraphValue first = n.has(2) ? g.cast(n.in(2), OnnxType::Int64) : g.full(OnnxType::Int64, {past.dims[0]}, 0);
  if (g.failed() || !n.checkRank(n.has(2) ? 2 : 0, n.has(2) ? 1 : past.rank(), "write_indices"))
    return;
  // Where each batch's update begins: one that leads out of the cache stops the run.
  GraphValue room = g.integers(OnnxType::Int64, {}, {mode == "linear" ? size - length + 1 : size});
  if (mode == "circular")
    first = g.modulo(first, room);
  GraphValue fits = g.logicalAnd(g.compare(Predicate::GreaterOrEqual, first, g.like(first, 0)),
                                 g.compare(Predicate::Less, first, room));
  g.require(g.toScalar(g.reduce(Reduction::And, fits, {0}, false)), "a write index leads out of the cache");
  if (g.failed())
    return;
  Value cache = g.tensor(past), source = g.tensor(update), begins = g.tensor(first), sizeValue = g.index(size),
        lengthValue = g.index(length);
  Value zero = g.constantIndex(0);
  n.out(g.generate(past.type, past.dims, [&](OpBuilder &b, ValueRange at) -> Value {
    Value rest = arith::SubIOp::create(b, g.loc, at[axis], g.indexAt(b, begins, at[0]));
    Value isBefore = arith::CmpIOp::create(b, g.loc, arith::CmpIPredicate::slt, rest, zero);
    Value wrapped = arith::AddIOp::create(b, g.loc, rest, sizeValue);
    Value place = arith::SelectOp::create(b, g.loc, isBefore, wrapped, rest);
    Value isNew = arith::CmpIOp::create(b, g.loc, arith::CmpIPredicate::slt, place, lengthValue);
    SmallVector<Value> from(at.begin(), at.end());
    // Read in both cases, so that the place must be one.
    from[axis] = arith::SelectOp::create(b, g.loc, isNew, place, zero);
    Value fresh = tensor::ExtractOp::create(b, g.loc, source, from),
          old = tensor::ExtractOp::create(b, g.loc, cache, at);
    return arith::SelectOp::create(b, g.loc, isNew, fresh, old);
  }));
}

} // namespace

ArrayRef<OpRow> heddle::scatterOps() {
  static const OpRow table[] = {
      {"", "Scatter", 9, scatterElements},
      {"", "ScatterElements", 11, scatterElements},
      {"", "ScatterND", 11, scatterNd},
      {"", "TensorScatter", 24, tensorScatter},
  };
  return table;
}
