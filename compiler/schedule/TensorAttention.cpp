// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models keep heads side by side, (batch, sequence, heads, head_dim), and turn them for attention and back. The kernel reads rows
// wherever they lie, so what a transpose does becomes an order of axes, and bufferization finds views.

#include "compiler/schedule/TensorAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

using Axes = SmallVector<int64_t, 4>;

namespace {
// A tensor whose dimension axes[a] is axis a of (batch, heads, sequence, head_dim).
struct Placed {
  Value value;
  Axes axes = {0, 1, 2, 3};

  bool hasWholeRows() const { return axes.back() == 3; }
};
} // namespace

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// The dimension of the input that each dimension of a transpose's result is; empty for any other op.
static SmallVector<int64_t> permutationOf(Operation *op) {
  if (auto transpose = dyn_cast_or_null<linalg::TransposeOp>(op))
    return SmallVector<int64_t>(transpose.getPermutation());
  auto copy = dyn_cast_or_null<linalg::GenericOp>(op);
  if (!copy || copy.getNumDpsInputs() != 1 || copy.getNumDpsInits() != 1 || copy->getNumResults() != 1)
    return {};
  auto yield = cast<linalg::YieldOp>(copy.getBody()->getTerminator());
  AffineMap in = copy.getIndexingMapsArray()[0], out = copy.getIndexingMapsArray()[1];
  if (yield.getValues()[0] != copy.getBody()->getArgument(0) || !in.isPermutation() || !out.isPermutation())
    return {};
  SmallVector<int64_t> permutation;
  for (AffineExpr loop : out.getResults())
    permutation.push_back(*in.getResultPosition(loop));
  return permutation;
}

// A part of a transposed tensor as the transpose of a part of it: moves `placed`, whose value is the part. Fails for any other value.
static LogicalResult moveSliceBehindTranspose(OpBuilder &b, Placed &placed) {
  auto slice = placed.value.getDefiningOp<tensor::ExtractSliceOp>();
  Operation *source = slice ? slice.getSource().getDefiningOp() : nullptr;
  SmallVector<int64_t> permutation = permutationOf(source);
  if (permutation.empty())
    return failure();
  size_t rank = permutation.size();
  SmallVector<OpFoldResult> offsets(rank), sizes(rank), strides(rank);
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<int64_t> kept; // dimensions of the transpose's input that the slice keeps, in the order of its result
  for (auto [d, from] : llvm::enumerate(permutation)) {
    offsets[from] = slice.getMixedOffsets()[d];
    sizes[from] = slice.getMixedSizes()[d];
    strides[from] = slice.getMixedStrides()[d];
    if (!dropped[d])
      kept.push_back(from);
  }
  SmallVector<int64_t> order(kept), shape;
  llvm::sort(order);
  for (int64_t d : order)
    shape.push_back(slice.getType().getDimSize(llvm::find(kept, d) - kept.begin()));
  for (int64_t &axis : placed.axes)
    axis = llvm::find(order, kept[axis]) - order.begin();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(slice);
  placed.value = tensor::ExtractSliceOp::create(b, slice.getLoc(), slice.getType().clone(shape), source->getOperand(0),
                                                offsets, sizes, strides);
  return success();
}

// `operand` before the transposes that lead to it. Where that would scatter its rows, it stays as it is.
static Placed placeOf(OpBuilder &b, Value operand) {
  Placed at{operand}, best = at;
  while (true) {
    SmallVector<int64_t> permutation = permutationOf(at.value.getDefiningOp());
    if (permutation.size() == 4) {
      at.value = at.value.getDefiningOp()->getOperand(0);
      for (int64_t &axis : at.axes)
        axis = permutation[axis];
    } else if (failed(moveSliceBehindTranspose(b, at))) {
      return best;
    }
    if (at.hasWholeRows())
      best = at;
  }
}

static Value sizeAlong(OpBuilder &b, Location loc, const Placed &placed, int64_t axis) {
  return tensor::DimOp::create(b, loc, placed.value, placed.axes[axis]);
}

// Ends the call unless sizes are one another's; what is known to be is not asked. `mayBeOne`: `x` may be 1 as well.
static void requireSize(OpBuilder &b, Location loc, Value x, Value y, bool mayBeOne, StringRef message) {
  auto isEqual = [&](Value to) -> Value { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, to); };
  Value holds = isEqual(y);
  if (mayBeOne)
    holds = arith::OrIOp::create(b, loc, holds, isEqual(arith::ConstantIndexOp::create(b, loc, 1)));
  cf::AssertOp::create(b, loc, holds, message);
}

