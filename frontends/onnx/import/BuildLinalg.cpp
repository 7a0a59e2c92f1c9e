// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphBuilder.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

Value GraphBuilder::limit(OnnxType type, bool highest) {
  Type element = elementType(type);
  if (auto real = dyn_cast<FloatType>(element))
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(real, APFloat::getInf(real.getFloatSemantics(), !highest)));
  unsigned bits = element.getIntOrFloatBitWidth();
  APInt number = isUnsigned(type) ? (highest ? APInt::getMaxValue(bits) : APInt::getMinValue(bits))
                                  : (highest ? APInt::getSignedMaxValue(bits) : APInt::getSignedMinValue(bits));
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(element, number));
}

// --- contractions ---------------------------------------------------------------------------------------------------

// x with its dimensions in the order of `out`, which has all of its labels, and 1 for those that it lacks.
static GraphValue spreadOver(GraphBuilder &g, const GraphValue &x, ArrayRef<int64_t> labels, ArrayRef<int64_t> out) {
  SmallVector<int64_t> permutation;
  Dims dims;
  for (int64_t label : out) {
    size_t place = llvm::find(labels, label) - labels.begin();
    dims.push_back(place == labels.size() ? Dim(1) : x.dims[place]);
    if (place != labels.size())
      permutation.push_back(int64_t(place));
  }
  return g.reshape(g.transpose(x, permutation), dims);
}

// out = sum over the labels it lacks of x * y, accumulated in the accumulator's type.
GraphValue GraphBuilder::contract(const GraphValue &x, ArrayRef<int64_t> xLabels, const GraphValue &y,
                                  ArrayRef<int64_t> yLabels, ArrayRef<int64_t> out, OnnxType result) {
  if (failed())
    return {};
  auto isKept = [&](int64_t label) { return llvm::is_contained(out, label); };
  if (llvm::all_of(xLabels, isKept) && llvm::all_of(yLabels, isKept)) { // nothing is summed
    OnnxType wide = accumulatorOf(result);
    return cast(mul(spreadOver(*this, cast(x, wide), xLabels, out), spreadOver(*this, cast(y, wide), yLabels, out)),
                result);
  }
  // A dimension of 1 beside a larger one of the same label is dropped from its operand: the maps then need no constant.
  std::map<int64_t, Dim> sizes;
  SmallVector<int64_t> loops(out.begin(), out.end());
  auto meet = [&](const GraphValue &operand, ArrayRef<int64_t> labels) {
    for (auto [dim, label] : llvm::zip_equal(operand.dims, labels)) {
      auto [place, isNew] = sizes.try_emplace(label, dim);
      if (!llvm::is_contained(loops, label))
        loops.push_back(label);
      if (isNew || place->second == dim || dim.is(1))
        continue;
      if (place->second.is(1)) {
        place->second = dim;
      } else if (place->second.isStatic() && dim.isStatic()) {
        fail("dimensions " + Twine(place->second.value()) + " and " + Twine(dim.value()) + " do not fit");
      } else {
        require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index(place->second), index(dim)),
                "dimensions of a product do not fit");
        if (dim.isStatic())
          place->second = dim;
      }
    }
  };
  meet(x, xLabels);
  meet(y, yLabels);
  if (failed())
    return {};
  auto thin = [&](const GraphValue &operand, ArrayRef<int64_t> labels, AffineMap &map) -> Value {
    SmallVector<int64_t> units;
    SmallVector<AffineExpr> places;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (operand.dims[i].is(1) && !sizes[labels[i]].is(1))
        units.push_back(int64_t(i));
      else
        places.push_back(b.getAffineDimExpr(unsigned(llvm::find(loops, labels[i]) - loops.begin())));
    }
    map = AffineMap::get(unsigned(loops.size()), 0, places, b.getContext());
    Dims dims;
    GraphValue kept = squeeze(operand, units);
    for (size_t i = 0, next = 0; i < labels.size(); ++i)
      if (!llvm::is_contained(units, int64_t(i)))
        dims.push_back(sizes[labels[i]]), ++next;
    return tensor(wrap(tensor(kept), kept.type, dims));
  };
  AffineMap xMap, yMap;
  Value left = thin(x, xLabels, xMap), right = thin(y, yLabels, yMap);
  Dims dims;
  for (int64_t label : out)
    dims.push_back(sizes[label]);
  SmallVector<AffineExpr> outPlaces;
  for (unsigned i = 0; i < out.size(); ++i)
    outPlaces.push_back(b.getAffineDimExpr(i));
  AffineMap outMap = AffineMap::get(unsigned(loops.size()), 0, outPlaces, b.getContext());
  OnnxType accumulator = accumulatorOf(result);
  Value init = filled(accumulator, dims, constant(accumulator, 0));
  auto castAttr = isUnsigned(x.type) && !isFloat(x.type) ? linalg::TypeFn::cast_unsigned : linalg::TypeFn::cast_signed;
  auto op = linalg::ContractOp::create(b, loc, ValueRange{left, right}, ValueRange{init},
                                       b.getAffineMapArrayAttr({xMap, yMap, outMap}),
                                       {b.getNamedAttr("cast", linalg::TypeFnAttr::get(b.getContext(), castAttr))});
  return cast(wrap(op->getResult(0), accumulator, dims), result);
}

