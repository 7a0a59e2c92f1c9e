// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/Convolution.h"
#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Weights.h"

namespace heddle {
#define GEN_PASS_DEF_RAISELINEAR
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===- linear -------------------------------------------------------------===//

// The loops that an operand's dimensions are, or nothing if its map computes.
static std::optional<SmallVector<unsigned>> loopsOf(linalg::LinalgOp op, OpOperand *operand) {
  SmallVector<unsigned> loops;
  for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim)
      return std::nullopt;
    loops.push_back(dim.getPosition());
  }
  return loops;
}

static bool isZero(Value init) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  return trace.element(init, trace.indexSymbols(init))->isConstant(0);
}

// `input` without the collapse_shape of its leading dimensions, which the result is collapsed by instead: what works on rows does not
// care how they are counted.
static Value uncollapsed(OpBuilder &b, Value input, std::optional<SmallVector<ReassociationIndices>> &groups) {
  auto collapse = input.getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse)
    return input;
  SmallVector<ReassociationIndices> all = collapse.getReassociationIndices();
  bool joinsRows =
      llvm::any_of(ArrayRef(all).drop_back(), [](const ReassociationIndices &group) { return group.size() > 1; });
  if (!joinsRows)
    return input;
  ReassociationIndices columns = all.back();
  Value source = collapse.getSrc();
  int64_t leading = columns.front();
  if (columns.size() > 1) { // only the columns are joined before the product
    SmallVector<ReassociationIndices> apart;
    for (int64_t d = 0; d < leading; ++d)
      apart.push_back({d});
    apart.push_back(columns);
    source = tensor::CollapseShapeOp::create(b, collapse.getLoc(), source, apart);
  }
  all.back() = {leading};
  groups = all;
  return source;
}

// The expand_shape that gives rows dimensions of size 1, which the result gets instead; null where there is none.
static tensor::ExpandShapeOp unitRows(Value input) {
  auto expand = input.getDefiningOp<tensor::ExpandShapeOp>();
  if (!expand || expand.getSrcType().getRank() < 3 || expand.getReassociationIndices().back().size() != 1)
    return {};
  bool addsUnits = llvm::all_of(expand.getReassociationIndices(), [&](const ReassociationIndices &group) {
    return llvm::count_if(group, [&](int64_t d) { return expand.getType().getDimSize(d) != 1; }) <= 1;
  });
  return addsUnits ? expand : tensor::ExpandShapeOp();
}

static LinearOp createLinear(OpBuilder &b, Location loc, Value input, Value weight, Value bias) {
  SmallVector<int64_t> shape(shaped(input).getShape());
  shape.back() = shaped(weight).getDimSize(0);
  SmallVector<Value> biases;
  if (bias)
    biases.push_back(bias);
  return LinearOp::create(b, loc, shaped(input).clone(shape), input, ValueRange{weight}, biases);
}

// The stored matrix whose element [row, column] is `element`, or that part of a stored tensor: projections of queries, keys and values in one
// (torch.nn.MultiheadAttention). Null for others.
static Value storedOperand(OpBuilder &b, Expr element, Expr row, Expr column) {
  if (Value whole = storedMatrix(b, element, row, column))
    return whole;
  bool isPart = element->kind == ExprKind::Leaf && row->kind == ExprKind::Symbol && column->kind == ExprKind::Symbol;
  return isPart ? storedPart(b, element, {row, row->extent}, {column, column->extent}) : Value();
}

// `rows` of 16-bit floats as f32, which holds each of them.
static Value widenedRows(OpBuilder &b, Location loc, Value rows) {
  RankedTensorType type = shaped(rows);
  return type.getElementType().isF32() ? rows : arith::ExtFOp::create(b, loc, type.clone(b.getF32Type()), rows);
}

