// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The package stage: objects, packed weights and metadata become one file.
#ifndef HEDDLE_COMPILER_PACKAGE_PACKAGE_H
#define HEDDLE_COMPILER_PACKAGE_PACKAGE_H

#include "compiler/package/Link.h"
#include "compiler/package/Metadata.h"

#include <functional>

namespace heddle {

struct PackageRequest {
  mlir::ModuleOp module;        // after the schedule stage
  const Checkpoint &checkpoint; // where the weights lie
  const Target &target;
  const GeneratedCode &code;
  std::string name;                                                  // symbol: heddle_model_<name>
  std::function<std::string(llvm::ArrayRef<PackedWeight>)> metadata; // once the weights are hashed
  LinkKind kind = LinkKind::Executable;
  bool sidecar = false; // weights in sidecarOf(output)
  std::string output;
  // Is told of the weights before any file has its name; a failure, of which it has said why, ends the writing.
  std::function<mlir::LogicalResult(llvm::ArrayRef<PackedWeight>)> packed = {};
  std::function<void(uint64_t done, uint64_t all)> progress = {}; // in bytes of weights
  // Of a sidecar: what its bytes depend on beside the packings of `module`, the model and the code that packs it.
  std::string packedFrom = {};
};

// Writes the output beside its final name and renames it when it is whole: on failure, also by a signal, nothing is left and a
// previous output is untouched. A sidecar that is there and holds what would be packed stays as it is, and `reusesSidecar` is true.
// `error` says in one line what went wrong.
mlir::LogicalResult writePackage(const PackageRequest &request, bool &reusesSidecar, std::string &error);

} // namespace heddle

#endif
