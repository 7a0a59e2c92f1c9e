// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphBuilder.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

static std::string rankText(const GraphValue &x) {
  return "rank " + std::to_string(x.rank());
}

Dim GraphBuilder::product(ArrayRef<Dim> dims) {
  Dim result(1);
  for (const Dim &dim : dims)
    result = result * dim;
  return result;
}

// --- broadcasting ---------------------------------------------------------------------------------------------------

// The dimension that a and c broadcast to. Where nothing proves that they are equal or 1, the run checks it.
static std::optional<Dim> broadcastDim(GraphBuilder &g, const Dim &a, const Dim &c) {
  if (a == c || c.is(1))
    return a;
  if (a.is(1))
    return c;
  if (a.isStatic() && c.isStatic()) {
    g.fail("dimensions " + Twine(a.value()) + " and " + Twine(c.value()) + " do not broadcast");
    return std::nullopt;
  }
  OpBuilder &b = g.b;
  Value left = g.index(a), right = g.index(c), one = g.constantIndex(1);
  auto equal = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, g.loc, arith::CmpIPredicate::eq, x, y);
  };
  std::optional<int64_t> ofLeft = g.clampOf(a, c), ofRight = ofLeft ? std::nullopt : g.clampOf(c, a);
  if (ofLeft || ofRight) {
    if (ofLeft != 1 && ofRight != 1) // min(size, 1) is 1, or size is 0
      g.require(equal(left, right), "dimensions that are neither equal nor 1 do not broadcast");
    return ofLeft ? c : a;
  }
  for (bool first : {true, false}) // the first row of a tensor: where there is none, nothing is broadcast with it
    if (g.isFirstOf(first ? a : c)) {
      Value isThere = equal(first ? left : right, one);
      g.require(arith::OrIOp::create(b, g.loc, isThere, equal(first ? right : left, g.constantIndex(0))),
                "the first element of an empty dimension is broadcast");
      return first ? c : a;
    }
  Value isLeftOne = equal(left, one);
  Value fits =
      arith::OrIOp::create(b, g.loc, equal(left, right), arith::OrIOp::create(b, g.loc, isLeftOne, equal(right, one)));
  g.require(fits, "dimensions that are neither equal nor 1 do not broadcast");
  // Of a number above 1 and an unknown size the result is the number: the other one equals it, or is 1.
  if (a.isStatic())
    return a;
  if (c.isStatic())
    return c;
  return g.dimOf(arith::SelectOp::create(b, g.loc, isLeftOne, right, left));
}

std::optional<Dims> GraphBuilder::broadcastDims(ArrayRef<GraphValue> operands) {
  Dims dims;
  for (const GraphValue &operand : operands) {
    if (failed() || !operand)
      return std::nullopt;
    if (operand.rank() > int64_t(dims.size()))
      dims.insert(dims.begin(), operand.rank() - dims.size(), Dim(1));
  }
  for (const GraphValue &operand : operands) {
    size_t missing = dims.size() - operand.dims.size();
    for (size_t i = 0; i < operand.dims.size(); ++i) {
      std::optional<Dim> both = broadcastDim(*this, dims[missing + i], operand.dims[i]);
      if (!both)
        return std::nullopt;
      dims[missing + i] = *both;
    }
  }
  return dims;
}

// Reads index 0 of every dimension of x that turns out to be 1.
GraphValue GraphBuilder::guardedBroadcast(const GraphValue &x, ArrayRef<Dim> dims) {
  Value source = tensor(x);
  size_t missing = dims.size() - x.dims.size();
  enum class Reads { Itself, First, Either };
  SmallVector<std::pair<Reads, Value>> reads; // and where either: whether it is the first
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const Dim &dim = dims[missing + i];
    if (x.dims[i] == dim || clampOf(x.dims[i], dim).value_or(0) > 1)
      reads.push_back({Reads::Itself, Value()});
    else if (isFirstOf(x.dims[i]))
      reads.push_back({Reads::First, Value()});
    else
      reads.push_back(
          {Reads::Either, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index(x.dims[i]), constantIndex(1))});
  }
  return generate(x.type, dims, [&](OpBuilder &inner, ValueRange at) -> Value {
    SmallVector<Value> from;
    Value zero = arith::ConstantIndexOp::create(inner, loc, 0);
    for (auto [read, place] : llvm::zip_equal(reads, at.drop_front(missing)))
      from.push_back(read.first == Reads::Itself  ? place
                     : read.first == Reads::First ? zero
                                                  : arith::SelectOp::create(inner, loc, read.second, zero, place));
    return tensor::ExtractOp::create(inner, loc, source, from);
  });
}

