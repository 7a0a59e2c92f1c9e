// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How entries launch kernels. The functions of a step run on every thread, which takes its share of each kernel (StepLauncher.h); a
// graph runs on one thread and hands tasks to the others (GraphLauncher.h). What a kernel op is called with is said once for both.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_KERNELLAUNCHER_H
#define HEDDLE_COMPILER_CODEGEN_HOST_KERNELLAUNCHER_H

#include "compiler/codegen/host/Buffers.h"
#include "compiler/codegen/host/KernelLibrary.h"
#include "compiler/codegen/kernel/KernelCalls.h"

namespace heddle {

// How many multiply-adds a call is: `each` for every unit of the product of `counts`, which are i64.
struct LaunchedWork {
  llvm::SmallVector<mlir::Value, 4> counts;
  double each = 1;
};

class KernelLauncher {
public:
  // Of `func`, a function over buffers.
  KernelLauncher(mlir::func::FuncOp func, KernelLibrary &kernels)
      : b(func.getLoc(), func.getContext()), func(func), kernels(kernels) {}
  virtual ~KernelLauncher() = default;

  // Whether `op` launches kernels here.
  virtual bool canLaunch(mlir::Operation *op);
  // Puts the launches of such an op in its place.
  mlir::LogicalResult replace(mlir::Operation *op);

  // Launches the kernels of `op` one after the other with a call for all of the work, which the threads share.
  virtual mlir::LogicalResult launch(mlir::Operation *op, const CallOperands &call, const LaunchedWork &work = {}) = 0;

  // The first element of a buffer; no value where there is no buffer.
  mlir::Value pointer(mlir::Value buffer) { return buffer ? addressOf(b, buffer) : mlir::Value(); }
  mlir::Value rows(mlir::Value buffer) { return sizeOf(b, buffer, 0); }
  mlir::Value rowStride(mlir::Value buffer) { return strideOf(b, buffer, 0); }
  // 0 where the dimension is found to be 1 when it runs, else its stride.
  mlir::Value broadcastStride(mlir::Value buffer, unsigned axis);
  // Where these i64 lie in memory, side by side.
  mlir::Value table(mlir::ValueRange numbers);

  RawBuilder b; // stands where the launch is written

protected:
  virtual mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult launchMatmul(PackedMatmulOp op);
  // i64, not 0: bits must not depend on the number of rows.
  virtual mlir::Value isFixed() { return b.constant(0); }
  // Of the schedules' scratchBytes; null in a graph, whose tasks are no thread's.
  virtual mlir::Value threadScratch() { return {}; }
  // Memory of this frame that the kernels of one op may read.
  virtual mlir::Value scratch(size_t bytes) = 0;

  mlir::func::FuncOp func;
  KernelLibrary &kernels;
};

} // namespace heddle

#endif
