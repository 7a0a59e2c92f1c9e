// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels compiled, linked and loaded into the test's own process.
#ifndef HEDDLE_TEST_EXECUTE_KERNELLIBRARY_H
#define HEDDLE_TEST_EXECUTE_KERNELLIBRARY_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/machine/LoadedObject.h"
#include "compiler/codegen/machine/Target.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Memory.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle::test {

// Whether HEDDLE_NIGHTLY is set: `./dev test --nightly` runs all that tests otherwise take one of each kind of.
bool isNightly();

class KernelLibrary {
public:
  // A name that begins with "emulated-" stands for the target behind it: kernels are made for that, and what this machine
  // may lack of it is replaced by plain arithmetic (EmulatedInstructions.h).
  explicit KernelLibrary(const std::string &targetName);

  // The targets whose code this machine can run: native, and the levels below it.
  static std::vector<std::string> runnableTargets();
  // Targets with bf16 instructions, of vectors or tiles: the code itself where this machine can run it, and emulated everywhere.
  static std::vector<std::string> bf16Targets();
  // The same with tiles of bytes.
  static std::vector<std::string> int8TileTargets();

  mlir::ModuleOp module() { return *moduleRef; }
  const CpuTarget &target() const { return cpuTarget; }
  // The target's schedule for products.
  ScheduleAttr matmulSchedule(bool isInStep = true, llvm::StringRef format = {}, int64_t k = 0);
  // Scratch memory as the schedules so far ask for, of one thread; what touches memory behind it ends the test. Every call
  // returns the same until a later schedule asks for more.
  void *scratch();
  // `spec` with the target's registers; its other sizes stay.
  AttentionSpec withRegisters(const AttentionSpec &spec);
  // What the module holds as an object that needs no symbol but memcpy and memset; none, and the reason printed, if a
  // step fails.
  std::optional<std::string> compile();
  // Compiles, links and loads it; false, with the reason printed, if a step fails.
  bool load();
  template <typename Function> Function *find(const std::string &name) {
    return reinterpret_cast<Function *>(loaded.find(name));
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef;
  CpuTarget cpuTarget;
  bool isEmulated;
  LoadedObject loaded;
  int64_t scratchBytes = 0;    // the most that a schedule asked for
  int64_t scratchCapacity = 0; // of scratchMemory
  llvm::sys::OwningMemoryBlock scratchMemory;
};

// Deterministic pseudo-random numbers.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 2 + 1) {}
  uint32_t bits();
  float uniform() { return float(bits()) / 2147483648.0f - 1.0f; } // [-1, 1)

private:
  uint64_t state;
};

// A matrix of f32 with a guard around every row: (rows, columns), row stride columns + 5.
class GuardedMatrix {
public:
  GuardedMatrix(int64_t rows, int64_t columns);
  float *row(int64_t r) { return values.data() + guard + r * stride; }
  float &at(int64_t r, int64_t c) { return row(r)[c]; }
  bool guardsIntact() const;

  const int64_t rows, columns, stride;

private:
  static constexpr int64_t guard = 64;
  std::vector<float> values;
};

// sum (a - b)^2 / sum b^2
class NormalizedError {
public:
  void add(double value, double expected) {
    error += (value - expected) * (value - expected);
    power += expected * expected;
  }
  double value() const { return power > 0 ? error / power : error; }

private:
  double error = 0, power = 0;
};

} // namespace heddle::test

#endif
