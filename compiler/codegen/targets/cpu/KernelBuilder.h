// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The few phrases that CPU kernels are written in: raw pointers with byte offsets, vectors of 16 lanes, counted loops.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KERNELBUILDER_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KERNELBUILDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle {

// Levels of a CPU's caches.
enum class Cache { First, Second };

class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  // Starts the function `name` at the end of `module`.
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef name, llvm::ArrayRef<mlir::Type> parameters);
  mlir::func::FuncOp function;
  mlir::Value argument(unsigned index) { return function.getArgument(index); }
  // Ends the function.
  mlir::func::FuncOp finish();

  mlir::Type ptr, f16, f32, i8, i16, i32, i64;
  // The types of 16 lanes.
  mlir::VectorType v16f32, v16i32;
  mlir::VectorType vec(int64_t lanes, mlir::Type element) { return mlir::VectorType::get(lanes, element); }

  mlir::Value index(int64_t value); // i64
  mlir::Value int32(int32_t value);
  mlir::Value real(float value);
  mlir::Value splat(mlir::Value scalar, int64_t lanes = 16);
  mlir::Value splatInt(uint32_t value, int64_t lanes = 16);
  mlir::Value splatReal(float value) { return splat(real(value)); }

  mlir::Value add(mlir::Value a, mlir::Value b); // integers or floats, as are the rest
  mlir::Value add(mlir::Value a, int64_t b) { return b ? add(a, index(b)) : a; }
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b) { return mul(a, index(b)); }
  mlir::Value divide(mlir::Value a, mlir::Value b); // of non-negative integers
  mlir::Value divide(mlir::Value a, int64_t b) { return divide(a, index(b)); }
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c); // a * b + c, rounded once
  mlir::Value toFloat(mlir::Value ints);
  mlir::Value shiftRight(mlir::Value vector, uint32_t bits);
  mlir::Value maskBits(mlir::Value vector, uint32_t bits);
  mlir::Value bitcast(mlir::Type type, mlir::Value vector);
  mlir::Value lessThan(mlir::Value a, mlir::Value b); // signed
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value minimum(mlir::Value a, mlir::Value b); // signed
  // A mask of the 16 lanes that are columns below `end` where the first is `column`.
  mlir::Value lanesBelow(mlir::Value end, mlir::Value column);
  // The largest begin + i * step that is at most `end`; begin if that is larger.
  mlir::Value wholeSteps(mlir::Value begin, mlir::Value end, int64_t step);
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  // emit(parts) of `lanes` of the 16 lanes of each vector at a time, put together as what the first one is: for instructions with fewer lanes.
  mlir::Value inParts(int64_t lanes, llvm::ArrayRef<mlir::Value> vectors,
                      llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)> emit);

  mlir::Value at(mlir::Value base, mlir::Value byteOffset);
  mlir::Value at(mlir::Value base, int64_t byteOffset);
  // `alignment` 0: that of the element.
  mlir::Value load(mlir::Type type, mlir::Value address, unsigned alignment = 0);
  void store(mlir::Value value, mlir::Value address, unsigned alignment = 0);
  mlir::Value loadMasked(mlir::VectorType type, mlir::Value address, mlir::Value mask);
  void storeMasked(mlir::Value value, mlir::Value address, mlir::Value mask);
  void prefetch(mlir::Value address, Cache to = Cache::First);
  // `bytes` of the function's frame, 64-byte aligned.
  mlir::Value stack(int64_t bytes);

  using Body = llvm::function_ref<void(mlir::Value iv)>;
  using CarryingBody =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value iv, llvm::ArrayRef<mlir::Value> carried)>;
  void loop(mlir::Value begin, mlir::Value end, int64_t step, Body body);
  llvm::SmallVector<mlir::Value> loop(mlir::Value begin, mlir::Value end, int64_t step,
                                      llvm::ArrayRef<mlir::Value> initial, CarryingBody body);
  void branch(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise);
};

} // namespace heddle

#endif
