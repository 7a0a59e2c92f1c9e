// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/HalideEmitter.h"

#include "compiler/codegen/halide/EmitPipeline.h"
#include "compiler/codegen/halide/Schedules.h"
#include "compiler/codegen/kernel/StepRows.h"

using namespace heddle;
using namespace mlir;

FailureOr<std::string> heddle::emitHalideKernel(func::FuncOp kernel, ScheduleAttr schedule, const Target &target,
                                                llvm::StringRef symbol) {
  return emitPipeline(kernel.getLoc(), target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    FailureOr<Algorithm> algorithm = buildAlgorithm(kernel, symbol, maxStepRows(target));
    if (failed(algorithm))
      return failure();
    if (target.isDevice() && algorithm->outputs.size() != 1)
      return kernel.emitError("a kernel of a device has one result, this one has ") << algorithm->outputs.size();
    if (target.isDevice())
      scheduleRowsOnDevice(*algorithm, schedule.getTile(TileRole::Threads).getColumns());
    else
      scheduleRows(*algorithm, target.cpu.vectorLanes());
    ScheduledPipeline pipeline{algorithm->arguments, {}};
    for (const Output &output : algorithm->outputs)
      pipeline.results.push_back(output.func);
    return pipeline;
  });
}
