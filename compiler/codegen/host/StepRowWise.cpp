// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Halide's kernels: each thread hands over its rows as halide_buffer_t.

#include "compiler/codegen/host/StepLauncher.h"

#include "compiler/codegen/halide/BufferBuilder.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

Value StepLauncher::halideBuffer(MemRefType type, Value pointer, Value rows) {
  SmallVector<BufferDim> dims;
  SmallVector<int64_t> strides = type.getStridesAndOffset().first;
  int64_t stride = 1;
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) { // innermost first
    bool isRows = type.isDynamicDim(axis);
    if (axis == 0)
      stride = strides[0];
    dims.push_back(
        {isRows && rows ? rows : b.constant(isRows ? INT32_MAX : type.getDimSize(axis)), b.constant(stride)});
    stride *= isRows ? 1 : type.getDimSize(axis);
  }
  return buildBuffer(b, target.isDevice(), bufferElement(type.getElementType()), pointer, dims);
}

// Halide counts extents and strides in 32 bits.
static LogicalResult verifyBuffers(KernelCallOp op) {
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    auto type = cast<MemRefType>(operand.getType());
    auto [strides, offset] = type.getStridesAndOffset();
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      for (int64_t count : {type.getDimSize(axis), strides[axis]})
        if (!ShapedType::isDynamic(count) && count > INT32_MAX)
          return op.emitError("kernel '") << op.getCallee() << "' counts to " << INT32_MAX << ", dimension " << axis
                                          << " of its buffer " << index << " has a size or stride of " << count;
  }
  return success();
}

LogicalResult StepLauncher::lowerRowWise(KernelCallOp op) {
  if (failed(verifyBuffers(op)))
    return failure();
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  Value count = rows(op.getInits()[0]);
  auto [first, last] = share(count);
  if (op->hasAttr(privateAttr)) {
    first = b.select(isOneRow, b.constant(0), first);
    last = b.select(isOneRow, count, last);
  }
  Value hasRows = b.lessThan(first, last);
  if (op->hasAttr(ofManyRowsAttr))
    hasRows = arith::AndIOp::create(b, hasRows, isManyRows());
  Value begin = first, end = last;
  b.ifThen(hasRows, [&] {
    SmallVector<Value> buffers;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      auto type = cast<MemRefType>(operand.getType());
      bool isWhole = index < callee.getNumArguments() && callee.getArgAttr(index, "heddle.whole");
      if (isWhole || type.hasStaticShape()) {
        buffers.push_back(halideBuffer(type, pointer(operand), Value()));
        continue;
      }
      Value offset = b.mul(b.mul(begin, rowStride(operand)), bytesOfElement(type));
      buffers.push_back(halideBuffer(type, b.at(pointer(operand), offset), b.sub(end, begin)));
    }
    callKernel(op, emitted->front(), buffers);
  });
  finishKernel(op, /*isLast=*/true);
  return success();
}
