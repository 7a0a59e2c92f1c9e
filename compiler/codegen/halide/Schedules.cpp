// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/Schedules.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace heddle;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

// Vectors of a rotary embedding's period that become straight code: 32 are heads of 128 values on NEON.
constexpr int64_t maxUnrolled = 32;

// Vectors along the innermost dimension, within runs of neighbours. GuardWithIf: no lane is computed beyond the extent.
static void vectorizeInnermost(Func func, int64_t extent, Contiguity contiguity, int lanes) {
  Var inner = func.args()[0], chunk("chunk"), part("part"), lane("lane");
  if (mlir::ShapedType::isDynamic(extent) || extent < 2)
    return;
  int64_t run = contiguity.run, runsPerPeriod = contiguity.period / run;
  if (run >= extent || run < 4 || extent % run != 0) {
    func.vectorize(inner, int(std::min<int64_t>(lanes, extent)), TailStrategy::GuardWithIf);
    return;
  }
  func.split(inner, chunk, inner, int(run), TailStrategy::GuardWithIf);
  int vector = int(std::min<int64_t>(lanes, run));
  func.vectorize(inner, vector, TailStrategy::GuardWithIf);
  // Runs of a rotary embedding differ: unrolled, each is straight code with constant offsets.
  if (runsPerPeriod > 1 && contiguity.period / vector <= maxUnrolled && extent / run % runsPerPeriod == 0) {
    func.split(chunk, chunk, part, int(runsPerPeriod), TailStrategy::GuardWithIf);
    func.unroll(inner).unroll(part);
  }
}

// One row of an intermediate, on the stack: constant bounds in every other dimension.
static void keepRow(RowStage &stage, const Output &anchor, int lanes) {
  Func func = stage.func;
  std::vector<Var> vars = func.args();
  for (size_t d = 0; d < vars.size(); ++d)
    if (!mlir::ShapedType::isDynamic(stage.extents[d]))
      func.bound(vars[d], 0, int(stage.extents[d]));
    else
      func.bound_storage(vars[d], 1); // fused row loops hide that they meet in one row
  func.compute_at(anchor.func, Var("row")).store_in(Halide::MemoryType::Stack);
  if (vars.empty())
    return;
  switch (stage.kind) {
  case StageKind::Elementwise:
    return vectorizeInnermost(func, stage.extents[0], stage.contiguity, lanes);
  case StageKind::PartialSums:
    func.vectorize(vars[0], lanes, TailStrategy::GuardWithIf);
    for (int update = 0; update < func.num_update_definitions(); ++update) {
      // The rest of a row that is no multiple of the sums is added one by one: it has no free innermost variable.
      Halide::Stage sums = func.update(update);
      const std::vector<Halide::Internal::Dim> &dims = sums.get_schedule().dims();
      if (llvm::any_of(dims, [&](const Halide::Internal::Dim &dim) { return dim.var == vars[0].name(); }))
        sums.reorder(vars[0], Halide::RVar(dims[0].var)).vectorize(vars[0], lanes).unroll(vars[0]); // in registers
      else
        sums.unscheduled();
    }
    return;
  case StageKind::Fold:
    func.vectorize(vars[0], int(std::min<int64_t>(lanes, stage.extents[0])), TailStrategy::GuardWithIf);
    return;
  case StageKind::Scalar:
    return;
  case StageKind::BlockReduction:
    vectorizeInnermost(func, stage.extents[0], stage.contiguity, lanes);
    func.update().atomic().vectorize(stage.reduced);
    return;
  case StageKind::Reduction:
    vectorizeInnermost(func, stage.extents[0], stage.contiguity, lanes);
    if (!mlir::ShapedType::isDynamic(stage.extents[0]) && stage.extents[0] > 1) {
      const std::vector<Halide::Internal::Dim> dims = func.update().get_schedule().dims();
      std::vector<Halide::VarOrRVar> order = {vars[0]};
      for (const Halide::Internal::Dim &dim : dims)
        if (dim.is_rvar())
          order.push_back(Halide::RVar(dim.var));
      func.update().reorder(order).vectorize(vars[0], int(std::min<int64_t>(lanes, stage.extents[0])),
                                             TailStrategy::GuardWithIf);
    } else {
      func.update().unscheduled();
    }
    return;
  }
}

void heddle::scheduleRows(Algorithm &algorithm, unsigned lanes) {
  Output &anchor = algorithm.outputs.front();
  Var row("row");
  for (Output &output : algorithm.outputs) {
    for (size_t d = 0; d + 1 < output.extents.size(); ++d)
      output.func.bound(output.func.args()[d], 0, int(output.extents[d]));
    // A result without rows' worth of columns is a vector of rows.
    if (output.extents.size() > 1)
      vectorizeInnermost(output.func, output.extents[0], output.contiguity, lanes);
    // One loop over rows: what results share is computed once.
    if (&output != &anchor)
      output.func.compute_with(anchor.func, row);
  }
  for (RowStage &stage : algorithm.stages)
    keepRow(stage, anchor, lanes);
}
