// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

SmallVector<ColumnRun> heddle::columnRuns(int64_t columns, unsigned lanes) {
  SmallVector<ColumnRun> runs;
  for (int64_t begin = 0; begin < columns; begin += runs.back().lanes) {
    while (begin + lanes > columns)
      lanes /= 2;
    runs.push_back({begin, lanes});
  }
  return runs;
}

static unsigned lanesOf(Value vector) {
  return cast<VectorType>(vector.getType()).getDimSize(0);
}

Type RawBuilder::pointerType() {
  return LLVM::LLVMPointerType::get(getContext());
}

Value RawBuilder::constant(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value RawBuilder::add(Value a, Value b) {
  return arith::AddIOp::create(*this, a, b);
}
Value RawBuilder::sub(Value a, Value b) {
  return arith::SubIOp::create(*this, a, b);
}
Value RawBuilder::mul(Value a, Value b) {
  return arith::MulIOp::create(*this, a, b);
}
Value RawBuilder::min(Value a, Value b) {
  return arith::MinSIOp::create(*this, a, b);
}
Value RawBuilder::max(Value a, Value b) {
  return arith::MaxSIOp::create(*this, a, b);
}
Value RawBuilder::divide(Value a, Value b) {
  return arith::DivUIOp::create(*this, a, b);
}
Value RawBuilder::divide(Value a, int64_t b) {
  return divide(a, constant(b));
}
Value RawBuilder::remainder(Value a, Value b) {
  return arith::RemUIOp::create(*this, a, b);
}
Value RawBuilder::extend(Value integer) {
  return arith::ExtSIOp::create(*this, getI64Type(), integer);
}
Value RawBuilder::lessThan(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
}
Value RawBuilder::equal(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::eq, a, b);
}
Value RawBuilder::equalF(Value a, Value b) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, a, b);
}

Value RawBuilder::constantF32(double value, unsigned lanes) {
  FloatAttr scalar = getF32FloatAttr(value);
  if (!lanes)
    return arith::ConstantOp::create(*this, scalar);
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(floats(lanes), scalar.getValue()));
}

Value RawBuilder::constantI32(int32_t value, unsigned lanes) {
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(ints(lanes), value));
}

Value RawBuilder::constantZero(Type type) {
  return arith::ConstantOp::create(*this, getZeroAttr(type));
}

Value RawBuilder::broadcast(Value scalar, unsigned lanes) {
  return vector::BroadcastOp::create(*this, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value RawBuilder::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(*this, a, b, c);
}
Value RawBuilder::addF(Value a, Value b) {
  return arith::AddFOp::create(*this, a, b);
}
Value RawBuilder::subF(Value a, Value b) {
  return arith::SubFOp::create(*this, a, b);
}
Value RawBuilder::mulF(Value a, Value b) {
  return arith::MulFOp::create(*this, a, b);
}
Value RawBuilder::divF(Value a, Value b) {
  return arith::DivFOp::create(*this, a, b);
}
Value RawBuilder::maxF(Value a, Value b) {
  return select(arith::CmpFOp::create(*this, arith::CmpFPredicate::OGT, a, b), a, b);
}
Value RawBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}

// Lane l of the result is combine(l, l ^ distance), over all distances.
static Value foldLanes(RawBuilder &b, Value vector, llvm::function_ref<Value(Value, Value)> combine) {
  int64_t lanes = lanesOf(vector);
  for (int64_t distance = lanes / 2; distance; distance /= 2) {
    SmallVector<int64_t> partner;
    for (int64_t lane = 0; lane < lanes; ++lane)
      partner.push_back(lane ^ distance);
    vector = combine(vector, vector::ShuffleOp::create(b, vector, vector, partner));
  }
  return vector;
}

Value RawBuilder::maxOfLanes(Value vector) {
  return foldLanes(*this, vector, [&](Value a, Value b) { return maxF(a, b); });
}

Value RawBuilder::sumOfLanes(Value vector) {
  return foldLanes(*this, vector, [&](Value a, Value b) { return addF(a, b); });
}

