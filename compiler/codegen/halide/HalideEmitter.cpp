// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/HalideEmitter.h"

#include "compiler/codegen/halide/EmitPipeline.h"
#include "compiler/codegen/halide/Schedules.h"
#include "compiler/codegen/kernel/StepRows.h"
#include "compiler/codegen/machine/ObjectCache.h"

using namespace heddle;
using namespace mlir;

// All that a kernel's object follows from besides what the cache adds: the processor, and the code at work.
static std::string describe(func::FuncOp kernel, ScheduleAttr schedule, const Target &target, llvm::StringRef symbol) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "Halide, device " << int(target.device) << ", rows " << maxStepRows(target) << ", lanes "
     << target.cpu.vectorLanes() << ", symbol " << symbol << "\n"
     << schedule << "\n";
  kernel->print(os, OpPrintingFlags().useLocalScope().printGenericOpForm());
  return text;
}

static FailureOr<std::string> emit(func::FuncOp kernel, ScheduleAttr schedule, const Target &target,
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

FailureOr<std::string> heddle::emitHalideKernel(func::FuncOp kernel, ScheduleAttr schedule, const Target &target,
                                                llvm::StringRef symbol) {
  std::string text = describe(kernel, schedule, target, symbol);
  auto make = [&] { return emit(kernel, schedule, target, symbol); };
  // The numbers of a resource are not in the text.
  return llvm::StringRef(text).contains("dense_resource")
             ? make()
             : ObjectCache(target.cpu, Loops::AsWritten).objectOf(text, make);
}
