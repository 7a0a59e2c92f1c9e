// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds GPU kernels on raw pointers: a thin layer of names over gpu, nvvm, scf, arith and llvm.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUBUILDER_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUBUILDER_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace heddle {

// Threads that execute together.
constexpr int64_t warpSize = 32;
// What cp.async copies and ldmatrix reads at once: a row of an 8 x 8 matrix of bf16.
constexpr int64_t chunkBytes = 16;
constexpr int64_t chunkElements = 8;
// Shared memory that a block has without asking the driver for more; what needs more gets it from the launch.
constexpr int64_t staticSharedBytes = int64_t(48) * 1024;
constexpr int64_t launchedSharedBytes(int64_t bytes) {
  return bytes > staticSharedBytes ? bytes : 0;
}
// After so many bytes of shared memory, the swizzle that wgmma knows begins again.
constexpr int64_t swizzleBytes = 1024;

// Registers of a thread in the warp's product D = A B + C of bf16 matrices A (16, 16), B (16, 8) and f32 C, D (16, 8):
// PTX ISA, "Matrix Fragments for mma.m16n8k16".
using FragmentA = std::array<mlir::Value, 4>;    // i32, two bf16 each
using FragmentB = std::array<mlir::Value, 2>;    // i32, two bf16 each
using Accumulators = std::array<mlir::Value, 4>; // f32: (lane / 4, 2 (lane % 4) + {0, 1}), then the same 8 rows below

