// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds kernels on raw pointers: a thin layer of names over arith, scf, vector and llvm.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_RAWBUILDER_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_RAWBUILDER_H

#include "compiler/codegen/kernel/KvType.h"
#include "compiler/codegen/machine/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle {

// A run of `lanes` (a power of two) columns from `begin`.
struct ColumnRun {
  int64_t begin;
  unsigned lanes;
};

// `columns` columns as runs of `lanes`, then of ever narrower vectors for the tail: 20 → 16 + 4.
llvm::SmallVector<ColumnRun> columnRuns(int64_t columns, unsigned lanes);

// pointer + bytes, for offsets of any size.
mlir::Value addressAt(mlir::OpBuilder &b, mlir::Location loc, mlir::Value pointer, mlir::Value bytes);
mlir::Value addressAt(mlir::OpBuilder &b, mlir::Location loc, mlir::Value pointer, int64_t bytes);

enum class CacheLevel { First, Second };

class RawBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Type pointerType();
  mlir::VectorType floats(unsigned lanes) { return mlir::VectorType::get({lanes}, getF32Type()); }
  mlir::VectorType ints(unsigned lanes) { return mlir::VectorType::get({lanes}, getI32Type()); }

  // i64 arithmetic, signed.
  Value constant(int64_t value);
  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return b ? add(a, constant(b)) : a; }
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, int64_t b) { return mul(a, constant(b)); }
  Value min(Value a, Value b);
  Value max(Value a, Value b);
  // Of operands that are not negative.
  Value divide(Value a, int64_t b);
  Value divideUp(Value a, int64_t b) { return divide(add(a, b - 1), b); }
  Value remainder(Value a, Value b);
  Value divide(Value a, Value b);
  Value divideUp(Value a, Value b) { return divide(add(a, sub(b, constant(1))), b); }
  // An i32 as i64.
  Value extend(Value integer);
  Value lessThan(Value a, Value b);
  Value equal(Value a, Value b);
  Value equalF(Value a, Value b);

  // f32 vectors, or scalars where `lanes` is 0.
  Value constantF32(double value, unsigned lanes = 0);
  Value constantI32(int32_t value, unsigned lanes);
  Value constantZero(mlir::Type type);
  Value broadcast(Value scalar, unsigned lanes);
  Value fma(Value a, Value b, Value c);
  Value addF(Value a, Value b);
  Value subF(Value a, Value b);
  Value mulF(Value a, Value b);
  Value divF(Value a, Value b);
  // The larger one; a NaN in `a` gives `b`, one in `b` stays.
  Value maxF(Value a, Value b);
  Value select(Value condition, Value a, Value b);

  // Every lane holds the result, folded as a tree over lanes.
  Value maxOfLanes(Value vector);
  Value sumOfLanes(Value vector);
  // Lane r: the largest of rows[r modulo their number], a power of two, at most that of the lanes.
  Value maxOfEach(llvm::ArrayRef<Value> rows);
  // rows[i] lane j ↔ rows[j] lane i, for as many rows as lanes.
  void transpose(llvm::MutableArrayRef<Value> rows);

  // Memory. Offsets count bytes; alignment is that of an element unless given.
  Value at(Value pointer, Value bytes);
  Value at(Value pointer, int64_t bytes);
  // pointer + index * bytes
  Value at(Value pointer, Value index, int64_t bytes) { return at(pointer, mul(index, bytes)); }
  Value load(mlir::Type type, Value pointer);
  Value loadFloats(Value pointer, unsigned lanes) { return load(floats(lanes), pointer); }
  Value loadFloat(Value pointer) { return load(getF32Type(), pointer); }
  // The lanes of `mask`, a vector of i1, from memory; zeros in the others, of which nothing is read.
  Value loadMasked(mlir::VectorType type, Value pointer, Value mask);
  // A float in memory in all lanes.
  Value loadBroadcast(Value pointer, unsigned lanes) { return broadcast(loadFloat(pointer), lanes); }
  // An i32 in memory as i64.
  Value loadIndex(Value pointer);
  void store(Value value, Value pointer);
  Value lane0(Value vector);
  void storeLane0(Value vector, Value pointer) { store(lane0(vector), pointer); }
  // Elements of the cache as f32, and back: bf16 and f16 round to nearest even.
  Value loadKv(KvType type, Value pointer, unsigned lanes);
  // Lanes of two bf16 as their f32: (low halves, high halves).
  std::pair<Value, Value> widenPair(Value bits);
  // 16-bit elements as the low halves of i32 lanes.
  Value loadHalves(Value pointer, unsigned lanes);
  // Lanes [first, first + lanes) of two vectors of 16-bit elements, as the low and the high halves of i32.
  Value joinHalves(Value low, Value high, unsigned first, unsigned lanes);
  // acc + high(a) high(b) + low(a) low(b) for i32 lanes of two bf16; one instruction where there is one.
  Value dotPairs(Value a, Value b, Value acc, PairDot instruction);
  void storeKv(KvType type, Value floats, Value pointer);
  // Two vectors of floats as bf16, one after the other, by the instructions of a target that has some.
  Value roundTwo(Value first, Value second, PairDot instructions);
  // Asks for the line at `pointer`.
  void prefetch(Value pointer, CacheLevel level = CacheLevel::Second);
  // 64-byte aligned scratch on the stack; call it in the entry block.
  Value stackScratch(int64_t bytes);

  // for (i = begin; i < end; i += step)
  void loop(Value begin, Value end, int64_t step, llvm::function_ref<void(Value)> body);
  void loop(Value begin, Value end, Value step, llvm::function_ref<void(Value)> body);
  void loop(int64_t begin, int64_t end, int64_t step, llvm::function_ref<void(Value)> body);
  // The same, with values carried from one round to the next.
  llvm::SmallVector<Value> fold(Value begin, Value end, llvm::ArrayRef<Value> init,
                                llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)> body);
  void ifThen(Value condition, llvm::function_ref<void()> body);
};

// An empty C function `name` at the end of `module`; the builder stands in its entry block.
mlir::func::FuncOp beginFunction(RawBuilder &builder, mlir::ModuleOp module, llvm::StringRef name,
                                 llvm::ArrayRef<mlir::Type> parameters);

} // namespace heddle

#endif
