// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The call of a kernel from a graph: a struct that says what only the run knows (addresses, sizes, strides), and the task that reads it.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHTASK_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHTASK_H

#include "compiler/codegen/host/CallSource.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace heddle {

// `bytes` of memory in the frame of `graph`: one struct serves all calls of a kind, which run one after the other.
mlir::Value taskMemory(mlir::func::FuncOp graph, size_t bytes);

// Writes one call where `op` stands, which is erased with it. Offsets are of fields of the struct in `memory`; numbers are i64.
class GraphTask : public CallSource {
public:
  GraphTask(mlir::Operation *op, mlir::func::FuncOp graph, mlir::Value memory)
      : op(op), graph(graph), memory(memory), b(op), loc(op->getLoc()) {}

  mlir::Value constant(int64_t value);
  // Of dimension `axis` of a buffer; a stride counts elements.
  mlir::Value size(mlir::Value buffer, unsigned axis);
  mlir::Value stride(mlir::Value buffer, unsigned axis);
  void store(size_t offset, mlir::Value value);
  // The address of the buffer's first element; null for no buffer.
  void storePointer(size_t offset, mlir::Value buffer);
  mlir::Value number(int64_t value) override { return constant(value); }
  // As a number.
  mlir::Value pointer(mlir::Value buffer) override;
  mlir::Value rows(mlir::Value buffer) override { return size(buffer, 0); }
  mlir::Value rowStride(mlir::Value buffer) override { return stride(buffer, 0); }
  // 0 where dimension `axis` is found to be 1 when it runs, else its stride.
  mlir::Value broadcastStride(mlir::Value buffer, unsigned axis);

  // Takes part in the number of multiply-adds, a product in f64, which no sizes wrap; gives `size` back.
  mlir::Value counted(mlir::Value size);
  // Calls `task` (memory, thread, num_threads): on every thread if there are multiply-adds enough, `each` for every unit counted.
  void run(mlir::func::FuncOp task, double each = 1);

private:
  mlir::memref::ExtractStridedMetadataOp parts(mlir::Value buffer);
  mlir::Value toInteger(mlir::Value index);

  mlir::Operation *op;
  mlir::func::FuncOp graph;
  mlir::Value memory, work;
  mlir::OpBuilder b;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, mlir::memref::ExtractStridedMetadataOp> metadata;
};

} // namespace heddle

#endif
