// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/Buffers.h"

#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

Type heddle::descriptorType(MemRefType type) {
  return LLVMTypeConverter(type.getContext()).convertType(type);
}

int64_t heddle::bytesOfElement(MemRefType type) {
  return type.getElementType().isIndex() ? 8 : llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

Value heddle::toInteger(RawBuilder &b, Value index) {
  return arith::IndexCastOp::create(b, b.getI64Type(), index);
}

Value heddle::bufferAt(RawBuilder &b, Value address, MemRefType type, ValueRange dynamicSizes) {
  auto [strides, offset] = type.getStridesAndOffset();
  assert(offset == 0 && "a buffer begins at its address");
  MemRefDescriptor parts = MemRefDescriptor::poison(b, b.getLoc(), descriptorType(type));
  parts.setAllocatedPtr(b, b.getLoc(), address);
  parts.setAlignedPtr(b, b.getLoc(), address);
  parts.setConstantOffset(b, b.getLoc(), 0);
  unsigned nextDynamic = dynamicSizes.size();
  Value dense; // the stride without gaps
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    bool isDynamic = type.isDynamicDim(axis);
    Value size = isDynamic ? dynamicSizes[--nextDynamic] : b.constant(type.getDimSize(axis));
    parts.setSize(b, b.getLoc(), axis, size);
    bool isStatic = !ShapedType::isDynamic(strides[axis]);
    parts.setStride(b, b.getLoc(), axis, isStatic ? b.constant(strides[axis]) : dense);
    dense = dense ? b.mul(dense, size) : size;
  }
  return UnrealizedConversionCastOp::create(b, type, Value(parts)).getResult(0);
}

static MemRefDescriptor partsOf(RawBuilder &b, Value buffer) {
  Type type = descriptorType(cast<MemRefType>(buffer.getType()));
  return MemRefDescriptor(UnrealizedConversionCastOp::create(b, type, buffer).getResult(0));
}

Value heddle::addressOf(RawBuilder &b, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  MemRefDescriptor parts = partsOf(b, buffer);
  Value base = parts.alignedPtr(b, b.getLoc());
  auto [strides, offset] = type.getStridesAndOffset();
  if (offset == 0)
    return base;
  Value elements = ShapedType::isDynamic(offset) ? parts.offset(b, b.getLoc()) : b.constant(offset);
  return b.at(base, elements, bytesOfElement(type));
}

Value heddle::sizeOf(RawBuilder &b, Value buffer, unsigned axis) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.isDynamicDim(axis) ? partsOf(b, buffer).size(b, b.getLoc(), axis) : b.constant(type.getDimSize(axis));
}

Value heddle::strideOf(RawBuilder &b, Value buffer, unsigned axis) {
  int64_t stride = cast<MemRefType>(buffer.getType()).getStridesAndOffset().first[axis];
  return ShapedType::isDynamic(stride) ? partsOf(b, buffer).stride(b, b.getLoc(), axis) : b.constant(stride);
}
