// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TilingInterface of the ops of which a slice of the result needs slices of the operands only. Loops are the leading dimensions
// of the result, all parallel; the dimensions behind them (a width that is normalised, a head that is rotated) are never cut.

#include "dialect/HeddleDialect.h"
#include "dialect/Norms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType resultType(Operation *op) {
  return cast<RankedTensorType>(op->getResult(0).getType());
}

// How many leading dimensions of the result are loops.
static int64_t numLoops(Operation *op) {
  int64_t rank = resultType(op).getRank();
  return TypeSwitch<Operation *, int64_t>(op)
      .Case<GluOp, SoftcapOp>([&](auto) { return rank; })                  // element by element
      .Case([&](MoeOp moe) { return rank - (moe.getCapacity() ? 2 : 1); }) // sequence by sequence
      .Default([&](auto) { return rank - 1; });                            // row by row
}

// Whether a norm's weight has numbers for each of the heads that loop 1 walks.
static bool isNormPerHead(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<RmsNormOp, LayerNormOp>([](auto norm) { return isPerHead(norm); })
      .Default(false);
}

// The loop that walks this dimension of this operand; none: the dimension is read whole.
static std::optional<int64_t> loopOf(Operation *op, unsigned operand, int64_t dim) {
  if (operand > 0 && isNormPerHead(op))
    return 1;
  bool isPositions = isa<RopeOp>(op) && operand == 1; // (batch, sequence) of loops batch, heads, sequence
  if (isPositions)
    return dim == 0 ? 0 : 2;
  auto moe = dyn_cast<MoeOp>(op);
  bool isRouted = moe && op->getOperand(operand) == moe.getRouterInput();
  bool followsResult = operand == 0 || isRouted || isa<GluOp>(op);
  return followsResult && dim < numLoops(op) ? std::optional<int64_t>(dim) : std::nullopt;
}

static SmallVector<Range> iterationDomain(Operation *op, OpBuilder &b) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op->getLoc(), op->getOperand(0));
  SmallVector<Range> domain;
  for (OpFoldResult size : ArrayRef(sizes).take_front(numLoops(op)))
    domain.push_back({b.getIndexAttr(0), size, b.getIndexAttr(1)});
  return domain;
}

static OpFoldResult times(OpBuilder &b, Location loc, OpFoldResult x, int64_t factor) {
  if (factor == 1)
    return x;
  if (std::optional<int64_t> constant = getConstantIntValue(x))
    return b.getIndexAttr(*constant * factor);
  return arith::MulIOp::create(b, loc, cast<Value>(x), arith::ConstantIndexOp::create(b, loc, factor)).getResult();
}

