// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// memref, and every other op on buffers: it is evaluated on the tensors that these hold, and its results are stored in its
// destinations.

#include "compiler/interpreter/Frame.h"
#include "compiler/interpreter/TensorBytes.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

using namespace mlir;
using namespace heddle;

//===- memory ---------------------------------------------------------------===//

Buffer Interpreter::arena(ModuleOp module) {
  auto bytes = [&](StringRef name) {
    auto attr = module->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  if (!arenaBuffer)
    arenaBuffer = Buffer::allocate(IntegerType::get(module.getContext(), 8),
                                   {bytes(rowBytesAttr) * options.arenaRows + bytes(fixedBytesAttr)});
  return *arenaBuffer;
}

// As the runtime lays the arena out: what grows with the rows, then what does not.
static LogicalResult alloc(Frame &frame, memref::AllocOp op) {
  SmallVector<int64_t> shape;
  auto sizes = op.getDynamicSizes().begin();
  for (int64_t size : op.getType().getShape())
    shape.push_back(ShapedType::isDynamic(size) ? frame.integer(*sizes++) : size);
  Buffer buffer = Buffer::allocate(op.getType().getElementType(), shape);
  if (!op.getType().getLayout().isIdentity()) // rows of the arena that plan-memory spread
    llvm::copy(op.getType().getStridesAndOffset().first, buffer.strides.begin());
  auto perRow = op->getAttrOfType<IntegerAttr>(rowOffsetAttr), fixed = op->getAttrOfType<IntegerAttr>(offsetAttr);
  if (perRow || fixed) {
    auto module = op->getParentOfType<ModuleOp>();
    int64_t rows = frame.getInterpreter().getOptions().arenaRows;
    if (perRow && shape[0] > rows)
      return op.emitOpError("has ") << shape[0] << " rows, the arena is evaluated for " << rows;
    buffer.memory = frame.getInterpreter().arena(module).memory;
    auto rowBytes = module->getAttrOfType<IntegerAttr>(rowBytesAttr);
    buffer.offset = perRow ? rows * perRow.getInt() : rows * (rowBytes ? rowBytes.getInt() : 0) + fixed.getInt();
    Buffer largest = buffer;
    if (perRow)
      largest.shape[0] = rows;
    if (!largest.isInside())
      return op.emitOpError("lies outside the arena");
  }
  frame.set(op, std::move(buffer));
  return success();
}

// Weights and tables come as tensors: nobody writes to them.
static Buffer bufferOf(Frame &frame, Value memref) {
  if (auto *buffer = std::get_if<Buffer>(&frame.value(memref)))
    return *buffer;
  return Buffer::of(frame.tensor(memref));
}

static LogicalResult subview(Frame &frame, memref::SubViewOp op) {
  Buffer source = bufferOf(frame, op.getSource()), view = source;
  auto number = [&](OpFoldResult value) {
    if (auto attr = dyn_cast<Attribute>(value))
      return cast<IntegerAttr>(attr).getInt();
    return frame.integer(cast<Value>(value));
  };
  llvm::SmallBitVector dropped = op.getDroppedDims();
  view.shape.clear();
  view.strides.clear();
  for (auto [dim, offset, size, stride] :
       llvm::enumerate(op.getMixedOffsets(), op.getMixedSizes(), op.getMixedStrides())) {
    int64_t begin = number(offset), count = number(size), step = number(stride);
    if (begin < 0 || count < 0 || (count && begin + (count - 1) * step >= source.shape[dim]))
      return op.emitOpError("takes [") << begin << ", +" << count << ") of dimension " << dim << ", which has "
                                       << source.shape[dim];
    view.offset += begin * source.strides[dim] * storedBytes(source.elementType);
    if (dropped[dim])
      continue;
    view.shape.push_back(count);
    view.strides.push_back(step * source.strides[dim]);
  }
  frame.set(op, std::move(view));
  return success();
}

static LogicalResult dim(Frame &frame, memref::DimOp op) {
  const RuntimeValue &source = frame.value(op.getSource());
  auto *buffer = std::get_if<Buffer>(&source);
  ArrayRef<int64_t> shape =
      buffer ? ArrayRef<int64_t>(buffer->shape) : ArrayRef<int64_t>(std::get<TensorRef>(source)->shape);
  int64_t index = frame.integer(op.getIndex());
  if (index < 0 || index >= int64_t(shape.size()))
    return op.emitOpError("asks for dimension ") << index << " of " << shape.size();
  frame.set(op, Tensor::scalar(op.getType(), {0, shape[index]}));
  return success();
}

static LogicalResult copy(Frame &frame, memref::CopyOp op) {
  auto *target = std::get_if<Buffer>(&frame.value(op.getTarget()));
  if (!target)
    return op.emitOpError("writes to what is read only");
  target->store(bufferOf(frame, op.getSource()).load());
  return success();
}

template <typename Op> static LogicalResult passOn(Frame &frame, Op op) {
  frame.set(op->getResult(0), frame.value(op->getOperand(0)));
  return success();
}

static LogicalResult toTensor(Frame &frame, bufferization::ToTensorOp op) {
  RuntimeValue value = frame.value(op.getBuffer());
  if (auto *buffer = std::get_if<Buffer>(&value))
    value = makeValue(buffer->load());
  frame.set(op, std::move(value));
  return success();
}

static LogicalResult nothing(Frame &, memref::DeallocOp) {
  return success();
}

void heddle::addBufferHandlers(HandlerTable &table) {
  table.add<memref::AllocOp>(alloc);
  table.add<memref::SubViewOp>(subview);
  table.add<memref::DimOp>(dim);
  table.add<memref::CopyOp>(copy);
  table.add<memref::CastOp>(passOn<memref::CastOp>);
  table.add<memref::DeallocOp>(nothing);
  table.add<bufferization::ToBufferOp>(passOn<bufferization::ToBufferOp>);
  table.add<bufferization::ToTensorOp>(toTensor);
}

//===- other ops ------------------------------------------------------------===//

bool heddle::readsBuffers(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  return dialect != "memref" && dialect != "bufferization" && dialect != "func" && dialect != "scf" &&
         llvm::any_of(op->getOperandTypes(), [](Type type) { return isa<MemRefType>(type); });
}

static RankedTensorType tensorTypeOf(Type memref) {
  return RankedTensorType::get(cast<MemRefType>(memref).getShape(), cast<MemRefType>(memref).getElementType());
}

TensorForm::TensorForm(Frame &frame, Operation *op) : frame(frame) {
  OpBuilder b(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (!isa<MemRefType>(operand.getType())) {
      operands.push_back(operand);
      continue;
    }
    auto carrier = UnrealizedConversionCastOp::create(b, op->getLoc(), tensorTypeOf(operand.getType()), operand);
    RuntimeValue value = frame.value(operand);
    if (auto *buffer = std::get_if<Buffer>(&value))
      value = makeValue(buffer->load());
    frame.set(carrier.getResult(0), std::move(value));
    carriers.push_back(carrier);
    operands.push_back(carrier.getResult(0));
  }
  OperationState state(op->getLoc(), op->getName(), operands, llvm::to_vector(op->getResultTypes()), op->getAttrs());
  if (auto style = dyn_cast<DestinationStyleOpInterface>(op))
    for (OpOperand &init : style.getDpsInitsMutable())
      if (isa<MemRefType>(init.get().getType())) {
        destinations.push_back(init.get());
        state.addTypes(tensorTypeOf(init.get().getType()));
      }
  IRMapping mapping;
  for (Region &region : op->getRegions())
    region.cloneInto(state.addRegion(), mapping);
  form = b.create(state);
}

// A kernel may write its results before it has read all operands, so these must lie apart unless they are one buffer.
LogicalResult TensorForm::verifyApart(Operation *op) const {
  for (Value destination : destinations)
    for (Value operand : op->getOperands()) {
      auto *written = std::get_if<Buffer>(&frame.value(destination)),
           *read = std::get_if<Buffer>(&frame.value(operand));
      if (operand != destination && isa<MemRefType>(operand.getType()) && written && read && written->overlaps(*read))
        return op->emitOpError("writes a result over an operand: ") << destination << " and " << operand;
    }
  return success();
}

LogicalResult TensorForm::storeResults() {
  for (auto [destination, result] : llvm::zip_equal(destinations, form->getResults().take_back(destinations.size()))) {
    auto *buffer = std::get_if<Buffer>(&frame.value(destination));
    if (!buffer)
      return form->emitOpError("writes to what is read only");
    buffer->store(frame.tensor(result));
  }
  return success();
}

TensorForm::~TensorForm() {
  for (Value result : form->getResults())
    frame.forget(result);
  form->erase();
  for (Operation *carrier : carriers) {
    frame.forget(carrier->getResult(0));
    carrier->erase();
  }
}
