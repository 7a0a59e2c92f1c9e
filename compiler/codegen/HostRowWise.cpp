// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Halide's kernels: each thread hands over its rows as halide_buffer_t.

#include "compiler/codegen/HostFunction.h"

#include "compiler/codegen/halide/BufferLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

// A halide_buffer_t on the stack; `rows` null: the buffer has no rows, or is read as a whole.
Value HostFunction::halideBuffer(MemRefType type, Value pointer, Value rows) {
  using namespace buffer_layout;
  auto i8 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI8IntegerAttr(value)).getResult(); };
  auto i16 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI16IntegerAttr(value)).getResult(); };
  auto i32 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)).getResult(); };
  int64_t rank = type.getRank();
  Value buffer, dims;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&b.getInsertionBlock()->getParent()->getParentOfType<func::FuncOp>().front());
    buffer = b.stackScratch(bufferSize);
    dims = b.stackScratch(std::max<int64_t>(1, rank) * dimensionSize);
  }
  Value zero = b.constant(0);
  for (size_t offset = 0; offset < bufferSize; offset += 8)
    b.store(zero, b.at(buffer, offset));
  Type element = type.getElementType();
  TypeCode code = isa<BFloat16Type>(element) ? BFloat : isa<FloatType>(element) ? Float : SignedInteger;
  b.store(pointer, b.at(buffer, hostOffset));
  b.store(i8(code), b.at(buffer, typeCodeOffset));
  b.store(i8(element.getIntOrFloatBitWidth()), b.at(buffer, typeBitsOffset));
  b.store(i16(1), b.at(buffer, typeLanesOffset));
  b.store(i32(rank), b.at(buffer, dimensionsOffset));
  b.store(dims, b.at(buffer, dimOffset));
  for (int64_t axis = 0; axis < rank; ++axis) {
    Value dim = b.at(dims, (rank - 1 - axis) * dimensionSize); // innermost first
    b.store(i32(0), b.at(dim, minOffset));
    b.store(i32(0), b.at(dim, dimensionSize - 4)); // flags
    int64_t stride = 1;
    for (int64_t size : type.getShape().drop_front(axis + 1))
      stride *= size;
    if (axis == 0)
      stride = rank > 1 ? rowStride(type) : 1;
    b.store(i32(stride), b.at(dim, strideOffset));
    Value extent = i32(type.isDynamicDim(axis) ? INT32_MAX : type.getDimSize(axis));
    if (type.isDynamicDim(axis) && rows)
      extent = arith::TruncIOp::create(b, b.getI32Type(), rows);
    b.store(extent, b.at(dim, extentOffset));
  }
  return buffer;
}

LogicalResult HostFunction::lowerRowWise(KernelCallOp op) {
  FailureOr<func::FuncOp> kernel = kernels.rowWise(op);
  if (failed(kernel))
    return failure();
  auto callee = func->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(op.getCallee());
  auto [begin, end] = share(rowCounts.lookup(op.getInits()[0]));
  Value first = begin, last = end;
  b.ifThen(b.lessThan(first, last), [&] {
    SmallVector<Value> buffers;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      auto type = cast<MemRefType>(operand.getType());
      bool isWhole = index < callee.getNumArguments() && callee.getArgAttr(index, "heddle.whole");
      if (isWhole || type.hasStaticShape()) {
        buffers.push_back(halideBuffer(type, pointerOf(operand), Value()));
        continue;
      }
      int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8 * (type.getRank() > 1 ? rowStride(type) : 1);
      buffers.push_back(halideBuffer(type, b.at(pointerOf(operand), first, bytes), b.sub(last, first)));
    }
    launch(op, *kernel, buffers, "halide");
  });
  finishKernel();
  return success();
}
