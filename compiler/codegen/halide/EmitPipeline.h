// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A scheduled Halide pipeline as machine code: the one place that runs Halide's compiler. What throws inside ends here.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_EMITPIPELINE_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_EMITPIPELINE_H

#include "compiler/codegen/halide/OwnRegisters.h"
#include "compiler/codegen/machine/Target.h"

#include "mlir/IR/Location.h"

#include "Halide.h"

#include <string>

namespace heddle {

struct ScheduledPipeline {
  std::vector<Halide::Argument> arguments;
  std::vector<Halide::Func> results;
  std::vector<OwnRegisters> registers = {};
};

// Runs `build`, which may throw Halide::Error, and compiles what it returns to an object that defines
//   int symbol([void *device,] halide_buffer_t *argument..., halide_buffer_t *result...)
// the first parameter only for a device: heddle_step::device, to which HalideLaunch.c of the runtime passes the launches.
mlir::FailureOr<std::string> emitPipeline(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                          llvm::function_ref<mlir::FailureOr<ScheduledPipeline>()> build);

} // namespace heddle

#endif
