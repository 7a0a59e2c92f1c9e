// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/Schedules.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace heddle;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

// Threads take neighbouring columns, so that a block reads whole lines.
static void spreadOverThreads(Func func, int64_t extent, int64_t blockThreads) {
  Var inner = func.args()[0], chunk("chunk"), thread("thread");
  if (mlir::ShapedType::isDynamic(extent) || extent <= blockThreads) {
    func.gpu_threads(inner);
    return;
  }
  std::vector<Halide::VarOrRVar> order = {chunk, thread};
  func.split(inner, chunk, thread, int(blockThreads), TailStrategy::GuardWithIf);
  for (size_t d = 1; d < func.args().size(); ++d)
    order.push_back(func.args()[d]);
  func.reorder(order).gpu_threads(thread);
}

// One row of an intermediate, shared by the block. Each of its sums is one thread's: the order of additions is the CPU's.
static void shareRow(RowStage &stage, const Output &anchor, int64_t blockThreads) {
  Func func = stage.func;
  std::vector<Var> vars = func.args();
  for (size_t d = 0; d < vars.size(); ++d)
    if (!mlir::ShapedType::isDynamic(stage.extents[d]))
      func.bound(vars[d], 0, int(stage.extents[d]));
    else
      func.bound_storage(vars[d], 1); // the block's row
  func.compute_at(anchor.func, Var("row")).store_in(Halide::MemoryType::GPUShared);
  if (vars.empty())
    return;
  spreadOverThreads(func, stage.extents[0], blockThreads);
  for (int update = 0; update < func.num_update_definitions(); ++update) {
    Halide::Stage sums = func.update(update);
    const std::vector<Halide::Internal::Dim> &dims = sums.get_schedule().dims();
    // The rest of a row that is no multiple of the sums has no free innermost variable: one thread adds it.
    if (llvm::any_of(dims, [&](const Halide::Internal::Dim &dim) { return dim.var == vars[0].name(); }))
      sums.gpu_threads(vars[0]);
    else
      sums.unscheduled();
  }
}

void heddle::scheduleRowsOnDevice(Algorithm &algorithm, int64_t blockThreads) {
  Output &anchor = algorithm.outputs.front();
  Var row("row");
  for (size_t d = 0; d + 1 < anchor.extents.size(); ++d)
    anchor.func.bound(anchor.func.args()[d], 0, int(anchor.extents[d]));
  // A result without rows' worth of columns is a vector of rows.
  if (anchor.extents.size() > 1)
    spreadOverThreads(anchor.func, anchor.extents[0], blockThreads);
  anchor.func.gpu_blocks(row);
  for (RowStage &stage : algorithm.stages)
    shareRow(stage, anchor, blockThreads);
}
