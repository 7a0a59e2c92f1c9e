// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants, and the tensor ops that move elements without computing.

#include "compiler/interpreter/Frame.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

//===- constants ----------------------------------------------------------===//

static double toDouble(llvm::APFloat value) {
  bool losesInfo;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToDouble();
}

static LogicalResult constant(Frame &frame, arith::ConstantOp op) {
  if (auto number = dyn_cast<FloatAttr>(op.getValue())) {
    frame.set(op, Tensor::scalar(op.getType(), {toDouble(number.getValue()), 0}));
    return success();
  }
  if (auto number = dyn_cast<IntegerAttr>(op.getValue())) {
    frame.set(op, Tensor::scalar(op.getType(), {0, number.getValue().getSExtValue()}));
    return success();
  }
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements || !isa<RankedTensorType>(op.getType()))
    return op.emitOpError("has a value that the reference interpreter cannot read: ") << op.getType();
  Tensor result = Tensor::zeros(elements.getElementType(), elements.getType().getShape());
  if (result.isFloat()) {
    for (auto [i, value] : llvm::enumerate(elements.getValues<llvm::APFloat>()))
      result.reals[i] = toDouble(value);
  } else {
    for (auto [i, value] : llvm::enumerate(elements.getValues<llvm::APInt>()))
      result.set(i, {0, value.getSExtValue()});
  }
  frame.set(op, std::move(result));
  return success();
}

//===- sizes --------------------------------------------------------------===//

// Static sizes with the dynamic ones filled in from the operands.
static SmallVector<int64_t> resolve(Frame &frame, ArrayRef<int64_t> staticSizes, ValueRange dynamicSizes) {
  SmallVector<int64_t> sizes(staticSizes);
  auto next = dynamicSizes.begin();
  for (int64_t &size : sizes)
    if (ShapedType::isDynamic(size))
      size = frame.integer(*next++);
  return sizes;
}

// A zero-filled tensor, or an error for sizes that are negative or absurd.
static FailureOr<Tensor> allocate(Operation *op, Type elementType, ArrayRef<int64_t> shape) {
  constexpr int64_t maxElements = int64_t(1) << 36;
  int64_t size = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || llvm::MulOverflow(size, dim, size) || size > maxElements)
      return op->emitOpError("makes a tensor of size ") << dim << " in a dimension, or of too many elements";
  }
  return Tensor::zeros(elementType, shape);
}

static LogicalResult empty(Frame &frame, tensor::EmptyOp op) {
  auto sizes = resolve(frame, op.getType().getShape(), op.getDynamicSizes());
  FailureOr<Tensor> result = allocate(op, op.getType().getElementType(), sizes);
  if (failed(result))
    return failure();
  // What is read before it is written must show: it is not 0.
  std::fill(result->reals.begin(), result->reals.end(), std::numeric_limits<double>::quiet_NaN());
  frame.set(op, std::move(*result));
  return success();
}

static LogicalResult dim(Frame &frame, tensor::DimOp op) {
  const Tensor &source = frame.tensor(op.getSource());
  int64_t index = frame.integer(op.getIndex());
  if (index < 0 || index >= source.rank())
    return op.emitOpError("asks for dimension ") << index << " of a tensor of rank " << source.rank();
  frame.set(op, Tensor::scalar(op.getType(), {0, source.dim(index)}));
  return success();
}

//===- the same elements, another shape -----------------------------------===//

static LogicalResult keepElements(Frame &frame, Operation *op, const Tensor &source, SmallVector<int64_t> shape) {
  Tensor result = source;
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  if (size != source.size())
    return op->emitOpError("makes ") << size << " elements of " << source.size();
  result.shape = std::move(shape);
  frame.set(op->getResult(0), std::move(result));
  return success();
}

static LogicalResult cast(Frame &frame, tensor::CastOp op) {
  frame.set(op, frame.value(op.getSource()));
  return success();
}

static LogicalResult expandShape(Frame &frame, tensor::ExpandShapeOp op) {
  return keepElements(frame, op, frame.tensor(op.getSrc()),
                      resolve(frame, op.getStaticOutputShape(), op.getOutputShape()));
}

static LogicalResult reshape(Frame &frame, tensor::ReshapeOp op) {
  const Tensor &shape = frame.tensor(op.getShape());
  for (int64_t size : shape.integers)
    if (size < 0)
      return op.emitOpError("asks for a dimension of size ") << size;
  return keepElements(frame, op, frame.tensor(op.getSource()), llvm::to_vector(ArrayRef(shape.integers)));
}

static LogicalResult collapseShape(Frame &frame, tensor::CollapseShapeOp op) {
  const Tensor &source = frame.tensor(op.getSrc());
  SmallVector<int64_t> shape;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    int64_t size = 1;
    for (int64_t i : group)
      size *= source.dim(i);
    shape.push_back(size);
  }
  return keepElements(frame, op, source, std::move(shape));
}

