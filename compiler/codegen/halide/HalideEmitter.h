// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From an outlined kernel to machine code, through Halide: everything between matrix multiplications and attention.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_HALIDEEMITTER_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_HALIDEEMITTER_H

#include "compiler/codegen/machine/Target.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace heddle {

// The kernel as an ELF object that defines
//   int symbol([void *device,] halide_buffer_t *input..., halide_buffer_t *result...)
// (emitPipeline says what the first one is) with the inputs in the order of the arguments, then the results. `schedule` says how many
// threads of a device share a row; it is null for CPUs. Halide's dimension 0 is the innermost of the tensor: its stride is 1 and all
// mins are 0; other strides and the number of rows are read from the buffers (BufferLayout.h), so that a caller may pass a window of
// columns and runs the kernel on any slice of rows. Results do not overlap inputs. A row's bits do not depend on the slice it is
// computed in. The same kernel gives the same bytes, whatever was emitted before it. On a device there is one result, and buffers
// hold addresses of the device.
//
// The function's tensors have at most one dynamic size, the rows of the step, as dimension 0 of arguments and results
// that carry rows; tables may have their own dynamic dimension 0. What cannot be expressed is an error at the op. Not
// thread-safe.
mlir::FailureOr<std::string> emitHalideKernel(mlir::func::FuncOp kernel, ScheduleAttr schedule, const Target &target,
                                              llvm::StringRef symbol);

} // namespace heddle

#endif
