// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step runs on every thread: each takes its share of a kernel, then waits for the others. StepLauncher.cpp has the launch itself;
// StepAttention.cpp, StepExperts.cpp and StepRowWise.cpp have the ops that only a step contains: over the cache, of a mixture's lists, of
// Halide.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_STEPLAUNCHER_H
#define HEDDLE_COMPILER_CODEGEN_HOST_STEPLAUNCHER_H

#include "compiler/codegen/host/KernelLauncher.h"

namespace heddle {

// What every function of a step takes before its own arguments: (const heddle_step *, thread, num_threads).
struct StepFrame {
  explicit StepFrame(mlir::func::FuncOp func)
      : context(func.getArgument(0)), thread(func.getArgument(1)), numThreads(func.getArgument(2)) {}
  static constexpr unsigned numArguments = 3;

  mlir::Value context, thread, numThreads;
};

// Of the step at `step`: its waits_for_each; whether it is of one row that is computed as one.
std::pair<mlir::Value, mlir::Value> kindOfStep(RawBuilder &b, mlir::Value step);

class StepLauncher : public KernelLauncher {
public:
  // `calls`: how often a step calls `func`. `sources`: op → op of the scheduled module.
  StepLauncher(mlir::func::FuncOp func, KernelLibrary &kernels, const Target &target, unsigned calls,
               const llvm::DenseMap<mlir::Operation *, mlir::Operation *> &sources);

  bool canLaunch(mlir::Operation *op) override;

private:
  mlir::LogicalResult lower(mlir::Operation *op) override;
  mlir::LogicalResult lowerRoute(RouteExpertsOp op);
  mlir::LogicalResult lowerExperts(ExpertMatmulOp op);
  mlir::LogicalResult lowerDeviceExperts(ExpertMatmulOp op, mlir::func::FuncOp kernel);
  void clearColumns(mlir::Value buffer, mlir::Value begin, mlir::Value end);
  mlir::LogicalResult lowerAttention(OnlineAttentionOp op);
  mlir::LogicalResult lowerSplitAttention(OnlineAttentionOp op);
  mlir::LogicalResult lowerRaggedAttention(RaggedAttentionOp op);
  mlir::LogicalResult lowerLatentAttention(OnlineLatentAttentionOp op);
  mlir::LogicalResult lowerCombine(CombineSplitsOp op);
  mlir::LogicalResult lowerPreference(PreferSplitsOp op);
  mlir::LogicalResult lowerAppend(KvAppendOp op);
  mlir::LogicalResult lowerRotateAppend(RotateAppendOp op);
  mlir::LogicalResult lowerConv(RaggedConvOp op);
  mlir::LogicalResult lowerLinearAttention(RaggedLinearAttentionOp op);
  // Bytes of a page in front of an op's part of a layer's state.
  mlir::Value stateOffset(KvCacheType cache, mlir::Value layer, int64_t offset);
  mlir::LogicalResult lowerRowWise(KernelCallOp op);
  mlir::LogicalResult launch(mlir::Operation *op, const CallOperands &call, const LaunchedWork &work = {}) override;
  mlir::Value scratch(size_t bytes) override;
  mlir::Value isFixed() override;
  mlir::Value threadScratch() override;
  // Calls a kernel of `op` on this thread.
  void callKernel(mlir::Operation *op, mlir::func::FuncOp kernel, llvm::SmallVector<mlir::Value> arguments);
  // Ends the kernel of `op` that was launched last: waits for all threads, then counts its time and its rows. Behind the last of an op
  // plan-barriers may have found the wait needless.
  void finishKernel(mlir::Operation *op, bool isLast = false);
  void waitForThreads(mlir::Operation *op, bool isLast);
  mlir::Value isManyRows();
  // Under --profile, thread 0 reads the clock; `then` gets the time.
  void whenProfiled(llvm::function_ref<void(mlir::Value)> then);
  void startClock();
  // This thread's [begin, end) of `count` equal parts.
  std::pair<mlir::Value, mlir::Value> share(mlir::Value count);
  // Halide's, of `rows` rows at `pointer`; `rows` null: the buffer has no rows, or is read as a whole.
  mlir::Value halideBuffer(mlir::MemRefType type, mlir::Value pointer, mlir::Value rows);
  // Byte offsets of a layer's K and V in a page.
  std::pair<mlir::Value, mlir::Value> planes(KvCacheType cache, mlir::Value layer);
  mlir::Value field(size_t offset, mlir::Type type) { return b.load(type, b.at(frame.context, int64_t(offset))); }
  // Of what the op writes; 1 where nothing of it has rows.
  mlir::Value rowsOf(mlir::Operation *op);
  // The sequences of the step as the cache holds them, and their number.
  mlir::Value sequences(KvCacheType cache);
  mlir::Value numSequences();

  const Target &target;
  unsigned calls;
  const llvm::DenseMap<mlir::Operation *, mlir::Operation *> &sources;
  StepFrame frame;
  mlir::Value waitsForEach, isOneRow; // the step's waits_for_each; one row that is computed as one
  mlir::Value profile, isProfiled;    // kernel_profile; thread 0 of a step that has it
  mlir::Value lastTime,
      arrivalTime;       // in memory: when the kernel before ended; when this thread was done with its share
  unsigned launched = 0; // index of the kernel launched last
};

} // namespace heddle

#endif