// What a tile reads of an operand; the operand itself where that is all of it.
static Value operandTile(OpBuilder &b, Operation *op, OpOperand &operand, ArrayRef<OpFoldResult> offsets,
                         ArrayRef<OpFoldResult> sizes) {
  Value whole = operand.get();
  int64_t rank = cast<RankedTensorType>(whole.getType()).getRank();
  SmallVector<OpFoldResult> begin(rank, b.getIndexAttr(0)), extent = tensor::getMixedSizes(b, op->getLoc(), whole);
  bool isCut = false;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (std::optional<int64_t> loop = loopOf(op, operand.getOperandNumber(), dim)) {
      bool isOfHeads = operand.getOperandNumber() > 0 && isNormPerHead(op);
      int64_t step = isOfHeads ? resultType(op).getShape().back() : 1; // of the loop, in elements
      begin[dim] = times(b, op->getLoc(), offsets[*loop], step);
      extent[dim] = times(b, op->getLoc(), sizes[*loop], step);
      isCut = true;
    }
  if (!isCut)
    return whole;
  SmallVector<OpFoldResult> strides(rank, b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(b, op->getLoc(), whole, begin, extent, strides);
}

static FailureOr<TilingResult> tiled(Operation *op, OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                     ArrayRef<OpFoldResult> sizes) {
  SmallVector<Value> operands;
  SmallVector<Operation *> slices;
  for (OpOperand &operand : op->getOpOperands()) {
    operands.push_back(operandTile(b, op, operand, offsets, sizes));
    if (operands.back() != operand.get())
      slices.push_back(operands.back().getDefiningOp());
  }
  SmallVector<int64_t> shape(resultType(op).getShape());
  for (auto [size, tileSize] : llvm::zip(shape, sizes))
    size = getConstantIntValue(tileSize).value_or(ShapedType::kDynamic);
  Operation *tile = clone(b, op, resultType(op).clone(shape), operands);
  return TilingResult{{tile}, SmallVector<Value>(tile->getResults()), slices};
}

static LogicalResult resultPosition(Operation *op, OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                    ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                                    SmallVector<OpFoldResult> &resultSizes) {
  ReifiedRankedShapedTypeDims shapes;
  if (failed(reifyResultShapes(b, op, shapes)))
    return failure();
  resultOffsets.assign(offsets.begin(), offsets.end());
  resultSizes.assign(sizes.begin(), sizes.end());
  for (int64_t dim = numLoops(op); dim < resultType(op).getRank(); ++dim) {
    resultOffsets.push_back(b.getIndexAttr(0));
    resultSizes.push_back(shapes[0][dim]);
  }
  return success();
}

// The loops' part of a slice of the result, unless the slice cuts a dimension that is none.
static LogicalResult domainTile(Operation *op, ArrayRef<OpFoldResult> resultOffsets, ArrayRef<OpFoldResult> resultSizes,
                                SmallVectorImpl<OpFoldResult> &offsets, SmallVectorImpl<OpFoldResult> &sizes) {
  int64_t loops = numLoops(op);
  for (int64_t dim = loops; dim < resultType(op).getRank(); ++dim)
    if (!isConstantIntValue(resultOffsets[dim], 0) ||
        !isConstantIntValue(resultSizes[dim], resultType(op).getDimSize(dim)))
      return failure();
  offsets.assign(resultOffsets.begin(), resultOffsets.begin() + loops);
  sizes.assign(resultSizes.begin(), resultSizes.begin() + loops);
  return success();
}

#define HEDDLE_TILES(Op)                                                                                               \
  SmallVector<utils::IteratorType> Op::getLoopIteratorTypes() {                                                        \
    return SmallVector<utils::IteratorType>(numLoops(*this), utils::IteratorType::parallel);                           \
  }                                                                                                                    \
  SmallVector<Range> Op::getIterationDomain(OpBuilder &b) {                                                            \
    return iterationDomain(*this, b);                                                                                  \
  }                                                                                                                    \
  FailureOr<TilingResult> Op::getTiledImplementation(OpBuilder &b, ArrayRef<OpFoldResult> offsets,                     \
                                                     ArrayRef<OpFoldResult> sizes) {                                   \
    return tiled(*this, b, offsets, sizes);                                                                            \
  }                                                                                                                    \
  LogicalResult Op::getResultTilePosition(OpBuilder &b, unsigned, ArrayRef<OpFoldResult> offsets,                      \
                                          ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,      \
                                          SmallVector<OpFoldResult> &resultSizes) {                                    \
    return resultPosition(*this, b, offsets, sizes, resultOffsets, resultSizes);                                       \
  }                                                                                                                    \
  LogicalResult Op::getIterationDomainTileFromResultTile(                                                              \
      OpBuilder &, unsigned, ArrayRef<OpFoldResult> resultOffsets, ArrayRef<OpFoldResult> resultSizes,                 \
      SmallVectorImpl<OpFoldResult> &offsets, SmallVectorImpl<OpFoldResult> &sizes) {                                  \
    return domainTile(*this, resultOffsets, resultSizes, offsets, sizes);                                              \
  }                                                                                                                    \
  FailureOr<TilingResult> Op::generateResultTileValue(OpBuilder &b, unsigned, ArrayRef<OpFoldResult> resultOffsets,    \
                                                      ArrayRef<OpFoldResult> resultSizes) {                            \
    SmallVector<OpFoldResult> offsets, sizes;                                                                          \
    if (failed(domainTile(*this, resultOffsets, resultSizes, offsets, sizes)))                                         \
      return failure();                                                                                                \
    return tiled(*this, b, offsets, sizes);                                                                            \
  }
HEDDLE_TILES(EmbeddingOp)
HEDDLE_TILES(LinearOp)
HEDDLE_TILES(RmsNormOp)
HEDDLE_TILES(LayerNormOp)
HEDDLE_TILES(RopeOp)
HEDDLE_TILES(GluOp)
HEDDLE_TILES(SoftcapOp)
HEDDLE_TILES(MoeOp)
#undef HEDDLE_TILES