GraphValue GraphBuilder::broadcast(const GraphValue &x, ArrayRef<Dim> dims) {
  if (failed() || ArrayRef<Dim>(x.dims) == dims)
    return x;
  if (isImpossible(dims))
    return fail("the result's size is negative or too large");
  if (x.rank() > int64_t(dims.size()))
    return fail("a tensor of " + rankText(x) + " does not broadcast to rank " + Twine(dims.size()));
  size_t missing = dims.size() - x.dims.size();
  if (x.content) {
    auto source = [&](ArrayRef<int64_t> at) {
      int64_t from = 0;
      for (size_t i = 0; i < x.dims.size(); ++i)
        from = from * x.dims[i].value() + (x.dims[i].is(1) ? 0 : at[missing + i]);
      return from;
    };
    if (GraphValue folded = foldShape(x, dims, source))
      return folded;
  }
  DenseElementsAttr attr;
  Value value = tensor(x);
  if (matchPattern(value, m_Constant(&attr)) && attr.isSplat()) {
    RankedTensorType type = tensorType(x.type, dims);
    Value scalar = arith::ConstantOp::create(b, loc, attr.getSplatValue<TypedAttr>());
    return type.hasStaticShape() ? wrap(arith::ConstantOp::create(b, loc, attr.resizeSplat(type)), x.type, dims)
                                 : wrap(filled(x.type, dims, scalar), x.type, dims);
  }
  SmallVector<int64_t> units, added;
  for (size_t i = 0; i < missing; ++i)
    added.push_back(int64_t(i));
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] == dims[missing + i] || clampOf(x.dims[i], dims[missing + i]).value_or(0) > 1)
      continue;
    if (!x.dims[i].is(1))
      return guardedBroadcast(x, dims);
    units.push_back(int64_t(i));
    added.push_back(int64_t(missing + i));
  }
  if (added.empty())
    return wrap(value, x.type, dims);
  Value thin = tensor(squeeze(x, units));
  return wrap(linalg::BroadcastOp::create(b, loc, thin, empty(x.type, dims), added).getResult()[0], x.type, dims);
}

int64_t GraphBuilder::offsetIn(const GraphValue &x, ArrayRef<int64_t> place) {
  int64_t offset = 0;
  for (auto [dim, index] : llvm::zip_equal(x.dims, place))
    offset = offset * dim.value() + index;
  return offset;
}

GraphValue GraphBuilder::foldShape(const GraphValue &x, ArrayRef<Dim> dims,
                                   function_ref<int64_t(ArrayRef<int64_t>)> source) {
  Dim total = product(dims);
  if (!x.content || !x.isStatic() || !llvm::all_of(dims, [](const Dim &dim) { return dim.isStatic(); }) ||
      total.value() > 1024)
    return {};
  std::vector<Dim> content;
  SmallVector<int64_t> at(dims.size(), 0);
  for (int64_t i = 0; i < total.value(); ++i) {
    content.push_back((*x.content)[source(at)]);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d].value())
        break;
      at[d] = 0;
    }
  }
  return integers(x.type, dims, std::move(content));
}

// --- reshapes -------------------------------------------------------------------------------------------------------

// Splits both shapes into the shortest runs of equal product. The total products are equal, so that what one shape has
// left at the end are ones, which join the last run.
static bool matchRuns(ArrayRef<Dim> from, ArrayRef<Dim> to, SmallVectorImpl<std::pair<size_t, size_t>> &ends) {
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    Dim left(1);
    bool isFound = false;
    for (size_t endI = i + 1; endI <= from.size() && !isFound; ++endI) {
      left = left * from[endI - 1];
      Dim right(1);
      for (size_t endJ = j + 1; endJ <= to.size() && !isFound; ++endJ) {
        right = right * to[endJ - 1];
        isFound = left == right;
        if (isFound)
          ends.push_back({endI, endJ});
      }
    }
    if (!isFound)
      return false;
    std::tie(i, j) = ends.back();
  }
  ends.back() = {from.size(), to.size()};
  return true;
}

