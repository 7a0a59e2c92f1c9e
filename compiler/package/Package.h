// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The package stage: objects, packed weights and metadata become one file.
#ifndef HEDDLE_COMPILER_PACKAGE_PACKAGE_H
#define HEDDLE_COMPILER_PACKAGE_PACKAGE_H

#include "compiler/package/Link.h"
#include "compiler/package/Metadata.h"

#include <functional>

namespace heddle {

// What a model became for one CPU.
struct ScheduledModel {
  mlir::ModuleOp module; // after the schedule stage
  const Target &target;
  const GeneratedCode &code;
};

// The weights that each variant reads.
using WeightTables = llvm::ArrayRef<std::vector<PackedWeight>>;

struct PackageRequest {
  llvm::ArrayRef<ScheduledModel> variants;           // the least CPU first; several share their weights (shareWeights)
  const Checkpoint &checkpoint;                      // where the weights lie
  std::string name;                                  // symbol: heddle_model_<name>
  std::function<std::string(WeightTables)> metadata; // once the weights are hashed
  LinkKind kind = LinkKind::Executable;
  bool sidecar = false; // weights in sidecarOf(output)
  std::string output;
  // Is told of the weights before any file has its name; a failure, of which it has said why, ends the writing.
  std::function<mlir::LogicalResult(WeightTables)> packed = {};
  std::function<void(uint64_t done, uint64_t all)> progress = {}; // in bytes of weights
  // Of a sidecar: what its bytes depend on beside the packings of `variants`, the model and the code that packs it.
  std::string packedFrom = {};
};

// Writes the output beside its final name and renames it when it is whole: on failure, also by a signal, nothing is left and a
// previous output is untouched. A sidecar that is there and holds what would be packed stays as it is, and `reusesSidecar` is true.
// `error` says in one line what went wrong.
mlir::LogicalResult writePackage(const PackageRequest &request, bool &reusesSidecar, std::string &error);

} // namespace heddle

#endif