static void requireSizes(OpBuilder &b, Location loc, const Placed &query, const Placed &key, const Placed &value,
                         Value bias) {
  struct Pair {
    const Placed &x, &y;
    int64_t axis;
    const char *message;
  };
  for (auto [x, y, axis, message] : {Pair{key, query, 0, "attention: keys have another batch than queries"},
                                     Pair{value, query, 0, "attention: values have another batch than queries"},
                                     Pair{value, key, 2, "attention: there are not as many values as keys"}})
    if (shaped(x.value).isDynamicDim(x.axes[axis]) || shaped(y.value).isDynamicDim(y.axes[axis]))
      requireSize(b, loc, sizeAlong(b, loc, x, axis), sizeAlong(b, loc, y, axis), false, message);
  for (int64_t d = 0; bias && d < 4; ++d) {
    const Placed &scores = d == 3 ? key : query;
    int64_t axis = d == 3 ? 2 : d, size = shaped(bias).getDimSize(d);
    if (size != 1 && (ShapedType::isDynamic(size) || shaped(scores.value).isDynamicDim(scores.axes[axis])))
      requireSize(b, loc, tensor::DimOp::create(b, loc, bias, d), sizeAlong(b, loc, scores, axis), true,
                  "attention: the bias has another shape than the scores");
  }
}

static Value convertFloats(OpBuilder &b, Location loc, Value tensor, Type element) {
  RankedTensorType type = shaped(tensor), converted = type.clone(element);
  if (type.getElementType() == element)
    return tensor;
  if (type.getElementTypeBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(b, loc, converted, tensor);
  return arith::TruncFOp::create(b, loc, converted, tensor);
}

static bool isKernelType(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

std::string heddle::missingFlashAttention(AttentionOp op) {
  constexpr int64_t most = FlashAttentionOp::maxHeadDim;
  RankedTensorType query = shaped(op.getQuery()), key = shaped(op.getKey()), value = shaped(op.getValue());
  for (Type type :
       {query.getElementType(), key.getElementType(), value.getElementType(), op.getType().getElementType()})
    if (!isKernelType(type))
      return "its elements are no f32, f16 or bf16";
  for (int64_t heads : {query.getDimSize(1), key.getDimSize(1)})
    if (heads < 1)
      return "its heads are not known, or none";
  for (int64_t headDim : {query.getDimSize(3), value.getDimSize(3)})
    if (headDim < 1 || headDim > most)
      return "its head_dim is not known, or not 1 to " + std::to_string(most);
  double scale = op.getScale().convertToDouble(), softcap = op.getSoftcap().convertToDouble();
  if (!std::isfinite(scale) || !std::isfinite(softcap) || softcap < 0)
    return "its scale or softcap is not finite, or this negative";
  return "";
}

// The transpose that is the only reader of `value` and leaves rows whole.
static Operation *readingTranspose(Value value) {
  if (!value.hasOneUse())
    return nullptr;
  Operation *reader = *value.user_begin();
  SmallVector<int64_t> permutation = permutationOf(reader);
  bool isInput = !permutation.empty() && reader->getOperand(0) == value;
  return isInput && permutation.back() == 3 ? reader : nullptr;
}

void heddle::lowerToFlashAttention(AttentionOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Placed query = placeOf(b, op.getQuery()), key = placeOf(b, op.getKey()), value = placeOf(b, op.getValue());
  Type f32 = b.getF32Type(), element = op.getType().getElementType(), rows = element;
  // Types that differ meet in the one that holds all of them.
  if (shaped(query.value).getElementType() != element)
    query.value = convertFloats(b, loc, query.value, rows = f32);
  if (shaped(key.value).getElementType() != shaped(value.value).getElementType()) {
    key.value = convertFloats(b, loc, key.value, f32);
    value.value = convertFloats(b, loc, value.value, f32);
  }
  Value bias = op.getBias() ? convertFloats(b, loc, op.getBias(), f32) : Value();
  Value sinks = op.getSinks() ? convertFloats(b, loc, op.getSinks(), f32) : Value();
  requireSizes(b, loc, query, key, value, bias);

  // Transposes behind that are read instead of the result, outermost last.
  Placed out{op.getResult()};
  SmallVector<Operation *> replaced = {op};
  while (Operation *transpose = rows == element ? readingTranspose(out.value) : nullptr) {
    replaced.push_back(transpose);
    SmallVector<int64_t> permutation = permutationOf(transpose);
    for (int64_t &axis : out.axes)
      axis = llvm::find(permutation, axis) - permutation.begin();
    out.value = transpose->getResult(0);
  }
  RankedTensorType type = shaped(out.value).clone(rows);
  SmallVector<OpFoldResult> sizes(4);
  for (int64_t a = 0; a < 4; ++a) {
    int64_t size = type.getDimSize(out.axes[a]);
    sizes[out.axes[a]] =
        ShapedType::isDynamic(size) ? OpFoldResult(sizeAlong(b, loc, a == 3 ? value : query, a)) : b.getIndexAttr(size);
  }
  Value room = tensor::EmptyOp::create(b, loc, sizes, rows);
  auto flash = FlashAttentionOp::create(b, loc, TypeRange(type), query.value, key.value, value.value, bias, sinks, room,
                                        op.getMaskAttr(), op.getScaleAttr(), op.getSoftcapAttr(),
                                        b.getDenseI64ArrayAttr(query.axes), b.getDenseI64ArrayAttr(key.axes),
                                        b.getDenseI64ArrayAttr(value.axes), b.getDenseI64ArrayAttr(out.axes));
  out.value.replaceAllUsesWith(convertFloats(b, loc, flash.getResult(0), element));
  for (Operation *reader : llvm::reverse(replaced))
    reader->erase();
}
