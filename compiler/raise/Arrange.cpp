// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Arrange.h"

#include "dialect/Transposed.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static OpFoldResult sizeOf(OpBuilder &b, Location loc, Expr extent) {
  if (extent->isConstant())
    return b.getIndexAttr((int64_t)extent->constant);
  return emitIndex(b, loc, extent, DenseMap<Expr, Value>());
}

static int64_t staticSize(Expr extent) {
  return extent->isConstant() ? (int64_t)extent->constant : ShapedType::kDynamic;
}

//===- ops ----------------------------------------------------------------===//

static Value slice(OpBuilder &b, Location loc, Value source, ArrayRef<OpFoldResult> offsets,
                   ArrayRef<OpFoldResult> sizes, ArrayRef<OpFoldResult> strides) {
  return tensor::ExtractSliceOp::create(b, loc, source, offsets, sizes, strides);
}

static Value expanded(OpBuilder &b, Location loc, Value source, ArrayRef<ReassociationIndices> groups,
                      ArrayRef<OpFoldResult> sizes) {
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes)
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  return tensor::ExpandShapeOp::create(b, loc, shaped(source).clone(shape), source, groups, sizes);
}

//===- arrange ------------------------------------------------------------===//

namespace {
// An axis within a dimension of the source: index = ... + factor * axis + ...
struct Part {
  int64_t axis;
  Expr factor;
};

struct Arranger {
  OpBuilder &b;
  Location loc;
  ExprContext &exprs;
  ArrayRef<Axis> axes;
  std::string &reason;

  // The axes in `index`, outermost first, and its constant.
  bool split(Expr index, SmallVectorImpl<Part> &parts, int64_t &offset);
  Value run(Value source, ArrayRef<Expr> indices, bool keepUnit);
  Value place(Value source, SmallVector<int64_t> order, bool keepUnit);
};
} // namespace

bool Arranger::split(Expr index, SmallVectorImpl<Part> &parts, int64_t &offset) {
  offset = (int64_t)constantOf(index);
  for (auto &[term, factor] : termsOf(index)) {
    Part part{-1, exprs.constant(factor)};
    for (auto &[base, exponent] : factorsOf(term)) {
      auto found = llvm::find_if(axes, [&, base = base](const Axis &axis) { return axis.index == base; });
      if (found != axes.end() && exponent == 1 && part.axis < 0)
        part.axis = found - axes.begin();
      else if (base->kind == ExprKind::Size && exponent == 1)
        part.factor = exprs.mul(part.factor, base);
      else
        return reason = "an index is no sum of its axes", false;
    }
    if (part.axis < 0 || constantOf(part.factor) < 0)
      return reason = "an index is no sum of its axes", false;
    parts.push_back(part);
  }
  // A symbolic factor is a size, which a constant one lies within.
  llvm::stable_sort(parts, [](const Part &x, const Part &y) {
    if (!x.factor->isConstant() || !y.factor->isConstant())
      return !x.factor->isConstant() && y.factor->isConstant();
    return x.factor->constant > y.factor->constant;
  });
  return true;
}

