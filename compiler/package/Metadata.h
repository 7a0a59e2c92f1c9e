// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The FlatBuffers metadata of a compiled model (runtime/schema/package.fbs).
#ifndef HEDDLE_COMPILER_PACKAGE_METADATA_H
#define HEDDLE_COMPILER_PACKAGE_METADATA_H

#include "compiler/codegen/Codegen.h"
#include "compiler/package/GraphSignature.h"
#include "compiler/weights/WeightsSection.h"
#include "frontends/ModelConfig.h"

namespace heddle {

// What a package says beside the module and the config.
struct PackageInfo {
  std::string name;         // symbol: heddle_model_<name>
  std::string architecture; // of the step's config, or graph
  std::string sourceName;   // file name of the model, without folders
  std::string sourceSha256; // 64 hexadecimal digits
  std::string precision;    // fast | precise
  std::string license;      // of the model, empty where its files state none
  // Of a step:
  int64_t context = 0; // longest sequence
  int64_t maxRows = 0; // rows of a step
  // Of an encode:
  int64_t sourceContext = 0, sourceRows = 0;
  std::vector<std::string> adapters;   // of a step: their names, in the order of their numbers
  std::vector<uint32_t> virtualTokens; // (adapters): that a sequence of each begins with; empty: none
  std::string tokenizer;               // of what reads texts: serialised package::Tokenizer, empty without one
};

// The caches that the step takes, one for the layers of each shape in the order of a page, or that of sources which an encoder-decoder has
// besides.
llvm::SmallVector<KvCacheType> kvCachesOf(mlir::ModuleOp module, bool cross = false);

// What of a package is its own for each CPU.
struct PackageVariant {
  mlir::ModuleOp module; // as the schedule stage leaves it
  const Target &target;
  llvm::ArrayRef<KernelRecord> kernels;
  llvm::ArrayRef<PackedWeight> weights;
  llvm::ArrayRef<std::string> passes;
  llvm::ArrayRef<KernelLaunch> launches;
};

// The package of the first variant, in which the others are. `config` is of the step, if there is one, `graphs` of the graph entries. What
// variants have in common is there once.
std::string buildMetadata(llvm::ArrayRef<PackageVariant> variants, const ModelConfig &config,
                          llvm::ArrayRef<GraphSignature> graphs, const PackageInfo &info);

} // namespace heddle

#endif