GraphValue GraphBuilder::matmul(const GraphValue &x, const GraphValue &y) {
  return matmul(x, y, x.type);
}

// As numpy.matmul: leading dimensions broadcast, a vector is a row on the left and a column on the right.
GraphValue GraphBuilder::matmul(const GraphValue &x, const GraphValue &y, OnnxType result) {
  if (failed())
    return {};
  if (x.rank() == 0 || y.rank() == 0)
    return fail("a product of a scalar, expected tensors of rank 1 or more");
  int64_t xBatch = std::max<int64_t>(x.rank() - 2, 0), yBatch = std::max<int64_t>(y.rank() - 2, 0);
  int64_t batch = std::max(xBatch, yBatch);
  constexpr int64_t m = 61, n = 62, k = 63;
  if (batch > 60)
    return fail("a product of tensors of rank " + Twine(batch + 2));
  SmallVector<int64_t> xLabels, yLabels, out = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  llvm::append_range(xLabels, llvm::seq<int64_t>(batch - xBatch, batch));
  llvm::append_range(yLabels, llvm::seq<int64_t>(batch - yBatch, batch));
  if (x.rank() > 1) {
    xLabels.push_back(m);
    out.push_back(m);
  }
  xLabels.push_back(k);
  yLabels.push_back(k);
  if (y.rank() > 1) {
    yLabels.push_back(n);
    out.push_back(n);
  }
  Dim left = x.dims.back(), right = y.dims[yBatch];
  if (left.isStatic() && right.isStatic() && left != right)
    return fail("inner dimensions " + Twine(left.value()) + " and " + Twine(right.value()) + " differ");
  // Batch dimensions that may or may not be 1 at run time are made equal first.
  GraphValue xs = x, ys = y;
  for (int64_t i = 0; i < std::min(xBatch, yBatch); ++i) {
    Dim &a = xs.dims[xBatch - 1 - i], &c = ys.dims[yBatch - 1 - i];
    if (a == c || a.is(1) || c.is(1) || (a.isStatic() && c.isStatic()))
      continue;
    std::optional<Dims> both =
        broadcastDims({GraphValue{x.type, {a}, Value(), nullptr}, GraphValue{y.type, {c}, Value(), nullptr}});
    Dims xDims = xs.dims, yDims = ys.dims;
    xDims[xBatch - 1 - i] = yDims[yBatch - 1 - i] = (*both)[0];
    xs = broadcast(xs, xDims);
    ys = broadcast(ys, yDims);
  }
  return contract(xs, xLabels, ys, yLabels, out, result);
}

// --- reductions -----------------------------------------------------------------------------------------------------

Value GraphBuilder::combine(OpBuilder &b, Location loc, Reduction kind, OnnxType type, Value x, Value y) {
  bool isReal = isFloat(type), isNatural = isUnsigned(type);
  switch (kind) {
  case Reduction::Sum:
    return isReal ? arith::AddFOp::create(b, loc, x, y).getResult() : arith::AddIOp::create(b, loc, x, y).getResult();
  case Reduction::Product:
    return isReal ? arith::MulFOp::create(b, loc, x, y).getResult() : arith::MulIOp::create(b, loc, x, y).getResult();
  case Reduction::Max:
    return isReal      ? arith::MaximumFOp::create(b, loc, x, y).getResult()
           : isNatural ? arith::MaxUIOp::create(b, loc, x, y).getResult()
                       : arith::MaxSIOp::create(b, loc, x, y).getResult();
  case Reduction::Min:
    return isReal      ? arith::MinimumFOp::create(b, loc, x, y).getResult()
           : isNatural ? arith::MinUIOp::create(b, loc, x, y).getResult()
                       : arith::MinSIOp::create(b, loc, x, y).getResult();
  case Reduction::And:
    return arith::AndIOp::create(b, loc, x, y);
  case Reduction::Or:
    return arith::OrIOp::create(b, loc, x, y);
  }
  return {};
}

Value GraphBuilder::neutral(Reduction kind, OnnxType type) {
  if (kind == Reduction::Max || kind == Reduction::Min)
    return limit(type, kind == Reduction::Min);
  return constant(type, kind == Reduction::Product || kind == Reduction::And);
}