// Indices and sizes are i32, 64-bit arithmetic being two instructions on a GPU; only global addresses are 64-bit wide.
class GpuBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;

  // Begins kernel `name` for blocks of `threads` threads at the end of `module`, with parameters as given. The builder
  // stands in its body.
  GpuBuilder(mlir::gpu::GPUModuleOp module, llvm::StringRef name, llvm::ArrayRef<mlir::Type> parameters,
             int64_t threads, int64_t sharedBytes, int64_t sharedAlignment = 128);
  mlir::gpu::GPUFuncOp finish();
  // What a multiprocessor has registers for, at least: without it, the assembler spills to make room for more blocks.
  void setBlocksPerProcessor(int64_t blocks);
  Value argument(unsigned index) { return function.getArgument(index); }

  static mlir::Type globalPointer(mlir::MLIRContext *context);

  Value constant(int64_t value);
  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return b ? add(a, constant(b)) : a; }
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, int64_t b) { return b == 1 ? a : mul(a, constant(b)); }
  // Of operands that are not negative.
  Value divide(Value a, int64_t b);
  Value remainder(Value a, int64_t b);
  Value divideUp(Value a, int64_t b) { return divide(add(a, b - 1), b); }
  Value bitXor(Value a, Value b);
  Value bitAnd(Value a, Value b);
  Value bitOr(Value a, Value b);
  // `bits` moved up by `places`, down where that is negative; zeros follow.
  Value shift(Value bits, int64_t places);
  Value shiftDown(Value bits, Value places);
  // The same number with `places` fewer bits: the sign follows.
  Value shiftSigned(Value value, int64_t places);
  Value min(Value a, Value b);
  Value max(Value a, Value b);
  Value lessThan(Value a, Value b);
  Value equal(Value a, Value b);
  Value select(Value condition, Value a, Value b);

  Value constantBool(bool value);

  Value constantF32(double value);
  Value addF(Value a, Value b);
  Value subF(Value a, Value b);
  Value mulF(Value a, Value b);
  Value divF(Value a, Value b);
  Value fma(Value a, Value b, Value c);
  // The larger one; a NaN gives the other.
  Value maxF(Value a, Value b);
  // 2^x by ex2.approx: within 2 units in the last place, 0 below -126.
  Value exp2(Value x);
  // Correctly rounded.
  Value sqrt(Value x);
  // What the bits of an i32 say as f32, an f16 as f32, an i32 as f32: exact, the last up to 2^24.
  Value floatOfBits(Value bits);
  Value floatOfHalf(Value half);
  Value floatOfInt(Value value);
  // The two bf16 of an i32 as f32, or its two f16; the lower half first.
  std::array<Value, 2> unpackBf16(Value pair);
  std::array<Value, 2> unpackHalves(Value pair);
  // Two f32 as bf16, `low` in the lower half: round to nearest even.
  Value packBf16(Value low, Value high);
  // a b + c of both bf16 of i32, rounded once.
  Value fmaBf16(Value a, Value b, Value c);
  // A vector of f32 as one of f16, likewise.
  Value roundToHalves(Value numbers);

  // Coordinates. `dimension` 0 … 2.
  Value threadIndex();
  Value blockIndex(unsigned dimension);
  void barrier();
  // The value of lane (lane ^ mask) of the warp.
  Value shuffleXor(Value value, int64_t mask);

  // Global memory: pointer + index * bytes; the index is i32 or i64.
  Value at(Value pointer, Value index, int64_t bytes);
  Value load(mlir::Type type, Value pointer);
  void store(Value value, Value pointer);
  // The line of 128 bytes at `pointer` comes to the second-level cache.
  void prefetch(Value pointer);
  // Between the threads of all blocks: what this thread has stored or seen before comes before what it does behind.
  void fence();
  // Atomically, for all blocks: counts *counter up, or where it is `last` back to 0. Returns what it was. Orders nothing.
  Value countUp(Value counter, Value last);
  Value element(Value vector, int64_t index);
  Value vector(ValueRange elements);
  // i32 as i64.
  Value wide(Value value);

  // Shared memory: the kernel's own, from byte `offset` on.
  Value shared(Value byteOffset);
  // 16 bytes from global to shared memory, of which the last (16 - bytes) become 0; `bytes` null: all are copied.
  void copyAsync(Value sharedTo, Value globalFrom, Value bytes);
  void commitCopies();
  // Returns once at most `groups` of this thread's committed groups are unfinished.
  void waitCopies(int64_t groups);
  // Four 8 x 8 matrices of bf16: lane 8 i + r passes the address of row r of matrix i.
  FragmentA loadMatrices(Value sharedRow, bool transposed);
  Accumulators multiply(const FragmentA &a, const FragmentB &b, const Accumulators &c);

  // What this thread has stored in shared memory is seen by products of warpgroups behind the next barrier.
  void fenceForWarpgroups();
  // A wgmma descriptor of a matrix of bf16 in shared memory: rows of 64 columns, whose chunk c lies at c ^ (row mod 8), from byte `byteOffset` on, a
  // multiple of 1024. So many bytes further in each row, below 128: those of the columns from there on. Of a right operand in rows of N, the next 64 columns
  // lie `columnsBytes` behind.
  Value describeRows(Value byteOffset, int64_t columnsBytes = 0);
  Value advance(Value descriptor, int64_t bytes);
  // The blocks of the kernel that differ in the last coordinate alone, `count` of them, are a cluster: they run at once, and read each other's shared memory.
  void setCluster(int64_t count);
  // For all threads of the cluster: what each has stored is seen by all.
  void clusterBarrier();
  // The shared memory of block `rank` of the cluster.
  Value sharedOf(Value byteOffset, int64_t rank);

  // warpgroup_multiply and warpgroup_wait of dialect/GpuOps.td. `columns` of the right operands, in rows of K, are multiplied and begin at 0; those in rows of
  // columns add to `sums`.
  llvm::SmallVector<Value> multiplyAsync(llvm::ArrayRef<FragmentA> a, ValueRange descriptors, ValueRange sums);
  llvm::SmallVector<Value> startProducts(llvm::ArrayRef<FragmentA> a, ValueRange descriptors, int64_t columns);
  llvm::SmallVector<Value> addProducts(llvm::ArrayRef<FragmentA> a, ValueRange transposed, ValueRange sums);
  llvm::SmallVector<Value> waitProducts(int64_t pending, ValueRange sums = {});

  // for (i = begin; i < end; i += 1), with values carried from one round to the next.
  llvm::SmallVector<Value> fold(Value begin, Value end, ValueRange init,
                                llvm::function_ref<llvm::SmallVector<Value>(Value, ValueRange)> body);
  void ifThen(Value condition, llvm::function_ref<void()> body);
  // `body` gives as many values as `otherwise`, which stand where the condition is false.
  llvm::SmallVector<Value> ifElse(Value condition, ValueRange otherwise,
                                  llvm::function_ref<llvm::SmallVector<Value>()> body);

private:
  mlir::gpu::GPUFuncOp function;
  Value sharedBase;
};

} // namespace heddle

#endif
