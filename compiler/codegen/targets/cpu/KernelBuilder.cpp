// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using namespace heddle;

KernelBuilder::KernelBuilder(ModuleOp module, StringRef name, ArrayRef<Type> parameters)
    : ImplicitLocOpBuilder(module.getLoc(), module.getContext()) {
  ptr = LLVM::LLVMPointerType::get(getContext());
  f16 = getF16Type();
  f32 = getF32Type();
  i8 = getI8Type();
  i16 = getI16Type();
  i32 = getI32Type();
  i64 = getI64Type();
  v16f32 = vec(16, f32);
  v16i32 = vec(16, i32);
  setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(*this, name, getFunctionType(parameters, {}));
  // A kernel calls nothing: no loop is turned into memset or memcpy.
  function->setAttr("passthrough", getStrArrayAttr({"no-builtins"}));
  setInsertionPointToStart(function.addEntryBlock());
}

func::FuncOp KernelBuilder::finish() {
  func::ReturnOp::create(*this);
  return function;
}

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value KernelBuilder::int32(int32_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(value));
}
Value KernelBuilder::real(float value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}
Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(*this, vec(lanes, scalar.getType()), scalar);
}
Value KernelBuilder::splatInt(uint32_t value, int64_t lanes) {
  return splat(int32(int32_t(value)), lanes);
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

Value KernelBuilder::add(Value a, Value b) {
  return isFloat(a) ? arith::AddFOp::create(*this, a, b).getResult() : arith::AddIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::sub(Value a, Value b) {
  return isFloat(a) ? arith::SubFOp::create(*this, a, b).getResult() : arith::SubIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::mul(Value a, Value b) {
  return isFloat(a) ? arith::MulFOp::create(*this, a, b).getResult() : arith::MulIOp::create(*this, a, b).getResult();
}
Value KernelBuilder::divide(Value a, Value b) {
  return arith::DivUIOp::create(*this, a, b);
}
Value KernelBuilder::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(*this, a, b, c);
}

Value KernelBuilder::toFloat(Value ints) {
  auto vector = dyn_cast<VectorType>(ints.getType());
  return arith::SIToFPOp::create(*this, vector ? Type(vector.clone(f32)) : f32, ints);
}
Value KernelBuilder::shiftRight(Value vector, uint32_t bits) {
  return bits ? arith::ShRUIOp::create(*this, vector, splatInt(bits)).getResult() : vector;
}
Value KernelBuilder::maskBits(Value vector, uint32_t bits) {
  return arith::AndIOp::create(*this, vector, splatInt(bits));
}
Value KernelBuilder::bitcast(Type type, Value vector) {
  return LLVM::BitcastOp::create(*this, type, vector);
}
Value KernelBuilder::lessThan(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}
Value KernelBuilder::minimum(Value a, Value b) {
  return arith::MinSIOp::create(*this, a, b);
}
Value KernelBuilder::lanesBelow(Value end, Value column) {
  constexpr int64_t lanes = 16;
  SmallVector<int32_t> lane(lanes);
  std::iota(lane.begin(), lane.end(), 0);
  Value iota = arith::ConstantOp::create(*this, getI32VectorAttr(lane));
  Value left = arith::TruncIOp::create(*this, i32, minimum(sub(end, column), index(lanes)));
  return lessThan(iota, splat(left));
}

Value KernelBuilder::wholeSteps(Value begin, Value end, int64_t step) {
  if (step == 1)
    return end;
  Value steps = arith::DivSIOp::create(*this, sub(end, begin), index(step));
  return add(begin, mul(steps, step));
}
Value KernelBuilder::intrinsic(StringRef name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(*this, result, getStringAttr(name), operands).getResult(0);
}

Value KernelBuilder::inParts(int64_t lanes, ArrayRef<Value> vectors, function_ref<Value(ArrayRef<Value>)> emit) {
  if (lanes == 16)
    return emit(vectors);
  Value whole = vectors.front();
  for (int64_t lane = 0; lane < 16; lane += lanes) {
    auto parts = llvm::map_to_vector(vectors, [&](Value vector) -> Value {
      return vector::ExtractStridedSliceOp::create(*this, vector, lane, lanes, int64_t(1));
    });
    whole = vector::InsertStridedSliceOp::create(*this, emit(parts), whole, lane, int64_t(1));
  }
  return whole;
}

Value KernelBuilder::at(Value base, Value byteOffset) {
  return LLVM::GEPOp::create(*this, ptr, i8, base, ArrayRef<LLVM::GEPArg>{byteOffset});
}
Value KernelBuilder::at(Value base, int64_t byteOffset) {
  return byteOffset ? at(base, index(byteOffset)) : base;
}

static unsigned elementBytes(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

Value KernelBuilder::load(Type type, Value address, unsigned alignment) {
  return LLVM::LoadOp::create(*this, type, address, alignment ? alignment : elementBytes(type));
}
void KernelBuilder::store(Value value, Value address, unsigned alignment) {
  LLVM::StoreOp::create(*this, value, address, alignment ? alignment : elementBytes(value.getType()));
}
Value KernelBuilder::loadMasked(VectorType type, Value address, Value mask) {
  Value zero = arith::ConstantOp::create(*this, getZeroAttr(type));
  return LLVM::MaskedLoadOp::create(*this, type, address, mask, zero, elementBytes(type));
}
void KernelBuilder::storeMasked(Value value, Value address, Value mask) {
  LLVM::MaskedStoreOp::create(*this, value, address, mask, elementBytes(value.getType()));
}
void KernelBuilder::prefetch(Value address, Cache to) {
  // Read, into this level of the cache and those behind it, data.
  LLVM::Prefetch::create(*this, address, 0u, to == Cache::First ? 3u : 2u, 1u);
}
Value KernelBuilder::stack(int64_t bytes) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&function.front());
  return LLVM::AllocaOp::create(*this, ptr, i8, index(bytes), 64);
}

void KernelBuilder::loop(Value begin, Value end, int64_t step, Body body) {
  scf::ForOp::create(*this, begin, end, index(step), ValueRange{}, [&](OpBuilder &, Location, Value iv, ValueRange) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToEnd(iv.getParentBlock());
    body(iv);
    scf::YieldOp::create(*this);
  });
}

SmallVector<Value> KernelBuilder::loop(Value begin, Value end, int64_t step, ArrayRef<Value> initial,
                                       CarryingBody body) {
  auto loop = scf::ForOp::create(*this, begin, end, index(step), initial,
                                 [&](OpBuilder &, Location, Value iv, ValueRange carried) {
                                   OpBuilder::InsertionGuard guard(*this);
                                   setInsertionPointToEnd(iv.getParentBlock());
                                   SmallVector<Value> values(carried);
                                   scf::YieldOp::create(*this, body(iv, values));
                                 });
  return SmallVector<Value>(loop.getResults());
}

void KernelBuilder::branch(Value condition, function_ref<void()> then, function_ref<void()> otherwise) {
  auto emit = [&](OpBuilder &nested, function_ref<void()> body) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToEnd(nested.getInsertionBlock());
    body();
    scf::YieldOp::create(*this);
  };
  scf::IfOp::create(
      *this, condition, [&](OpBuilder &nested, Location) { emit(nested, then); },
      [&](OpBuilder &nested, Location) { emit(nested, otherwise); });
}
