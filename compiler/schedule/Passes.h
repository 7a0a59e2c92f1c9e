// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage; Passes.td describes each.
#ifndef HEDDLE_COMPILER_SCHEDULE_PASSES_H
#define HEDDLE_COMPILER_SCHEDULE_PASSES_H

#include "compiler/contract/StagePass.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/schedule/Passes.h.inc"

// Attributes that the stage leaves for codegen and packaging.
constexpr llvm::StringLiteral rowOffsetAttr =
    "heddle.row_offset"; // on memref.alloc: offset = rows * this, from the arena
constexpr llvm::StringLiteral rowBytesAttr = "heddle.row_bytes"; // on the module: arena = rows * this + fixed
constexpr llvm::StringLiteral offsetAttr = "heddle.offset";      // on memref.alloc without rows: from the fixed part
constexpr llvm::StringLiteral fixedBytesAttr = "heddle.fixed_bytes";   // on the module
constexpr llvm::StringLiteral threadBytesAttr = "heddle.thread_bytes"; // on the module, if any: scratch of a thread
// On ops that a step launches, and on the module. A wait is for all threads.
constexpr llvm::StringLiteral runsOnAttr = "heddle.runs_on";                    // no wait behind the op, with many rows
constexpr llvm::StringLiteral runsOnOfOneRowAttr = "heddle.runs_on_of_one_row"; // and with one
constexpr llvm::StringLiteral privateAttr = "heddle.private"; // one row: each thread computes it, in memory of its own
constexpr llvm::StringLiteral ofManyRowsAttr = "heddle.of_many_rows";  // one row: nobody reads it, left out
constexpr llvm::StringLiteral waitsAttr = "heddle.waits";              // on the module: of a step of one row
constexpr llvm::StringLiteral weightsSizeAttr = "heddle.weights_size"; // on the module: bytes of the weights section

// Bytes from a row of a buffer of the arena to the next.
int64_t bytesOfRow(mlir::MemRefType type);

} // namespace heddle

#endif
