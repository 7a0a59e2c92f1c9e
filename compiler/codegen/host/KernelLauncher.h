// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How entries launch kernels. The functions of a step run on every thread, which takes its share of each kernel (StepLowering.h); a
// graph runs on one thread and hands tasks to the others (GraphLauncher.h). What a kernel op is called with is said once for both.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_KERNELLAUNCHER_H
#define HEDDLE_COMPILER_CODEGEN_HOST_KERNELLAUNCHER_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/RawBuilder.h"

namespace heddle {

// How many multiply-adds a call is: `each` for every unit of the product of `counts`, which are i64.
struct LaunchedWork {
  llvm::SmallVector<mlir::Value, 4> counts;
  double each = 1;
};

class KernelLauncher {
public:
  virtual ~KernelLauncher() = default;

  // Whether `op` is one that every launcher can lower.
  static bool canLower(mlir::Operation *op);
  // Launches the kernels of such an op with its operands.
  mlir::LogicalResult lower(mlir::Operation *op);

  // Launches the kernels of `op` one after the other with a call for all of the work, which the threads share.
  virtual mlir::LogicalResult launch(mlir::Operation *op, const CallOperands &call, const LaunchedWork &work) = 0;

  // Stands where the call is made.
  virtual RawBuilder &builder() = 0;
  // The first element of a buffer; no value where there is no buffer.
  virtual mlir::Value pointer(mlir::Value buffer) = 0;
  // Of dimension `axis` of a buffer, as i64; a stride counts elements.
  virtual mlir::Value size(mlir::Value buffer, unsigned axis) = 0;
  virtual mlir::Value stride(mlir::Value buffer, unsigned axis) = 0;
  // Memory of this frame that the kernels of one op may read.
  virtual mlir::Value scratch(size_t bytes) = 0;

  mlir::Value rows(mlir::Value buffer) { return size(buffer, 0); }
  mlir::Value rowStride(mlir::Value buffer) { return stride(buffer, 0); }
  // Where these i64 lie in memory, side by side.
  mlir::Value table(mlir::ValueRange numbers);
  // 0 where the dimension is found to be 1 when it runs, else its stride.
  mlir::Value broadcastStride(mlir::Value buffer, unsigned axis);
};

} // namespace heddle

#endif
