// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph runs on one thread. A kernel op becomes a *task*: a function (call, part, num_parts) that reads what its kernel is called
// with from memory and runs it on that part. The graph fills that memory and hands the task to the runtime, whose threads run the parts,
// each the next one as it comes; where the work is too small to wake them, the graph calls it as the one thread that there is.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHLAUNCHER_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHLAUNCHER_H

#include "compiler/codegen/host/KernelLauncher.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {

// Memory in the frame of a graph, of as many bytes as were asked for at once: calls run one after the other.
class FrameMemory {
public:
  explicit FrameMemory(mlir::func::FuncOp graph) : graph(graph) {}
  mlir::Value reserve(size_t bytes);

private:
  mlir::func::FuncOp graph;
  mlir::arith::ConstantOp size;
  mlir::Value address;
};

// Of which calls parts are cut by rows as well.
enum class SharedRows : uint8_t { None, OfPackedMatmul, OfIntegerMatmul };

// How the parts of a task are cut.
struct TaskDivision {
  int64_t tile = 1; // items that the kernel computes at a time
  SharedRows rows = SharedRows::None;
  int64_t actBytes = 0; // of an element of such a product's rows
};

// Tasks, and the kernels that they call, are defined in the library's module of code; the graph's module declares them.
class GraphLauncher : public KernelLauncher {
public:
  GraphLauncher(mlir::func::FuncOp graph, KernelLibrary &kernels)
      : KernelLauncher(graph, kernels), calls(graph), tables(graph) {}

private:
  mlir::LogicalResult launch(mlir::Operation *op, const CallOperands &call, const LaunchedWork &work) override;
  mlir::Value scratch(size_t bytes) override { return tables.reserve(bytes); }
  // Parameter i of a call lies in slot i.
  mlir::Value store(const CallOperands &call);
  TaskDivision divisionOf(mlir::Operation *op);
  mlir::func::FuncOp taskOf(mlir::func::FuncOp kernel, llvm::ArrayRef<ParameterKind> parameters,
                            const TaskDivision &division);

  FrameMemory calls, tables;
};

} // namespace heddle

#endif
