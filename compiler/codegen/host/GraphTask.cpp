// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of graphs take structs and not arguments: the runtime hands one pointer to every thread. What all of them are filled with is
// read from buffers here: addresses, sizes, strides, and how much work they are.

#include "compiler/codegen/host/GraphTask.h"

#include "compiler/codegen/host/GraphEntry.h"
#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

// Multiply-adds that waking the threads pays for.
static constexpr double fewestShared = 1 << 18;

Value heddle::taskMemory(func::FuncOp graph, size_t bytes) {
  OpBuilder b = OpBuilder::atBlockBegin(&graph.getBody().front());
  Location loc = graph.getLoc();
  Value size = arith::ConstantIntOp::create(b, loc, b.getI64Type(), int64_t(bytes));
  return LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(), size, 8);
}

Value GraphTask::constant(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value);
}

Value GraphTask::toInteger(Value index) {
  return arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
}

memref::ExtractStridedMetadataOp GraphTask::parts(Value buffer) {
  memref::ExtractStridedMetadataOp &known = metadata[buffer];
  if (!known)
    known = memref::ExtractStridedMetadataOp::create(b, loc, buffer);
  return known;
}

Value GraphTask::size(Value buffer, unsigned axis) {
  return toInteger(parts(buffer).getSizes()[axis]);
}

Value GraphTask::stride(Value buffer, unsigned axis) {
  return toInteger(parts(buffer).getStrides()[axis]);
}

Value GraphTask::broadcastStride(Value buffer, unsigned axis) {
  Value isOne = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, size(buffer, axis), constant(1));
  return arith::SelectOp::create(b, loc, isOne, constant(0), stride(buffer, axis));
}

void GraphTask::store(size_t offset, Value value) {
  LLVM::StoreOp::create(b, loc, value, addressAt(b, loc, memory, int64_t(offset)));
}

void GraphTask::storePointer(size_t offset, Value buffer) {
  store(offset, buffer ? pointer(buffer) : constant(0));
}

Value GraphTask::pointer(Value buffer) {
  if (!buffer)
    return Value();
  int64_t width = llvm::divideCeil(cast<MemRefType>(buffer.getType()).getElementTypeBitWidth(), 8);
  Value base = toInteger(memref::ExtractAlignedPointerAsIndexOp::create(b, loc, buffer));
  Value bytes = arith::MulIOp::create(b, loc, toInteger(parts(buffer).getOffset()), constant(width));
  return arith::AddIOp::create(b, loc, base, bytes);
}

Value GraphTask::counted(Value size) {
  Value wide = arith::SIToFPOp::create(b, loc, b.getF64Type(), size);
  work = work ? Value(arith::MulFOp::create(b, loc, work, wide)) : wide;
  return size;
}

void GraphTask::run(func::FuncOp task, double each) {
  Value limit = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(fewestShared / each));
  Value isLarge = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, work, limit);
  runTask(b, loc, graph, task, memory, isLarge);
  op->erase();
}