//===- slices -------------------------------------------------------------===//

namespace {
// The part of a tensor that a slice op names.
struct Slice {
  SmallVector<int64_t> offsets, sizes, strides;
};
} // namespace

template <typename Op> static FailureOr<Slice> sliceOf(Frame &frame, Op op, ArrayRef<int64_t> shape) {
  Slice slice{resolve(frame, op.getStaticOffsets(), op.getOffsets()),
              resolve(frame, op.getStaticSizes(), op.getSizes()),
              resolve(frame, op.getStaticStrides(), op.getStrides())};
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t first = slice.offsets[d], last = first + (slice.sizes[d] - 1) * slice.strides[d];
    if (slice.sizes[d] < 0 || (slice.sizes[d] > 0 && (std::min(first, last) < 0 || std::max(first, last) >= shape[d])))
      return op.emitOpError("takes ") << slice.sizes[d] << " elements from " << first << " of dimension " << d
                                      << ", which has " << shape[d];
  }
  return slice;
}

// Calls `visit` with the position of each element in the sliced tensor, in order.
static void forEachInSlice(const Slice &slice, ArrayRef<int64_t> shape, function_ref<void(int64_t)> visit) {
  SmallVector<int64_t> strides = stridesOf(shape);
  forEachIndex(slice.sizes, [&](ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (size_t d = 0; d < index.size(); ++d)
      position += (slice.offsets[d] + index[d] * slice.strides[d]) * strides[d];
    visit(position);
  });
}

static LogicalResult extractSlice(Frame &frame, tensor::ExtractSliceOp op) {
  const Tensor &source = frame.tensor(op.getSource());
  FailureOr<Slice> slice = sliceOf(frame, op, source.shape);
  if (failed(slice))
    return failure();
  SmallVector<int64_t> shape;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (auto [d, size] : llvm::enumerate(slice->sizes))
    if (!dropped[d])
      shape.push_back(size);
  Tensor result = Tensor::zeros(source.elementType, shape);
  int64_t next = 0;
  forEachInSlice(*slice, source.shape, [&](int64_t position) { result.set(next++, source.get(position)); });
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult insertSlice(Frame &frame, tensor::InsertSliceOp op) {
  const Tensor &source = frame.tensor(op.getSource());
  Tensor result = frame.tensor(op.getDest());
  FailureOr<Slice> slice = sliceOf(frame, op, result.shape);
  if (failed(slice))
    return failure();
  int64_t count = 1;
  for (int64_t size : slice->sizes)
    count *= size;
  if (count != source.size())
    return op.emitOpError("inserts ") << source.size() << " elements into a slice of " << count;
  int64_t next = 0;
  forEachInSlice(*slice, result.shape, [&](int64_t position) { result.set(position, source.get(next++)); });
  frame.set(op, std::move(result));
  return success();
}

//===- single elements ----------------------------------------------------===//

static FailureOr<int64_t> positionOf(Frame &frame, Operation *op, const Tensor &tensor, ValueRange indices) {
  int64_t position = 0;
  for (auto [d, index] : llvm::enumerate(indices)) {
    int64_t i = frame.integer(index);
    if (i < 0 || i >= tensor.dim(d))
      return op->emitOpError("index ") << i << " is outside dimension " << d << ", which has " << tensor.dim(d);
    position = position * tensor.dim(d) + i;
  }
  return position;
}

static LogicalResult extract(Frame &frame, tensor::ExtractOp op) {
  const Tensor &source = frame.tensor(op.getTensor());
  FailureOr<int64_t> position = positionOf(frame, op, source, op.getIndices());
  if (failed(position))
    return failure();
  frame.set(op, Tensor::scalar(op.getType(), source.get(*position)));
  return success();
}

static LogicalResult insert(Frame &frame, tensor::InsertOp op) {
  Tensor result = frame.tensor(op.getDest());
  FailureOr<int64_t> position = positionOf(frame, op, result, op.getIndices());
  if (failed(position))
    return failure();
  result.set(*position, frame.tensor(op.getScalar()).get(0));
  frame.set(op, std::move(result));
  return success();
}

//===- building tensors ---------------------------------------------------===//

static LogicalResult splat(Frame &frame, tensor::SplatOp op) {
  auto sizes = resolve(frame, op.getType().getShape(), op.getDynamicSizes());
  FailureOr<Tensor> result = allocate(op, op.getType().getElementType(), sizes);
  if (failed(result))
    return failure();
  Scalar value = frame.tensor(op.getInput()).get(0);
  for (int64_t i = 0, end = result->size(); i < end; ++i)
    result->set(i, value);
  frame.set(op, std::move(*result));
  return success();
}

static LogicalResult fromElements(Frame &frame, tensor::FromElementsOp op) {
  Tensor result = Tensor::zeros(op.getType().getElementType(), op.getType().getShape());
  for (auto [i, element] : llvm::enumerate(op.getElements()))
    result.set(i, frame.tensor(element).get(0));
  frame.set(op, std::move(result));
  return success();
}

static LogicalResult concat(Frame &frame, tensor::ConcatOp op) {
  size_t axis = op.getDim();
  SmallVector<int64_t> shape = frame.tensor(op.getInputs().front()).shape;
  shape[axis] = 0;
  for (Value input : op.getInputs())
    shape[axis] += frame.tensor(input).dim(axis);
  FailureOr<Tensor> result = allocate(op, getElementTypeOrSelf(op.getType()), shape);
  if (failed(result))
    return failure();
  int64_t offset = 0;
  for (Value input : op.getInputs()) {
    const Tensor &source = frame.tensor(input);
    Slice slice{SmallVector<int64_t>(shape.size(), 0), source.shape, SmallVector<int64_t>(shape.size(), 1)};
    slice.offsets[axis] = offset;
    for (size_t d = 0; d < shape.size(); ++d)
      if (d != axis && source.dim(d) != shape[d])
        return op.emitOpError("joins tensors of ")
               << source.dim(d) << " and " << shape[d] << " elements in dimension " << d;
    int64_t next = 0;
    forEachInSlice(slice, shape, [&](int64_t position) { result->set(position, source.get(next++)); });
    offset += source.dim(axis);
  }
  frame.set(op, std::move(*result));
  return success();
}

// Fills `result` with what `block` yields for each index.
static LogicalResult fillFromBody(Frame &frame, Block &block, Tensor &result) {
  FailureOr<ScalarBody> body = ScalarBody::prepare(frame, block, /*exact=*/false);
  if (failed(body))
    return failure();
  int64_t position = 0;
  LogicalResult status = success();
  SmallVector<Scalar> arguments, yielded;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    arguments.clear();
    for (int64_t i : index)
      arguments.push_back({0, i});
    if (succeeded(status))
      status = body->run(arguments, {}, yielded);
    if (succeeded(status))
      result.set(position++, yielded[0]);
  });
  return status;
}

