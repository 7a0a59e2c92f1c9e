// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights of a model that is scheduled for several CPUs: one section, in which what they pack alike lies once.
#ifndef HEDDLE_COMPILER_PACKAGE_SHAREDWEIGHTS_H
#define HEDDLE_COMPILER_PACKAGE_SHAREDWEIGHTS_H

#include "compiler/weights/WeightsSection.h"

namespace heddle {

// Moves the weights of `modules`, of one model behind the schedule stage, into one section: a weight whose packing is that of a module before
// it takes its place, others come behind. Packings decide the bytes, so nothing is packed to compare it.
void shareWeights(llvm::ArrayRef<mlir::ModuleOp> modules);

// Of the weights of one section those that `module` reads, by its own names.
std::vector<PackedWeight> weightsOf(mlir::ModuleOp module, llvm::ArrayRef<PackedWeight> section);

// Bytes of weights that several variants read, and those that each one reads alone.
struct WeightShares {
  uint64_t shared = 0;
  std::vector<uint64_t> own; // (variants)
};
WeightShares shareOf(llvm::ArrayRef<std::vector<PackedWeight>> variants);

} // namespace heddle

#endif