// x W with a stored W, whichever way it lies and whatever broadcasts it. A product of 16-bit floats sums in f32 as well.
static bool raiseMatmul(linalg::LinalgOp op) {
  if (op.getNumDpsInputs() != 2 || !shaped(op->getResult(0)).getElementType().isF32())
    return false;
  OpBuilder b(op);
  for (unsigned weightOperand : {1u, 0u}) {
    OpOperand *rows = op.getDpsInputOperand(1 - weightOperand), *matrix = op.getDpsInputOperand(weightOperand);
    auto in = loopsOf(op, rows), stored = loopsOf(op, matrix), out = loopsOf(op, op.getDpsInitOperand(0));
    Type number = shaped(rows->get()).getElementType();
    if (!in || !stored || !out || in->empty() || in->size() != out->size() ||
        !(number.isF32() || number.isF16() || number.isBF16()))
      continue;
    // Same leading dimensions; the last is contracted and replaced by the matrix's own.
    if (ArrayRef(*in).drop_back() != ArrayRef(*out).drop_back())
      continue;
    ExprContext exprs;
    ElementTrace layout(exprs, TraceDepth::Layout);
    DenseMap<unsigned, Expr> symbols;
    for (auto [d, loop] : llvm::enumerate(*stored))
      symbols[loop] = exprs.symbol(loop, layout.size(matrix->get(), d));
    SmallVector<Expr> indices;
    for (unsigned loop : *stored)
      indices.push_back(symbols[loop]);
    Expr row = symbols.lookup(out->back()), column = symbols.lookup(in->back());
    if (!row || !column)
      continue;
    Value weight = storedOperand(b, layout.element(matrix->get(), indices), row, column);
    if (!weight)
      continue;
    std::optional<SmallVector<ReassociationIndices>> groups;
    tensor::ExpandShapeOp units = unitRows(rows->get());
    Value input = units ? units.getSrc() : uncollapsed(b, rows->get(), groups);
    Value result = createLinear(b, op.getLoc(), widenedRows(b, op.getLoc(), input), weight, Value());
    Value init = op.getDpsInitOperand(0)->get();
    if (units) {
      SmallVector<OpFoldResult> sizes = units.getMixedOutputShape();
      SmallVector<int64_t> shape(units.getType().getShape());
      shape.back() = shaped(weight).getDimSize(0);
      sizes.back() = b.getIndexAttr(shape.back());
      result = tensor::ExpandShapeOp::create(b, op.getLoc(), shaped(result).clone(shape), result,
                                             units.getReassociationIndices(), sizes);
    }
    if (groups)
      result = tensor::CollapseShapeOp::create(b, op.getLoc(), result, *groups);
    if (result.getType() != op->getResult(0).getType())
      result = tensor::CastOp::create(b, op.getLoc(), op->getResult(0).getType(), result);
    if (!isZero(init))
      result = arith::AddFOp::create(b, op.getLoc(), result, init);
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
    return true;
  }
  return false;
}

// The linear op behind a collapse_shape of its leading dimensions.
static LinearOp linearBehind(Value value) {
  if (auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
      collapse && collapse.getReassociationIndices().back().size() == 1 && collapse->hasOneUse())
    value = collapse.getSrc();
  return value.getDefiningOp<LinearOp>();
}

// The linear op behind `product` with `other`, a stored vector along the last dimension, as its bias; null if one is none of these.
static Value withBias(OpBuilder &b, Value product, Value other) {
  LinearOp linear = linearBehind(product);
  if (!linear || !linear.getBiases().empty() || !product.hasOneUse() || !linear->hasOneUse())
    return {};
  ExprContext exprs;
  ElementTrace layout(exprs, TraceDepth::Layout);
  SmallVector<Expr> symbols = layout.indexSymbols(other);
  Value bias =
      storedVectorPart(b, layout.element(other, symbols), {symbols.back(), layout.size(other, symbols.size() - 1)});
  if (!bias)
    return {};
  Value result = createLinear(b, linear.getLoc(), linear.getInput(), linear.getWeights()[0], bias);
  if (product != linear.getResult()) {
    auto collapse = cast<tensor::CollapseShapeOp>(product.getDefiningOp());
    result = tensor::CollapseShapeOp::create(b, collapse.getLoc(), result, collapse.getReassociationIndices());
  }
  if (result.getType() != product.getType())
    result = tensor::CastOp::create(b, linear.getLoc(), product.getType(), result);
  return result;
}

// linear + a stored vector, or (residual + linear) + a stored vector, as exporters that fuse a norm with its sum write it.
static bool raiseBias(arith::AddFOp add) {
  OpBuilder b(add);
  for (unsigned side : {0u, 1u}) {
    Value sum = add->getOperand(side), other = add->getOperand(1 - side), result = withBias(b, sum, other);
    if (auto inner = sum.getDefiningOp<arith::AddFOp>(); !result && inner && inner->hasOneUse())
      for (unsigned part : {1u, 0u})
        if (Value biased = result ? Value() : withBias(b, inner->getOperand(part), other))
          result = arith::AddFOp::create(b, inner.getLoc(), inner->getOperand(1 - part), biased);
    if (!result)
      continue;
    add.replaceAllUsesWith(result);
    add.erase();
    return true;
  }
  return false;
}