Value RawBuilder::maxOfEach(ArrayRef<Value> rows) {
  // A bit of the lane's number after the other tells rows apart: half as many vectors are left each time. Bits that are left over tell nothing apart.
  SmallVector<Value> left(rows);
  for (int64_t lanes = cast<VectorType>(rows[0].getType()).getNumElements(), bit = 1; bit < lanes; bit *= 2) {
    SmallVector<int64_t> own, other;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t from = lane & bit ? lanes : 0;
      own.push_back(from + lane);
      other.push_back(from + (lane ^ bit));
    }
    SmallVector<Value> next;
    if (left.size() == 1)
      left.push_back(left[0]);
    for (size_t i = 0; i < left.size(); i += 2)
      next.push_back(maxF(vector::ShuffleOp::create(*this, left[i], left[i + 1], own),
                          vector::ShuffleOp::create(*this, left[i], left[i + 1], other)));
    left = next;
  }
  return left[0];
}

void RawBuilder::transpose(MutableArrayRef<Value> rows) {
  int64_t lanes = rows.size();
  // Exchange off-diagonal blocks of ever larger size: after distance s, 2s × 2s blocks are transposed.
  for (int64_t distance = 1; distance < lanes; distance *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      low.push_back(lane & distance ? lanes + lane - distance : lane);
      high.push_back(lane & distance ? lanes + lane : lane + distance);
    }
    for (int64_t row = 0; row < lanes; ++row) {
      if (row & distance)
        continue;
      Value a = rows[row], b = rows[row + distance];
      rows[row] = vector::ShuffleOp::create(*this, a, b, low);
      rows[row + distance] = vector::ShuffleOp::create(*this, a, b, high);
    }
  }
}

// The offset is an i64 operand, never a constant index of the op: those keep 30 bits, and weights lie further away than that.
Value heddle::addressAt(OpBuilder &b, Location loc, Value pointer, Value bytes) {
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::GEPOp::create(b, loc, type, b.getI8Type(), pointer, ValueRange{bytes});
}

Value heddle::addressAt(OpBuilder &b, Location loc, Value pointer, int64_t bytes) {
  if (!bytes)
    return pointer;
  return addressAt(b, loc, pointer, LLVM::ConstantOp::create(b, loc, b.getI64IntegerAttr(bytes)).getResult());
}

Value RawBuilder::at(Value pointer, Value bytes) {
  return addressAt(*this, getLoc(), pointer, bytes);
}
Value RawBuilder::at(Value pointer, int64_t bytes) {
  return addressAt(*this, getLoc(), pointer, bytes);
}

static unsigned elementBytes(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 8;
}

Value RawBuilder::load(Type type, Value pointer) {
  return LLVM::LoadOp::create(*this, type, pointer, elementBytes(type));
}

Value RawBuilder::loadMasked(VectorType type, Value pointer, Value mask) {
  return LLVM::MaskedLoadOp::create(*this, type, pointer, mask, constantZero(type), elementBytes(type));
}

Value RawBuilder::loadIndex(Value pointer) {
  return arith::ExtSIOp::create(*this, getI64Type(), load(getI32Type(), pointer));
}

void RawBuilder::store(Value value, Value pointer) {
  LLVM::StoreOp::create(*this, value, pointer, elementBytes(value.getType()));
}

Value RawBuilder::lane0(Value vector) {
  return vector::ExtractOp::create(*this, vector, int64_t(0));
}

Value RawBuilder::loadKv(KvType type, Value pointer, unsigned lanes) {
  if (type == KvType::F32)
    return loadFloats(pointer, lanes);
  if (type == KvType::F16)
    return arith::ExtFOp::create(*this, floats(lanes), load(VectorType::get({lanes}, getF16Type()), pointer));
  Value bits = arith::ShLIOp::create(*this, loadHalves(pointer, lanes), constantI32(16, lanes));
  return arith::BitcastOp::create(*this, floats(lanes), bits);
}

Value RawBuilder::loadHalves(Value pointer, unsigned lanes) {
  return arith::ExtUIOp::create(*this, ints(lanes), load(VectorType::get({lanes}, getI16Type()), pointer));
}

Value RawBuilder::joinHalves(Value low, Value high, unsigned first, unsigned lanes) {
  SmallVector<int64_t> order;
  for (int64_t lane = first, end = first + lanes; lane < end; ++lane)
    order.append({lane, lane + int64_t(lanesOf(low))});
  return vector::BitCastOp::create(*this, ints(lanes), vector::ShuffleOp::create(*this, low, high, order));
}

