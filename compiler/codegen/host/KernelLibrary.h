// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of one model, each emitted once by its target, and what the package's kernel table says of them.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_KERNELLIBRARY_H
#define HEDDLE_COMPILER_CODEGEN_HOST_KERNELLIBRARY_H

#include "compiler/codegen/targets/KernelTargets.h"

#include "llvm/ADT/MapVector.h"

namespace heddle {

// What the package's kernel table says of a kernel.
struct KernelRecord {
  std::string name, kind, emitter, schedule;
  unsigned calls = 0; // in one step
  int64_t flopsPerRow = 0, fixedBytes = 0, bytesPerRow = 0;
};

// One launch in a function of the step.
struct KernelLaunch {
  unsigned kernel;     // index of its record
  mlir::Operation *op; // of the scheduled module
};

class KernelLibrary {
public:
  // `code` takes the kernels that MLIR emits; `source` holds the outlined ones.
  KernelLibrary(mlir::ModuleOp source, mlir::ModuleOp code, const Target &target)
      : module(source, code), described(targetAttr(code.getContext(), target)), target(makeKernelTarget(target)) {
    this->target->begin(code);
  }

  // The functions that `op` launches one after the other: emitted on first use, shared by ops of the same signature and schedule. An op
  // without a `heddle.schedule` (graphs) has that of the target's table.
  mlir::FailureOr<llvm::ArrayRef<mlir::func::FuncOp>> kernels(mlir::Operation *op);

  // What MLIR emitted for a GPU; null for other targets.
  GpuKernels *gpuKernels() { return target->gpuKernels(); }
  // Objects that Halide emitted.
  llvm::ArrayRef<std::string> objects() const { return module.objects(); }
  // Counts one launch of a kernel by `op`, which runs `times` in a step. Returns the kernel's index in records().
  unsigned record(mlir::func::FuncOp kernel, mlir::Operation *op, unsigned times);
  const llvm::MapVector<mlir::StringAttr, KernelRecord> &records() const { return recorded; }
  llvm::ArrayRef<KernelLaunch> launches() const { return launched; }

private:
  KernelModule module;
  TargetAttr described;
  std::unique_ptr<KernelTarget> target;
  llvm::StringMap<std::pair<ScheduleAttr, Kernels>> scheduled; // by name
  llvm::MapVector<mlir::StringAttr, KernelRecord> recorded;
  std::vector<KernelLaunch> launched;
};

} // namespace heddle

#endif
