// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/SeparateHeads.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Weights.h"
#include "dialect/HeddleDialect.h"

using namespace mlir;
using namespace heddle;

namespace {
// Which columns of a matmul's result heads are: runs of them, where each begins and how long it is. A run holds whole heads.
struct HeadColumns {
  LinearOp linear;
  SmallVector<std::pair<int64_t, int64_t>> runs;
  int64_t width = 0, heads = 0;
  bool behindRows = false; // (batch, sequence, heads, width) instead of (batch, heads, sequence, width)
};
} // namespace

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// `heads` as columns of one matmul of (batch, sequence, …), if axis `headAxis` says which head it is, 1 or 2, and the other one the place in the
// sequence; nothing where they are none, or lie side by side.
static std::optional<HeadColumns> columnsOf(Value heads, unsigned headAxis) {
  ExprContext exprs;
  ElementTrace layout(exprs, TraceDepth::Layout);
  RankedTensorType type = shaped(heads);
  if (type.getRank() != 4 || type.isDynamicDim(headAxis) || type.isDynamicDim(3) || type.getDimSize(headAxis) < 2 ||
      type.getDimSize(3) < 2)
    return std::nullopt;
  HeadColumns found;
  found.width = type.getDimSize(3);
  found.behindRows = headAxis == 2;
  SmallVector<Expr> at = layout.indexSymbols(heads);
  for (int64_t head = 0; head < type.getDimSize(headAxis); ++head) {
    at[headAxis] = exprs.constant(double(head));
    Expr element = layout.element(heads, at);
    auto linear = element->kind == ExprKind::Leaf ? element->value.getDefiningOp<LinearOp>() : LinearOp();
    if (!linear || linear.getWeights().size() != 1 || element->arguments.size() != 3 ||
        element->arguments[0] != at[0] || element->arguments[1] != at[3 - headAxis] ||
        (found.linear && linear != found.linear))
      return std::nullopt;
    Expr begin = exprs.sub(element->arguments[2], at[3]);
    if (!begin->isConstant())
      return std::nullopt;
    found.linear = linear;
    if (!found.runs.empty() && found.runs.back().first + found.runs.back().second == int64_t(begin->constant))
      found.runs.back().second += found.width;
    else
      found.runs.push_back({int64_t(begin->constant), found.width});
    ++found.heads;
  }
  return found.runs.size() > 1 ? std::optional(found) : std::nullopt;
}

// Rows [begin, begin + count) of a stored matrix; null if its file has them in no one piece.
static Value rowsOf(OpBuilder &b, Value matrix, int64_t begin, int64_t count) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  auto axis = [&](int64_t number, int64_t extent) {
    Expr size = exprs.constant(double(extent));
    return Axis{exprs.symbol(number, size), size};
  };
  Axis row = axis(0, count), column = axis(1, shaped(matrix).getDimSize(1));
  Expr place = exprs.add(row.index, exprs.constant(double(begin)));
  Expr element = trace.element(matrix, {place, column.index});
  return element->kind == ExprKind::Leaf ? storedPart(b, element, row, column) : Value();
}

// Elements [begin, begin + count) of a stored vector of floats; null if it is none.
static Value elementsOf(OpBuilder &b, Value vector, int64_t begin, int64_t count) {
  ExprContext exprs;
  Expr size = exprs.constant(double(count));
  Axis axis{exprs.symbol(0, size), size};
  return storedVectorPart(b, exprs.leaf(vector, {exprs.add(axis.index, exprs.constant(double(begin)))}), axis);
}

// The heads from a matmul with their rows alone; null if the rows cannot be had.
static Value separated(const HeadColumns &columns) {
  LinearOp linear = columns.linear;
  OpBuilder b(linear);
  Location loc = linear.getLoc();
  SmallVector<Value> weights, biases;
  for (auto [begin, count] : columns.runs) {
    weights.push_back(rowsOf(b, linear.getWeights()[0], begin, count));
    if (!linear.getBiases().empty())
      biases.push_back(elementsOf(b, linear.getBiases()[0], begin, count));
  }
  if (llvm::is_contained(weights, Value()) || llvm::is_contained(biases, Value()))
    return {};
  b.setInsertionPointAfter(linear);
  SmallVector<int64_t> shape(shaped(linear).getShape());
  shape[2] = columns.heads * columns.width;
  Value rows = LinearOp::create(b, loc, shaped(linear).clone(shape), linear.getInput(), weights, biases);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, rows);
  sizes[2] = b.getIndexAttr(columns.heads);
  sizes.push_back(b.getIndexAttr(columns.width));
  auto apart =
      RankedTensorType::get({shape[0], shape[1], columns.heads, columns.width}, shaped(linear).getElementType());
  SmallVector<ReassociationIndices> groups{{0}, {1}, {2, 3}};
  Value split = tensor::ExpandShapeOp::create(b, loc, apart, rows, groups, sizes);
  if (columns.behindRows)
    return split;
  std::swap(sizes[1], sizes[2]);
  Value init = tensor::EmptyOp::create(b, loc, sizes, apart.getElementType());
  return linalg::TransposeOp::create(b, loc, split, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
}

// Where heads are read that their rotation and their norm, which keep them apart, give to an attention.
static OpOperand *readOfHeads(OpOperand *use) {
  auto isOfHeads = [](Operation *op) { return isa_and_nonnull<RopeOp, RmsNormOp, LayerNormOp>(op); };
  for (;;) {
    Operation *op = use->get().getDefiningOp();
    auto transpose = dyn_cast_or_null<linalg::TransposeOp>(op);
    if (!isOfHeads(op) && !(transpose && isOfHeads(transpose.getInput().getDefiningOp())))
      return use;
    use = &op->getOpOperand(0);
  }
}

void heddle::separateHeads(func::FuncOp graph) {
  SmallVector<OpOperand *> uses;
  for (AttentionOp attention : graph.getOps<AttentionOp>()) {
    if (attention.getKey()
            .getDefiningOp<tensor::ConcatOp>()) // latent attention, of which the optimize stage knows the parts
      continue;
    for (unsigned i : {0u, 1u, 2u})
      uses.push_back(readOfHeads(&attention->getOpOperand(i)));
  }
  for (OpOperand *use : uses)
    for (unsigned headAxis : {1u, 2u})
      if (std::optional<HeadColumns> columns = columnsOf(use->get(), headAxis))
        if (Value heads = separated(*columns); heads && heads.getType() == use->get().getType())
          use->set(heads);
}
