// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function of the step on its way to machine code. StepCode.cpp walks its ops and launches; StepAttention.cpp, StepExperts.cpp
// and StepRowWise.cpp have the ops that only a step contains: over the cache, of a mixture's lists, of Halide.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_STEPLOWERING_H
#define HEDDLE_COMPILER_CODEGEN_HOST_STEPLOWERING_H

#include "compiler/codegen/host/KernelLauncher.h"
#include "compiler/codegen/host/KernelLibrary.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <tuple>

namespace heddle {

// How far apart the rows of a buffer lie, in elements.
int64_t rowStrideOf(mlir::MemRefType type);

// Lowers one function, which every thread runs: it takes its share of a kernel, then waits for the others.
class StepLowering : KernelLauncher {
public:
  StepLowering(mlir::func::FuncOp func, KernelLibrary &kernels, const Target &target, unsigned calls)
      : func(func), kernels(kernels), target(target), calls(calls), b(func.getLoc(), func.getContext()) {}
  mlir::LogicalResult run(bool isStep);

private:
  void begin(bool isStep);
  void mapStepArguments();
  mlir::Value field(size_t offset, mlir::Type type) { return b.load(type, b.at(context, offset)); }
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerView(mlir::Operation *op);
  mlir::LogicalResult lowerRoute(RouteExpertsOp op);
  mlir::LogicalResult lowerExperts(ExpertMatmulOp op);
  void clearColumns(mlir::Value buffer, mlir::Value begin, mlir::Value end);
  mlir::LogicalResult lowerAttention(OnlineAttentionOp op);
  mlir::LogicalResult lowerSplitAttention(OnlineAttentionOp op);
  mlir::LogicalResult lowerRaggedAttention(RaggedAttentionOp op);
  mlir::LogicalResult lowerLatentAttention(OnlineLatentAttentionOp op);
  mlir::LogicalResult lowerCombine(CombineSplitsOp op);
  mlir::LogicalResult lowerPreference(PreferSplitsOp op);
  mlir::LogicalResult lowerBranch(mlir::scf::IfOp op);
  mlir::LogicalResult lowerAppend(KvAppendOp op);
  mlir::LogicalResult lowerRowWise(KernelCallOp op);
  mlir::LogicalResult lowerCall(mlir::func::CallOp op);
  mlir::LogicalResult launch(mlir::Operation *op, const CallOperands &call, const LaunchedWork &work = {}) override;
  // Calls a kernel of `op` on this thread.
  void callKernel(mlir::Operation *op, mlir::func::FuncOp kernel, llvm::SmallVector<mlir::Value> arguments);
  // Ends the kernel launched last: waits for all threads, then counts its time.
  void finishKernel();
  // Under --profile, thread 0 reads the clock; `then` gets the time.
  void whenProfiled(llvm::function_ref<void(mlir::Value)> then);
  void startClock();
  // This thread's [begin, end) of `count` equal parts.
  std::pair<mlir::Value, mlir::Value> share(mlir::Value count);
  mlir::Value halideBuffer(mlir::MemRefType type, mlir::Value pointer, mlir::Value rows);
  // Byte offsets of a layer's K and V in a page.
  std::pair<mlir::Value, mlir::Value> planes(KvCacheType cache, mlir::Value layer);
  mlir::Value pointerOf(mlir::Value buffer) { return pointers.lookup(buffer); }
  RawBuilder &builder() override { return b; }
  mlir::Value pointer(mlir::Value buffer) override { return buffer ? pointerOf(buffer) : mlir::Value(); }
  mlir::Value size(mlir::Value buffer, unsigned axis) override;
  mlir::Value stride(mlir::Value buffer, unsigned axis) override;
  mlir::Value scratch(size_t bytes) override;
  // The sequences of the step, and their number.
  mlir::Value sequences();
  mlir::Value numSequences();

  mlir::func::FuncOp func;
  KernelLibrary &kernels;
  const Target &target;
  unsigned calls; // of this function in a step
  RawBuilder b;
  mlir::Value context, thread, numThreads, arena, stepRows, maxRows;
  mlir::Value fixedArena;                             // the arena's part that does not depend on the rows
  mlir::Value ticks, isProfiled;                      // kernel_ticks; thread 0 of a step that has them
  mlir::Value lastTime;                               // in memory: when the kernel before ended
  unsigned launched = 0;                              // index of the kernel launched last
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;  // buffer -> its first element
  llvm::DenseMap<mlir::Value, mlir::Value> rowCounts; // buffer -> rows, i64
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;   // index -> i64, i1
};

} // namespace heddle

#endif
