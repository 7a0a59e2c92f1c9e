// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of f32 buffers whose sizes and strides are known when they run: those of graphs.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PRODUCTKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PRODUCTKERNEL_H

#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// One product, as the kernel reads it: c[o] += a[o] b[o] for every o of the outer loops. Strides count elements.
struct ProductCall {
  static constexpr int64_t mostOuter = 6;
  struct Outer {
    int64_t size, a, b, c; // strides of what stays where it is are 0
  };
  const float *a; // (m, k)
  const float *b; // (k, n)
  float *c;       // (m, n): a row's columns lie side by side
  int64_t m, n, k;
  int64_t aRow, aColumn, bRow, bColumn, cRow;
  int64_t numOuter;
  Outer outer[mostOuter];
};

// With the tile for many rows of a CPU's schedule for products, adds to `module` void name(const ProductCall *, int64_t thread, int64_t numThreads), which computes thread `thread`'s share.
// Every element is one chain of fused multiply-adds along k, ascending, from what c held: its bits depend on neither the number
// of threads nor the other elements. It takes up to 64 KiB of stack.
mlir::func::FuncOp buildProduct(mlir::ModuleOp module, llvm::StringRef name, ScheduleAttr schedule);

} // namespace heddle

#endif
