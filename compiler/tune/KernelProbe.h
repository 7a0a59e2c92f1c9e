// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that `heddle tune` measures: how each is built with a schedule and called, and which schedules are worth a try.
#ifndef HEDDLE_COMPILER_TUNE_KERNELPROBE_H
#define HEDDLE_COMPILER_TUNE_KERNELPROBE_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/machine/Target.h"
#include "compiler/tune/Turns.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle {

struct TuneSettings {
  int32_t threads = 1;
  int rounds = 8;
  double secondsOfRound = 0.01;            // of one candidate
  int64_t weightBytes = 256 << 20;         // that a product goes through before it reads the same again
  double operations = 8e9;                 // of a call of many rows, about, at most
  int32_t decodeKeys = 2048, tokens = 512; // of attention; rows of a product
  size_t candidates = SIZE_MAX;            // of a choice, at most
};

// A part of a schedule that is chosen by itself: what is put in its place, and by which of a kernel's shapes it is judged.
struct Choice {
  std::vector<unsigned> shapes;
  std::vector<std::function<void(ScheduleFields &)>> candidates;
};

class KernelProbe {
public:
  virtual ~KernelProbe() = default;

  // What it is measured with: "1 row", "512 rows".
  virtual std::vector<std::string> shapes() const = 0;
  virtual std::vector<Choice> choices(ScheduleAttr base) const = 0;
  // Adds to `module` the function `name`. Fails, with an error in the module's context, where it cannot be built.
  virtual mlir::LogicalResult build(mlir::ModuleOp module, llvm::StringRef name, ScheduleAttr schedule) const = 0;
  // Memory for the calls.
  virtual void allocate() = 0;
  virtual Turn turn(void *kernel, ScheduleAttr schedule, unsigned shape) const = 0;
  // What the last call of that shape wrote.
  virtual llvm::ArrayRef<float> result(unsigned shape) const = 0;
};

// Of a product of dense rows without bias, and of attention over the cache without mask. `target` lives longer.
std::unique_ptr<KernelProbe> probeOf(const MatmulSpec &spec, const CpuTarget &target, const TuneSettings &settings);
std::unique_ptr<KernelProbe> probeOf(const AttentionSpec &spec, const CpuTarget &target, const TuneSettings &settings);

} // namespace heddle

#endif