GraphValue GraphBuilder::reshape(const GraphValue &x, ArrayRef<Dim> dims) {
  if (failed() || ArrayRef<Dim>(x.dims) == dims)
    return x;
  Dim from = product(x.dims), to = product(dims);
  if (from != to && from.isStatic() && to.isStatic())
    return fail("a tensor of " + Twine(from.value()) + " elements cannot be reshaped to " + Twine(to.value()));
  if (x.content)
    return {x.type, Dims(dims), Value(), x.content};
  SmallVector<std::pair<size_t, size_t>> ends;
  bool hasZero = llvm::any_of(dims, [](const Dim &dim) { return dim.is(0); });
  if (from != to || hasZero || x.rank() == 0 || dims.empty() || !matchRuns(x.dims, dims, ends)) {
    if (from == to && !hasZero && x.rank() == 0)
      return wrap(tensor::ExpandShapeOp::create(b, loc, tensorType(x.type, dims), tensor(x),
                                                ArrayRef<ReassociationIndices>{}, sizes(dims)),
                  x.type, dims);
    if (from == to && !hasZero && dims.empty())
      return wrap(
          tensor::CollapseShapeOp::create(b, loc, tensorType(x.type, {}), tensor(x), ArrayRef<ReassociationIndices>{}),
          x.type, dims);
    if (from != to)
      require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index(from), index(to)),
              "a reshape changes the number of elements");
    SmallVector<Value> shape;
    for (const Dim &dim : dims)
      shape.push_back(index(dim));
    Value shapeTensor =
        tensor::FromElementsOp::create(b, loc, RankedTensorType::get({int64_t(dims.size())}, b.getIndexType()), shape);
    return wrap(tensor::ReshapeOp::create(b, loc, tensorType(x.type, dims), tensor(x), shapeTensor), x.type, dims);
  }
  // x -> one dimension per run -> dims
  Dims middle;
  SmallVector<ReassociationIndices> collapse, expand;
  size_t i = 0, j = 0;
  for (auto [endI, endJ] : ends) {
    middle.push_back(product(ArrayRef<Dim>(x.dims).slice(i, endI - i)));
    collapse.emplace_back(llvm::to_vector(llvm::seq<int64_t>(i, endI)));
    expand.emplace_back(llvm::to_vector(llvm::seq<int64_t>(j, endJ)));
    i = endI;
    j = endJ;
  }
  Value value = tensor(x);
  if (middle.size() != x.dims.size())
    value = tensor::CollapseShapeOp::create(b, loc, tensorType(x.type, middle), value, collapse);
  if (middle.size() != dims.size())
    value = tensor::ExpandShapeOp::create(b, loc, tensorType(x.type, dims), value, expand, sizes(dims));
  return wrap(value, x.type, dims);
}

GraphValue GraphBuilder::squeeze(const GraphValue &x, ArrayRef<int64_t> axes) {
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!llvm::is_contained(axes, i))
      dims.push_back(x.dims[i]);
  return reshape(x, dims);
}

GraphValue GraphBuilder::unsqueeze(const GraphValue &x, ArrayRef<int64_t> axes) {
  Dims dims;
  size_t rank = x.dims.size() + axes.size(), next = 0;
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(llvm::is_contained(axes, int64_t(i)) || next == x.dims.size() ? Dim(1) : x.dims[next++]);
  return reshape(x, dims);
}

GraphValue GraphBuilder::flatten(const GraphValue &x, int64_t axis) {
  ArrayRef<Dim> dims = x.dims;
  return reshape(x, {product(dims.take_front(axis)), product(dims.drop_front(axis))});
}

GraphValue GraphBuilder::transpose(const GraphValue &x, ArrayRef<int64_t> permutation) {
  if (failed() || llvm::equal(permutation, llvm::seq<int64_t>(0, x.rank())))
    return x;
  Dims dims;
  for (int64_t axis : permutation)
    dims.push_back(x.dims[axis]);
  auto source = [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t> place(at.size());
    for (auto [i, axis] : llvm::enumerate(permutation))
      place[axis] = at[i];
    return offsetIn(x, place);
  };
  if (GraphValue folded = foldShape(x, dims, source))
    return folded;
  return wrap(linalg::TransposeOp::create(b, loc, tensor(x), empty(x.type, dims), permutation).getResult()[0], x.type,
              dims);
}

// --- parts ----------------------------------------------------------------------------------------------------------