Value RawBuilder::dotPairs(Value a, Value b, Value acc, PairDot instruction) {
  unsigned lanes = lanesOf(a);
  if (instruction != PairDot::None && lanes >= 4) {
    std::string name = instruction == PairDot::Neon ? "llvm.aarch64.neon.bfdot"
                                                    : "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(lanes * 32);
    auto halves = VectorType::get({2 * int64_t(lanes)}, getBF16Type());
    Value x = vector::BitCastOp::create(*this, halves, a), y = vector::BitCastOp::create(*this, halves, b);
    return LLVM::CallIntrinsicOp::create(*this, acc.getType(), getStringAttr(name), ValueRange{acc, x, y}).getResult(0);
  }
  auto [lowA, highA] = widenPair(a);
  auto [lowB, highB] = widenPair(b);
  return fma(lowA, lowB, fma(highA, highB, acc));
}

std::pair<Value, Value> RawBuilder::widenPair(Value bits) {
  unsigned lanes = lanesOf(bits);
  Value low = arith::ShLIOp::create(*this, bits, constantI32(16, lanes));
  Value high = arith::AndIOp::create(*this, bits, constantI32(int32_t(0xffff0000), lanes));
  return {arith::BitcastOp::create(*this, floats(lanes), low), arith::BitcastOp::create(*this, floats(lanes), high)};
}

// The upper half of the bits after adding just under half a unit, or half of one where the last kept bit is odd; a NaN
// keeps its sign and is made quiet, since the addition could carry it into infinity.
static Value roundToBf16(RawBuilder &b, Value value) {
  unsigned lanes = lanesOf(value);
  Value bits = arith::BitcastOp::create(b, b.ints(lanes), value);
  Value high = arith::ShRUIOp::create(b, bits, b.constantI32(16, lanes));
  Value odd = arith::AndIOp::create(b, high, b.constantI32(1, lanes));
  Value bias = arith::AddIOp::create(b, odd, b.constantI32(0x7fff, lanes));
  Value rounded = arith::ShRUIOp::create(b, arith::AddIOp::create(b, bits, bias), b.constantI32(16, lanes));
  Value quiet = arith::OrIOp::create(b, high, b.constantI32(0x40, lanes));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value kept = b.select(isNan, quiet, rounded);
  return arith::TruncIOp::create(b, VectorType::get({lanes}, b.getI16Type()), kept);
}

void RawBuilder::storeKv(KvType type, Value floats, Value pointer) {
  if (type == KvType::F32)
    return store(floats, pointer);
  if (type == KvType::BF16)
    return store(roundToBf16(*this, floats), pointer);
  store(arith::TruncFOp::create(*this, VectorType::get({lanesOf(floats)}, getF16Type()), floats), pointer);
}

Value RawBuilder::roundTwo(Value first, Value second, PairDot instructions) {
  int64_t lanes = lanesOf(first);
  if (instructions == PairDot::Neon) { // bfcvtn
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(2 * lanes));
    Value both = vector::ShuffleOp::create(*this, first, second, order);
    return arith::TruncFOp::create(*this, VectorType::get({2 * lanes}, getBF16Type()), both);
  }
  auto type = VectorType::get({32}, getBF16Type());
  auto name = getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512");
  return LLVM::CallIntrinsicOp::create(*this, type, name, ValueRange{second, first}).getResult(0);
}

void RawBuilder::prefetch(Value pointer, CacheLevel level) {
  LLVM::Prefetch::create(*this, pointer, /*rw=*/0, /*hint=*/level == CacheLevel::First ? 3 : 2, /*cache=*/1);
}

Value RawBuilder::stackScratch(int64_t bytes) {
  return LLVM::AllocaOp::create(*this, pointerType(), getI8Type(), constant(bytes), /*alignment=*/64);
}

void RawBuilder::loop(Value begin, Value end, Value step, llvm::function_ref<void(Value)> body) {
  auto op = scf::ForOp::create(*this, begin, end, step);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  body(op.getInductionVar());
}

void RawBuilder::loop(Value begin, Value end, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(begin, end, constant(step), body);
}

void RawBuilder::loop(int64_t begin, int64_t end, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(constant(begin), constant(end), step, body);
}

SmallVector<Value> RawBuilder::fold(Value begin, Value end, ArrayRef<Value> init,
                                    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(*this, begin, end, constant(1), init);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  scf::YieldOp::create(*this, body(op.getInductionVar(), op.getRegionIterArgs()));
  return SmallVector<Value>(op.getResults());
}

void RawBuilder::ifThen(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  body();
}

func::FuncOp heddle::beginFunction(RawBuilder &b, ModuleOp module, StringRef name, ArrayRef<Type> parameters) {
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, name, b.getFunctionType(parameters, {}));
  // A kernel calls nothing: no loop is turned into memset or memcpy.
  function->setAttr("passthrough", b.getStrArrayAttr({"no-builtins"}));
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}