GraphValue GraphBuilder::reduce(Reduction kind, const GraphValue &x, ArrayRef<int64_t> axes, bool keepDims) {
  if (failed())
    return {};
  if (axes.empty())
    return x;
  bool isSum = kind == Reduction::Sum || kind == Reduction::Product;
  GraphValue wide = isSum ? cast(x, accumulatorOf(x.type)) : x;
  Dims kept, ones;
  for (int64_t i = 0; i < x.rank(); ++i) {
    bool isReduced = llvm::is_contained(axes, i);
    ones.push_back(isReduced ? Dim(1) : x.dims[i]);
    if (!isReduced)
      kept.push_back(x.dims[i]);
  }
  Value start = neutral(kind, wide.type);
  SmallVector<int64_t> sorted(axes.begin(), axes.end());
  llvm::sort(sorted);
  auto op = linalg::ReduceOp::create(b, loc, ValueRange{tensor(wide)}, ValueRange{filled(wide.type, kept, start)},
                                     sorted, [&](OpBuilder &inner, Location at, ValueRange v) {
                                       Value both = combine(inner, at, kind, wide.type, v[0], v[1]);
                                       linalg::YieldOp::create(inner, at, both);
                                     });
  GraphValue result = cast(wrap(op.getResult(0), wide.type, kept), x.type);
  return keepDims ? reshape(result, ones) : result;
}

GraphValue GraphBuilder::mean(const GraphValue &x, ArrayRef<int64_t> axes, bool keepDims) {
  if (failed() || axes.empty())
    return x;
  Dim count(1);
  for (int64_t axis : axes)
    count = count * x.dims[axis];
  GraphValue wide = cast(x, accumulatorOf(x.type));
  GraphValue sum = reduce(Reduction::Sum, wide, axes, keepDims);
  if (!isFloat(x.type))
    return div(sum, cast(integers(OnnxType::Int64, {}, {count}), x.type));
  return cast(div(sum, cast(integers(OnnxType::Int64, {}, {count}), wide.type)), x.type);
}

GraphValue GraphBuilder::softmax(const GraphValue &x, int64_t axis) {
  GraphValue wide = cast(x, accumulatorOf(x.type));
  if (failed())
    return {};
  Value value = linalg::SoftmaxOp::create(b, loc, TypeRange{tensorType(wide.type, wide.dims)}, tensor(wide),
                                          empty(wide.type, wide.dims), uint64_t(axis))
                    .getResult()[0];
  return cast(wrap(value, wide.type, wide.dims), x.type);
}

// --- indices --------------------------------------------------------------------------------------------------------

GraphValue GraphBuilder::checkedIndices(const GraphValue &indices, const Dim &size, const Twine &what) {
  if (failed())
    return {};
  if (auto known = indices.integers(); known && size.isStatic()) {
    std::vector<Dim> content;
    for (int64_t number : *known) {
      if (number < -size.value() || number >= size.value())
        return fail("index " + Twine(number) + " is out of range of " + Twine(size.value()) + " " + what);
      content.push_back(Dim(number < 0 ? number + size.value() : number));
    }
    return integers(OnnxType::Int64, indices.dims, std::move(content));
  }
  GraphValue wide = cast(indices, OnnxType::Int64), limit = integers(OnnxType::Int64, {}, {size});
  if (wide.content && size.isStatic() == false) {
    // Sizes that count from the end, or a known small number: checked one by one.
    bool isPlain = llvm::all_of(*wide.content, [](const Dim &d) { return d.isStatic() && d.value() >= 0; });
    if (isPlain && wide.content->size() <= 4) {
      for (const Dim &element : *wide.content)
        require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index(element), index(size)),
                "an index is out of range of the " + what);
      return wide;
    }
  }
  GraphValue positive = select(compare(Predicate::Less, wide, like(wide, 0)), add(wide, limit), wide);
  GraphValue inside = logicalAnd(compare(Predicate::GreaterOrEqual, positive, like(positive, 0)),
                                 compare(Predicate::Less, positive, limit));
  GraphValue all = reduce(Reduction::And, inside, llvm::to_vector(llvm::seq<int64_t>(0, inside.rank())), false);
  if (failed())
    return {};
  require(toScalar(all), "an index is out of range of the " + what);
  return positive;
}

GraphValue GraphBuilder::gather(const GraphValue &x, const GraphValue &indices, int64_t axis) {
  if (failed())
    return {};
  GraphValue at = checkedIndices(indices, x.dims[axis], "rows");
  if (failed())
    return {};
  Dims dims(x.dims.begin(), x.dims.begin() + axis);
  dims.append(indices.dims);
  dims.append(x.dims.begin() + axis + 1, x.dims.end());
  if (auto known = at.integers(); known && x.content && x.rank() == 1) {
    std::vector<Dim> content;
    for (int64_t number : *known)
      content.push_back((*x.content)[number]);
    return integers(x.type, dims, std::move(content));
  }
  // One row is a slice.
  if (at.content && at.content->size() == 1)
    return reshape(slice(x, axis, at.content->front(), 1), dims);
  Value source = tensor(x), rows = tensor(at);
  return generate(x.type, dims, [&](OpBuilder &inner, ValueRange to) -> Value {
    Value row = tensor::ExtractOp::create(inner, loc, rows, to.slice(axis, indices.rank()));
    SmallVector<Value> from(to.begin(), to.begin() + axis);
    from.push_back(arith::IndexCastOp::create(inner, loc, inner.getIndexType(), row));
    from.append(to.begin() + axis + indices.rank(), to.end());
    return tensor::ExtractOp::create(inner, loc, source, from);
  });
}
