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
  unsigned calls = 0; // in one step, its attention without splits, and in one run of each graph
  int64_t flopsPerRow = 0, fixedBytes = 0, bytesPerRow = 0;
  std::string arithmetic = "f32";
  // Attention within a sequence: per row and key that it sees, and per key; a row sees the keys of `window` tokens, or those
  // of its chunk; 0: all.
  int64_t flopsPerPair = 0, bytesPerKey = 0, window = 0, chunk = 0;
  bool readsSources = false; // the keys are those of an encoder-decoder's source
};

// One launch in a function of the step.
struct KernelLaunch {
  unsigned kernel;     // index of its record
  mlir::Operation *op; // of the scheduled module
};

// Of attention with split keys and the same attention without, a step runs one. `splits` is true for what runs if splits are preferred.
struct LaunchChoice {
  PreferSplitsOp preference;
  bool splits;
};

// Null where a launch runs in any case.
std::optional<LaunchChoice> choiceOf(mlir::Operation *op);

class KernelLibrary {
public:
  // `code` takes the kernels that MLIR emits; `source` holds the outlined ones. All entries of a model that run on one target have one library: what
  // two of them launch is emitted once. `numBefore`: of the package's kernels, those of another target's library, which stand before its own.
  KernelLibrary(mlir::ModuleOp source, mlir::ModuleOp code, const Target &target, unsigned numBefore = 0)
      : module(source, code), described(targetAttr(code.getContext(), target)), target(makeKernelTarget(target)),
        numBefore(numBefore) {
    this->target->begin(code);
  }

  // The functions that `op` launches one after the other: emitted on first use, shared by ops of the same signature and schedule. An op
  // without a `heddle.schedule` (graphs) has that of the target's table.
  mlir::FailureOr<llvm::ArrayRef<mlir::func::FuncOp>> kernels(mlir::Operation *op);
  ScheduleAttr scheduleOf(mlir::Operation *op) const;

  // What MLIR emitted for a GPU; null for other targets.
  GpuKernels *gpuKernels() { return target->gpuKernels(); }
  // Objects that Halide emitted.
  llvm::ArrayRef<std::string> objects() const { return module.objects(); }
  // Where kernels are emitted, and functions that call them.
  mlir::ModuleOp code() const { return module.code; }
  // Says that the function of `code` of that name is called from other objects.
  void addEntry(llvm::StringRef name) { entries.insert(name); }
  bool isEntry(llvm::StringRef name) const { return entries.contains(name); }
  // Counts one launch of a kernel by `op`, which runs `times`. Returns the kernel's index in the package's table.
  unsigned record(mlir::func::FuncOp kernel, mlir::Operation *op, unsigned times);
  // The same for an op of the step, which is among launches() from then on.
  unsigned recordInStep(mlir::func::FuncOp kernel, mlir::Operation *op, unsigned times);
  const llvm::MapVector<mlir::StringAttr, KernelRecord> &records() const { return recorded; }
  llvm::ArrayRef<KernelLaunch> launches() const { return launched; }

private:
  KernelModule module;
  TargetAttr described;
  std::unique_ptr<KernelTarget> target;
  const unsigned numBefore;
  llvm::StringMap<std::pair<ScheduleAttr, Kernels>> scheduled; // by name
  llvm::StringSet<> entries;
  llvm::MapVector<mlir::StringAttr, KernelRecord> recorded;
  std::vector<KernelLaunch> launched;
};

} // namespace heddle

#endif