Value Arranger::run(Value source, ArrayRef<Expr> indices, bool keepUnit) {
  int64_t rank = indices.size();
  SmallVector<SmallVector<Part>> parts(rank);
  SmallVector<int64_t> offsets(rank);
  llvm::SmallDenseSet<int64_t> used;
  for (int64_t d = 0; d < rank; ++d) {
    if (!split(indices[d], parts[d], offsets[d]))
      return {};
    for (Part &part : parts[d])
      if (!used.insert(part.axis).second)
        return reason = "an axis appears twice", Value();
  }
  // Slice whole groups of a dimension, then split it into its axes, then, these in their order, slice within the groups: parts of a
  // head are slices of one transposed tensor.
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source), begin, length, step, split;
  DenseMap<int64_t, std::pair<int64_t, Expr>> within; // of an axis: where it begins and its extent
  SmallVector<ReassociationIndices> groups(rank);
  SmallVector<int64_t> order; // axis of each split dimension, -1: none
  bool slices = false, splits = false;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t offset = offsets[d];
    begin.push_back(b.getIndexAttr(0));
    length.push_back(sizes[d]);
    step.push_back(b.getIndexAttr(1));
    int64_t whole = shaped(source).getDimSize(d);
    if (parts[d].size() <= 1) {
      Expr extent = parts[d].empty() ? exprs.constant(1) : axes[parts[d][0].axis].extent;
      int64_t stride = 1;
      if (!parts[d].empty()) {
        if (!parts[d][0].factor->isConstant())
          return reason = "a stride is dynamic", Value();
        stride = (int64_t)parts[d][0].factor->constant;
      }
      bool isWhole = offset == 0 && stride == 1 && (parts[d].empty() ? whole == 1 : staticSize(extent) == whole);
      if (!isWhole) {
        slices = true;
        begin.back() = b.getIndexAttr(offset);
        length.back() = sizeOf(b, loc, extent);
        step.back() = b.getIndexAttr(stride);
      }
      groups[d].push_back(split.size());
      split.push_back(length.back());
      order.push_back(parts[d].empty() ? -1 : parts[d][0].axis);
      continue;
    }
    splits = true;
    for (auto [p, part] : llvm::enumerate(parts[d])) {
      Expr extent = axes[part.axis].extent;
      // How many values fit between this factor and the one outside of it.
      Expr capacity = extent;
      int64_t digit = 0;
      if (part.factor->isConstant()) {
        digit = offset / (int64_t)part.factor->constant;
        offset %= (int64_t)part.factor->constant;
      }
      if (p > 0)
        capacity = exprs.div(parts[d][p - 1].factor, part.factor);
      bool isLast = p + 1 == parts[d].size();
      if (!capacity->isInteger || (isLast && !part.factor->isConstant(1)) ||
          exprs.isNotBelowZero(exprs.sub(capacity, exprs.add(extent, exprs.constant(p ? digit : 0)))) != true)
        return reason = "axes overlap in an index", Value();
      groups[d].push_back(split.size());
      order.push_back(part.axis);
      split.push_back(sizeOf(b, loc, capacity));
      if (p > 0 && (digit || capacity != extent))
        within[part.axis] = {digit, extent};
      if (p == 0) {
        Expr covered = exprs.mul(extent, part.factor);
        if (digit || staticSize(covered) != whole) {
          slices |= !ShapedType::isDynamic(whole) || digit;
          begin.back() = b.getIndexAttr(digit * (part.factor->isConstant() ? (int64_t)part.factor->constant : 0));
          length.back() = sizeOf(b, loc, covered);
        }
      }
    }
  }
  if (slices)
    source = slice(b, loc, source, begin, length, step);
  if (splits)
    source = expanded(b, loc, source, groups, split);
  source = place(source, order, keepUnit);
  if (within.empty())
    return source;
  SmallVector<OpFoldResult> innerLength = tensor::getMixedSizes(b, loc, source),
                            innerBegin(axes.size(), b.getIndexAttr(0));
  for (auto &[axis, part] : within) {
    innerBegin[axis] = b.getIndexAttr(part.first);
    innerLength[axis] = sizeOf(b, loc, part.second);
  }
  return slice(b, loc, source, innerBegin, innerLength, SmallVector<OpFoldResult>(axes.size(), b.getIndexAttr(1)));
}

