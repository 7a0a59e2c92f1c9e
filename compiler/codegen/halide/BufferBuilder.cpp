// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/BufferBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::buffer_layout;

BufferElement heddle::bufferElement(Type type) {
  TypeCode code = isa<BFloat16Type>(type) ? BFloat : isa<FloatType>(type) ? Float : SignedInteger;
  return {code, type.getIntOrFloatBitWidth()};
}

Value heddle::buildBuffer(RawBuilder &b, bool onDevice, BufferElement element, Value pointer,
                          ArrayRef<BufferDim> dimensions) {
  auto i8 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI8IntegerAttr(value)).getResult(); };
  auto i16 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI16IntegerAttr(value)).getResult(); };
  auto i32 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)).getResult(); };
  auto narrow = [&](Value value) { return arith::TruncIOp::create(b, b.getI32Type(), value).getResult(); };
  Value buffer, dims;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&b.getInsertionBlock()->getParent()->getParentOfType<func::FuncOp>().front());
    buffer = b.stackScratch(bufferSize);
    dims = b.stackScratch(std::max<int64_t>(1, dimensions.size()) * dimensionSize);
  }
  Value zero = b.constant(0);
  for (size_t offset = 0; offset < bufferSize; offset += 8)
    b.store(zero, b.at(buffer, offset));
  b.store(pointer, b.at(buffer, onDevice ? deviceOffset : hostOffset));
  b.store(i8(element.code), b.at(buffer, typeCodeOffset));
  b.store(i8(element.bits), b.at(buffer, typeBitsOffset));
  b.store(i16(1), b.at(buffer, typeLanesOffset));
  b.store(i32(dimensions.size()), b.at(buffer, dimensionsOffset));
  b.store(dims, b.at(buffer, dimOffset));
  for (auto [index, dimension] : llvm::enumerate(dimensions)) {
    Value dim = b.at(dims, index * dimensionSize);
    b.store(i32(0), b.at(dim, minOffset));
    b.store(i32(0), b.at(dim, dimensionSize - 4)); // flags
    b.store(narrow(dimension.stride), b.at(dim, strideOffset));
    b.store(narrow(dimension.extent), b.at(dim, extentOffset));
  }
  return buffer;
}