static LogicalResult generate(Frame &frame, tensor::GenerateOp op) {
  auto type = llvm::cast<RankedTensorType>(op.getType());
  FailureOr<Tensor> result =
      allocate(op, type.getElementType(), resolve(frame, type.getShape(), op.getDynamicExtents()));
  if (failed(result) || failed(fillFromBody(frame, op.getBody().front(), *result)))
    return failure();
  frame.set(op, std::move(*result));
  return success();
}

static LogicalResult pad(Frame &frame, tensor::PadOp op) {
  const Tensor &source = frame.tensor(op.getSource());
  auto low = resolve(frame, op.getStaticLow(), op.getLow()), high = resolve(frame, op.getStaticHigh(), op.getHigh());
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < source.rank(); ++d) {
    if (low[d] < 0 || high[d] < 0)
      return op.emitOpError("pads by ") << low[d] << " and " << high[d] << " elements, of which none may be negative";
    shape.push_back(low[d] + source.dim(d) + high[d]);
  }
  FailureOr<Tensor> result = allocate(op, source.elementType, shape);
  if (failed(result) || failed(fillFromBody(frame, op.getRegion().front(), *result)))
    return failure();
  Slice slice{low, source.shape, SmallVector<int64_t>(shape.size(), 1)};
  int64_t next = 0;
  forEachInSlice(slice, shape, [&](int64_t position) { result->set(position, source.get(next++)); });
  frame.set(op, std::move(*result));
  return success();
}

void heddle::addTensorHandlers(HandlerTable &table) {
  table.add<arith::ConstantOp>(constant);
  table.add<tensor::EmptyOp>(empty);
  table.add<tensor::DimOp>(dim);
  table.add<tensor::CastOp>(cast);
  table.add<tensor::ExpandShapeOp>(expandShape);
  table.add<tensor::CollapseShapeOp>(collapseShape);
  table.add<tensor::ReshapeOp>(reshape);
  table.add<tensor::ExtractSliceOp>(extractSlice);
  table.add<tensor::InsertSliceOp>(insertSlice);
  table.add<tensor::ExtractOp>(extract);
  table.add<tensor::InsertOp>(insert);
  table.add<tensor::SplatOp>(splat);
  table.add<tensor::FromElementsOp>(fromElements);
  table.add<tensor::ConcatOp>(concat);
  table.add<tensor::GenerateOp>(generate);
  table.add<tensor::PadOp>(pad);
}