// `source`, whose dimensions are the axes `order`, with all axes in their order.
Value Arranger::place(Value source, SmallVector<int64_t> order, bool keepUnit) {
  // Axes that are not there take dimensions of size 1 first, in order.
  SmallVector<int64_t> missing;
  for (int64_t a = 0; a < (int64_t)axes.size(); ++a)
    if (!llvm::is_contained(order, a))
      missing.push_back(a);
  SmallVector<int64_t> repeated;
  for (int64_t axis : missing) {
    auto unit = llvm::find(order, -1);
    bool isUnit = axes[axis].extent->isConstant(1) || keepUnit;
    if (isUnit && unit != order.end())
      *unit = axis;
    else
      repeated.push_back(axis);
  }
  // What is left of size 1 goes away.
  if (llvm::is_contained(order, -1)) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source);
    SmallVector<OpFoldResult> begin(sizes.size(), b.getIndexAttr(0)), step(sizes.size(), b.getIndexAttr(1));
    SmallVector<int64_t> kept, shape;
    for (auto [d, axis] : llvm::enumerate(order))
      if (axis >= 0) {
        kept.push_back(axis);
        shape.push_back(shaped(source).getDimSize(d));
      }
    source = tensor::ExtractSliceOp::create(b, loc, shaped(source).clone(shape), source, begin, sizes, step);
    order = kept;
  }
  // Rows as one head, in the form in which checkpoints split rows into several.
  bool isOneHead = axes.size() == 4 && ArrayRef(repeated) == ArrayRef<int64_t>{1} && axes[1].extent->isConstant(1) &&
                   order.back() == 3;
  if (isOneHead) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source);
    sizes.insert(sizes.end() - 1, b.getIndexAttr(1));
    source = expanded(b, loc, source, {{0}, {1}, {2, 3}}, sizes);
    order.insert(order.end() - 1, 1);
    repeated.clear();
  }
  SmallVector<int64_t> permutation(llvm::to_vector(llvm::seq<int64_t>(0, order.size())));
  llvm::sort(permutation, [&](int64_t x, int64_t y) { return order[x] < order[y]; });
  source = transposed(b, loc, source, permutation);
  if (repeated.empty())
    return source;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, source);
  for (int64_t axis : repeated)
    sizes.insert(sizes.begin() + axis, keepUnit ? OpFoldResult(b.getIndexAttr(1)) : sizeOf(b, loc, axes[axis].extent));
  Value init = tensor::EmptyOp::create(b, loc, sizes, shaped(source).getElementType());
  return linalg::BroadcastOp::create(b, loc, source, init, repeated).getResult()[0];
}

Value heddle::arrange(OpBuilder &b, Location loc, ExprContext &exprs, Value source, ArrayRef<Expr> indices,
                      ArrayRef<Axis> axes, std::string &reason, bool keepUnit) {
  return Arranger{b, loc, exprs, axes, reason}.run(source, indices, keepUnit);
}

Value heddle::arrangeAs(OpBuilder &b, Location loc, ExprContext &exprs, Value source, ArrayRef<Axis> axes,
                        ArrayRef<Expr> outputs, RankedTensorType type, std::string &reason) {
  Arranger arranger{b, loc, exprs, axes, reason};
  SmallVector<int64_t> permutation;
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> unitAxes;
  for (auto [a, axis] : llvm::enumerate(axes))
    if (axis.index->isConstant())
      unitAxes.push_back(a);
  for (Expr output : outputs) {
    SmallVector<Part> parts;
    int64_t offset;
    if (!arranger.split(output, parts, offset) || offset)
      return reason = "an index of the result is no sum of its axes", Value();
    Expr inner = exprs.constant(1);
    for (Part &part : llvm::reverse(parts)) {
      if (part.factor != inner)
        return reason = "an index of the result has gaps", Value();
      inner = exprs.mul(inner, axes[part.axis].extent);
    }
    groups.emplace_back();
    for (Part &part : parts) {
      groups.back().push_back(permutation.size());
      permutation.push_back(part.axis);
    }
    if (parts.empty() && !unitAxes.empty()) {
      groups.back().push_back(permutation.size());
      permutation.push_back(unitAxes.front());
      unitAxes.erase(unitAxes.begin());
    }
  }
  // Axes of size 1 that the result does not name join the next dimension that is there.
  for (int64_t axis : llvm::reverse(unitAxes)) {
    auto group = llvm::find_if(groups, [](const ReassociationIndices &group) { return !group.empty(); });
    if (group == groups.end())
      return reason = "the result has no dimensions", Value();
    permutation.insert(permutation.begin(), axis);
    for (ReassociationIndices &other : groups)
      for (int64_t &d : other)
        ++d;
    group->insert(group->begin(), 0);
  }
  SmallVector<int64_t> seen(permutation);
  llvm::sort(seen);
  if (!llvm::equal(seen, llvm::seq<int64_t>(0, axes.size())))
    return reason = "the result does not name every axis once", Value();
  Value result = transposed(b, loc, source, permutation);
  if (llvm::any_of(groups, [](const ReassociationIndices &group) { return group.empty(); }))
    return reason = "the result has a dimension of size 1 that no axis has", Value();
  if (groups.size() != axes.size()) {
    auto collapsed = tensor::CollapseShapeOp::create(b, loc, result, groups);
    result = collapsed;
  }
  if (result.getType() != type)
    result = tensor::CastOp::create(b, loc, type, result);
  return result;
}
