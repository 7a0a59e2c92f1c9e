// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights section: what pack-weights planned, streamed from the model's files.
#ifndef HEDDLE_COMPILER_WEIGHTS_WEIGHTSSECTION_H
#define HEDDLE_COMPILER_WEIGHTS_WEIGHTSSECTION_H

#include "compiler/weights/Quantize.h"
#include "dialect/HeddleDialect.h"
#include "frontends/Checkpoint.h"

#include "mlir/IR/BuiltinOps.h"

#include <array>

namespace heddle {

// One entry of the weights table.
struct PackedWeight {
  std::string name, format;
  std::vector<uint64_t> shape;
  uint64_t offset = 0, size = 0; // in the section
  std::array<uint8_t, 32> sha256 = {};
  ConversionLoss loss; // of a weight that was packed just now, from nothing where it was not converted
};

// The table of what streamWeights writes, in order of offset, before anything is packed: all but the hashes.
std::vector<PackedWeight> planWeights(llvm::ArrayRef<mlir::ModuleOp> modules);

// A text of all that the section's bytes depend on beside the bytes of the model's files and the code that packs them: the files in their
// order, and every weight with its packing.
std::string describePackings(llvm::ArrayRef<mlir::ModuleOp> modules, const Checkpoint &checkpoint);

// Takes the section's bytes in order of offset; false ends the writing.
using WriteBytes = llvm::function_ref<bool(uint64_t offset, llvm::ArrayRef<uint8_t> bytes)>;
// Is told before a weight is packed how many bytes of the section's lie before it.
using WeightsProgress = llvm::function_ref<void(uint64_t done, uint64_t all)>;

// Packs every weight of `modules` after pack-weights, on all cores, and hashes it. Those of several modules lie in one section, where a place
// has one content (shareWeights). Needs memory for some panels, never for a whole tensor.
// The bytes are the same whatever the number of cores.
mlir::FailureOr<std::vector<PackedWeight>> streamWeights(llvm::ArrayRef<mlir::ModuleOp> modules,
                                                         const Checkpoint &checkpoint, WriteBytes write,
                                                         WeightsProgress progress = {});

} // namespace heddle

#endif