//===- embedding ----------------------------------------------------------===//

// The row of `table` that `element` is at each end of its decisions; null if an end is something else.
static Expr rowOf(ExprContext &exprs, Expr element, Expr column, Value &table) {
  if (element->kind == ExprKind::Choice) {
    Expr high = rowOf(exprs, element->high(), column, table), low = rowOf(exprs, element->low(), column, table);
    if (!high || !low)
      return nullptr;
    return exprs.select(exprs.condition(element->atom()), high, low);
  }
  if (element->kind != ExprKind::Leaf || element->arguments.size() != 2 || element->arguments[1] != column ||
      !element->value.getDefiningOp<WeightOp>() || (table && table != element->value))
    return nullptr;
  table = element->value;
  return element->arguments[0];
}

// Whether elements are computed with others of their kind: what was looked up alone is none of these.
static bool computesFloats(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool isFloat = isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(inner) ||
                       inner->getDialect()->getNamespace() == "math";
        return isFloat ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

// A gather of a stored table's rows.
static bool raiseGather(Operation *op) {
  RankedTensorType type =
      op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  if (!type || !type.getElementType().isF32() || type.getRank() < 2 || computesFloats(op))
    return false;
  ExprContext exprs;
  ElementTrace trace(exprs);
  SmallVector<Expr> symbols = trace.indexSymbols(op->getResult(0));
  Expr column = symbols.pop_back_val();
  Value table;
  Expr row = rowOf(
      exprs, trace.element(op->getResult(0), llvm::to_vector(llvm::concat<Expr>(symbols, SmallVector<Expr>{column}))),
      column, table);
  if (!row || !table || row->isConstant() || column->kind != ExprKind::Symbol ||
      shaped(table).getDimSize(1) != type.getShape().back())
    return false;
  bool isLookup = llvm::any_of(symbols, [&](Expr symbol) { return exprs.contains(row, symbol); });
  if (!isLookup)
    return false;
  SmallVector<Axis> axes;
  for (auto [d, symbol] : llvm::enumerate(symbols))
    axes.push_back({symbol, trace.size(op->getResult(0), d)});
  OpBuilder b(op);
  Value ids = emitIntegers(b, op->getLoc(), exprs, row, axes);
  if (!ids)
    return false;
  SmallVector<int64_t> shape(shaped(ids).getShape());
  shape.push_back(type.getShape().back());
  Value result = EmbeddingOp::create(b, op->getLoc(), type.clone(shape), ids, table, b.getF64FloatAttr(1.0));
  if (result.getType() != type)
    result = tensor::CastOp::create(b, op->getLoc(), type, result);
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}

// A constant factor on an embedding is its scale.
static void raiseScale(arith::MulFOp mul) {
  for (unsigned side : {0u, 1u}) {
    auto embedding = mul->getOperand(side).getDefiningOp<EmbeddingOp>();
    if (!embedding || !embedding->hasOneUse() || embedding.getScale().convertToDouble() != 1)
      continue;
    ExprContext exprs;
    ElementTrace trace(exprs);
    Expr factor = trace.element(mul->getOperand(1 - side), trace.indexSymbols(mul->getOperand(1 - side)));
    if (!factor->isConstant())
      continue;
    embedding.setScaleAttr(FloatAttr::get(Float64Type::get(mul.getContext()), factor->constant));
    mul.replaceAllUsesWith(embedding.getResult());
    mul.erase();
    return;
  }
}

namespace {
struct RaiseLinear : heddle::impl::RaiseLinearBase<RaiseLinear> {
  template <typename Op> SmallVector<Op> all() {
    SmallVector<Op> ops;
    getOperation().walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
  void runInStage() override {
    for (linalg::LinalgOp op : all<linalg::LinalgOp>())
      if (isContraction(op))
        raiseMatmul(op);
    for (linalg::GenericOp op : all<linalg::GenericOp>())
      if (op.getNumDpsInits() == 1 && op.getNumReductionLoops() > 0 && isZero(op.getDpsInits()[0]))
        raiseConvolution(op);
    for (linalg::GenericOp op : all<linalg::GenericOp>())
      raiseGather(op);
    eraseDeadOps(getOperation());
    for (arith::AddFOp op : all<arith::AddFOp>())
      raiseBias(op);
    for (arith::MulFOp op : all<arith::MulFOp>())
      raiseScale(op);
    eraseDeadOps(getOperation());
    foldIdentityLayouts(getOperation());
  }
};
} // namespace
