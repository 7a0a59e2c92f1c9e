// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPUs that code is generated for.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_GPUTARGET_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_GPUTARGET_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace heddle {

// One NVIDIA GPU target. Its PTX is compiled for the machine's GPU by the driver that loads it.
struct GpuTarget {
  std::string name;     // as given to --target
  std::string chip;     // LLVM's and ptxas' name: sm_80
  std::string ptx;      // LLVM's feature for the PTX version, the oldest that has what the kernels use: +ptx70
  int computeMajor = 0; // least compute capability that runs the PTX
  int computeMinor = 0;
  bool isExactMajor = false; // PTX with the suffix `a` runs on that compute capability alone

  std::unique_ptr<llvm::TargetMachine> createMachine() const;
};

// True for names that this folder takes: "cuda:" and whatever follows.
bool isGpuTargetName(llvm::StringRef name);

// `name` is cuda:sm_80 or cuda:sm_90a. The error lists them.
mlir::FailureOr<GpuTarget> parseGpuTarget(llvm::StringRef name, std::string &error);

} // namespace heddle

#endif