GraphValue GraphBuilder::slice(const GraphValue &x, int64_t axis, const Dim &begin, const Dim &length) {
  if (failed() || (begin.is(0) && length == x.dims[axis]))
    return x;
  Dims dims = x.dims;
  dims[axis] = length;
  if (x.content && begin.isStatic()) {
    auto source = [&](ArrayRef<int64_t> at) {
      SmallVector<int64_t> place(at);
      place[axis] += begin.value();
      return offsetIn(x, place);
    };
    if (GraphValue folded = foldShape(x, dims, source))
      return folded;
  }
  // Of nothing even the first place is out of range.
  if (length.is(0) || x.dims[axis].is(0))
    return wrap(empty(x.type, dims), x.type, dims);
  SmallVector<OpFoldResult> offsets(x.dims.size(), b.getIndexAttr(0)), strides(x.dims.size(), b.getIndexAttr(1));
  offsets[axis] = size(begin);
  return wrap(tensor::ExtractSliceOp::create(b, loc, tensor(x), offsets, sizes(dims), strides), x.type, dims);
}

GraphValue GraphBuilder::concat(ArrayRef<GraphValue> given, int64_t axis) {
  if (failed())
    return {};
  // Nothing adds nothing, be it keys of no earlier tokens.
  SmallVector<GraphValue> parts;
  for (const GraphValue &part : given)
    if (part.rank() != given[0].rank() || !part.dims[axis].is(0) || given.size() == 1)
      parts.push_back(part);
  if (parts.empty())
    return given[0];
  if (parts.size() == 1)
    return parts[0];
  // One number of a shape that is not known leaves the others known.
  bool isShape = parts[0].rank() == 1 && parts[0].type == OnnxType::Int64 &&
                 llvm::any_of(parts, [](const GraphValue &part) { return !!part.content; });
  for (GraphValue &part : parts)
    if (isShape && !part.content && part.type == OnnxType::Int64 && part.rank() == 1 && part.dims[0].is(1))
      part = vectorOf({toDim(part)});
  Dims dims = parts[0].dims;
  bool isKnown = parts[0].rank() == 1 && !!parts[0].content;
  for (const GraphValue &part : ArrayRef(parts).drop_front()) {
    if (part.rank() != parts[0].rank())
      return fail("inputs of " + rankText(parts[0]) + " and " + rankText(part) + ", expected the same rank");
    for (size_t i = 0; i < dims.size(); ++i) {
      if (int64_t(i) == axis)
        dims[i] = dims[i] + part.dims[i];
      else if (dims[i].isStatic() && part.dims[i].isStatic() && dims[i] != part.dims[i])
        return fail("dimension " + Twine(i) + " is " + Twine(dims[i].value()) + " and " + Twine(part.dims[i].value()) +
                    ", expected the same in every input");
      else if (dims[i] != part.dims[i]) {
        require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index(dims[i]), index(part.dims[i])),
                "inputs of a concatenation have different shapes");
        dims[i] = dims[i].isStatic() ? dims[i] : part.dims[i];
      }
    }
    isKnown &= !!part.content;
  }
  if (isKnown) {
    std::vector<Dim> content;
    for (const GraphValue &part : parts)
      content.insert(content.end(), part.content->begin(), part.content->end());
    return integers(parts[0].type, dims, std::move(content));
  }
  SmallVector<Value> tensors;
  for (const GraphValue &part : parts) {
    Dims partDims = dims;
    partDims[axis] = part.dims[axis];
    tensors.push_back(tensor(wrap(tensor(part), part.type, partDims)));
  }
  return wrap(tensor::ConcatOp::create(b, loc, axis, tensors), parts[0].type, dims);
}

GraphValue GraphBuilder::pad(const GraphValue &x, ArrayRef<Dim> low, ArrayRef<Dim> high, Value scalar) {
  if (failed())
    return {};
  Dims dims;
  bool isEmpty = true;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    dims.push_back(x.dims[i] + low[i] + high[i]);
    isEmpty &= low[i].is(0) && high[i].is(0);
  }
  if (isEmpty)
    return x;
  if (isImpossible(dims))
    return fail("the result's size is negative or too large");
  Value padded = tensor::PadOp::create(b, loc, tensorType(x.type, dims), tensor(x), sizes(low), sizes(high), scalar);
  return wrap(padded, x.type, dims);
}

