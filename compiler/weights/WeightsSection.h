// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights section: what pack-weights planned, streamed from the model's files.
#ifndef HEDDLE_COMPILER_WEIGHTS_WEIGHTSSECTION_H
#define HEDDLE_COMPILER_WEIGHTS_WEIGHTSSECTION_H

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
};

// The table of what streamWeights writes, in order of offset, before anything is packed: all but the hashes.
std::vector<PackedWeight> planWeights(mlir::ModuleOp module);

// A text of all that the section's bytes depend on beside the bytes of the model's files and the code that packs them: the files in their
// order, and every weight with its packing.
std::string describePackings(mlir::ModuleOp module, const Checkpoint &checkpoint);

// Takes the section's bytes in order of offset; false ends the writing.
using WriteBytes = llvm::function_ref<bool(uint64_t offset, llvm::ArrayRef<uint8_t> bytes)>;

// Packs every weight of a module after pack-weights and hashes it. Needs memory for some panels, never for a whole tensor.
mlir::FailureOr<std::vector<PackedWeight>> streamWeights(mlir::ModuleOp module, const Checkpoint &checkpoint,
                                                         WriteBytes write);

} // namespace heddle

#endif