GraphValue GraphBuilder::generate(OnnxType type, ArrayRef<Dim> dims,
                                  function_ref<Value(OpBuilder &, ValueRange)> body) {
  if (failed())
    return {};
  if (isImpossible(dims))
    return fail("the result's size is negative or too large");
  RankedTensorType shaped = tensorType(type, dims);
  auto identity = b.getMultiDimIdentityMap(dims.size());
  SmallVector<utils::IteratorType> parallel(dims.size(), utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(b, loc, shaped, ValueRange{}, empty(type, dims), identity, parallel,
                                      [&](OpBuilder &inner, Location, ValueRange) {
                                        SmallVector<Value> at;
                                        for (size_t i = 0; i < dims.size(); ++i)
                                          at.push_back(linalg::IndexOp::create(inner, loc, i));
                                        Value element = body(inner, at);
                                        linalg::YieldOp::create(inner, loc, element);
                                      });
  return wrap(op.getResult(0), type, dims);
}

SmallVector<Value> GraphBuilder::loopNest(ArrayRef<Dim> dims, ValueRange state,
                                          function_ref<SmallVector<Value>(OpBuilder &, ValueRange, ValueRange)> body) {
  SmallVector<Value> sizes, zeros(dims.size(), constantIndex(0)), ones(dims.size(), constantIndex(1));
  for (const Dim &dim : dims)
    sizes.push_back(index(dim));
  if (dims.empty())
    return body(b, {}, state);
  scf::LoopNest nest = scf::buildLoopNest(
      b, loc, zeros, sizes, ones, state,
      [&](OpBuilder &inner, Location, ValueRange at, ValueRange old) { return body(inner, at, old); });
  return llvm::to_vector(llvm::map_range(nest.results, [](Value value) { return value; }));
}

SmallVector<GraphValue>
GraphBuilder::loop(const Dim &count, ArrayRef<GraphValue> state,
                   function_ref<SmallVector<GraphValue>(const Dim &, ArrayRef<GraphValue>)> body) {
  if (failed())
    return {};
  SmallVector<Value> inits = llvm::map_to_vector(state, [&](const GraphValue &x) { return tensor(x); });
  auto forOp = scf::ForOp::create(b, loc, constantIndex(0), index(count), constantIndex(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Scope scope = enter();
  SmallVector<GraphValue> old;
  for (auto [x, argument] : llvm::zip_equal(state, forOp.getRegionIterArgs()))
    old.push_back({x.type, x.dims, argument, nullptr});
  SmallVector<GraphValue> next = body(dimOf(forOp.getInductionVar()), old);
  SmallVector<Value> yielded;
  for (auto [x, result] : llvm::zip(state, next))
    if (!failed())
      yielded.push_back(tensor(wrap(tensor(result), x.type, x.dims)));
  if (failed())
    return {};
  scf::YieldOp::create(b, loc, yielded);
  leave(scope);
  SmallVector<GraphValue> last;
  for (auto [x, result] : llvm::zip_equal(state, forOp.getResults()))
    last.push_back({x.type, x.dims, result, nullptr});
  return last;
}

GraphValue GraphBuilder::insertSlice(const GraphValue &x, const GraphValue &part, int64_t axis, const Dim &begin) {
  if (failed())
    return {};
  SmallVector<OpFoldResult> offsets(x.dims.size(), b.getIndexAttr(0)), strides(x.dims.size(), b.getIndexAttr(1));
  offsets[axis] = size(begin);
  return wrap(tensor::InsertSliceOp::create(b, loc, tensor(part), tensor(x), offsets, sizes(part.dims), strides),
              x.type, x.dims);
}

Value GraphBuilder::indexAt(OpBuilder &inner, Value tensor, ValueRange at) {
  return arith::IndexCastOp::create(inner, loc, inner.getIndexType(),
                                    tensor::ExtractOp::create(inner, loc, tensor, at));
}

GraphValue GraphBuilder::iota(OnnxType type, const Dim &length) {
  if (length.isStatic() && length.value() <= 64 && !isFloat(type)) {
    std::vector<Dim> content;
    content.reserve(size_t(length.value()));
    for (int64_t i = 0; i < length.value(); ++i)
      content.push_back(Dim(i));
    return integers(type, {length}, std::move(content));
  }
  return generate(type, {length}, [&](OpBuilder &inner, ValueRange at) -> Value {
    Type element = elementType(type);
    if (!isFloat(type))
      return arith::IndexCastOp::create(inner, loc, element, at[0]);
    Value number = arith::IndexCastOp::create(inner, loc, inner.getI64Type(), at[0]);
    return arith::SIToFPOp::create(inner, loc, element, number);
  });
}
