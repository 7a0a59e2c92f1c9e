// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of a model through the compiler: stages, what each may leave behind, and how to run them.
#ifndef HEDDLE_COMPILER_PIPELINE_H
#define HEDDLE_COMPILER_PIPELINE_H

#include "compiler/contract/Stage.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle {

// What the passes up to codegen need to know of a compilation.
struct PipelineOptions {
  std::string kvElementType = "f32"; // f32, bf16, f16, q8_0: storage of the cache
  std::string activations = "f32";   // by-rows, f32, bf16, int8: inputs of products with quantised weights
  bool bf16Products = false;         // what is multiplied with bf16 weights or a bf16 cache is rounded to bf16
  bool graphsByWeights =
      false; // of graph entries, too, activations and bf16Products hold; else they compute with their types
  int64_t context = 8192;        // tokens of the longest sequence
  bool flashTile = true;         // attention never stores more scores than those of a tile
  int64_t blockKv = 64;          // keys per block of attention
  std::string weights;           // stored type that matrices take: q8_0, q4_0, q4_k, bf16, f16; empty: the file's
  bool bindDecoderInputs = true; // a decoder takes no attention_mask and position_ids
  bool raiseLinear = true, raiseNorm = true, raiseGlu = true, raiseMoe = true, raiseRope = true, raiseSoftmax = true;
  bool fuseAttention = true;
  bool formForward = true;  // a causal graph from ids to logits becomes a model that generates
  bool shareKv = true;      // query heads of a group share KV loads
  bool channelsLast = true; // images keep their channels last from one convolution to the next
  bool tileWindows = true;  // windows of convolutions that overlap are written block by block
  bool splitKv = true;      // steps of few queries divide their keys among threads
  std::string latentForm =
      "automatic"; // of heddle-absorb-mla-weights: automatic, absorbed, materialised; "": the pass is off
  bool fuseProjections = true;
  bool shareLayers = true;
  std::vector<std::pair<std::string, std::string>> extensions; // (extension point, textual pipeline), run in this order
  bool gatesInProducts = false;                                // so is what joins a gate and an up projection
  bool singleResult = false;                                   // a kernel of a device computes one result

  // The same for what becomes no decoder: experts have kernels in steps alone.
  PipelineOptions ofGraph() const {
    PipelineOptions options = *this;
    options.formForward = options.raiseMoe = false;
    return options;
  }
};

// A pass that --NAME=off leaves out, to measure or bisect it.
struct PassSwitch {
  llvm::StringRef name;
  bool PipelineOptions::*enabled;
  Stage stage; // that first runs it
};
llvm::ArrayRef<PassSwitch> passSwitches();

// Where passes of others run (--add-pass): after each stage that ends in a module, and before-bufferize.
struct ExtensionPoint {
  llvm::StringRef name;
  Stage stage; // whose module they change
};
llvm::ArrayRef<ExtensionPoint> extensionPoints();

// Passes of others at `point`.
void addExtensions(mlir::OpPassManager &pm, const PipelineOptions &options, llvm::StringRef point);

// One stage's passes.
void addImportStage(mlir::OpPassManager &pm);
void addRaiseStage(mlir::OpPassManager &pm, const PipelineOptions &options);
// What is done behind it, and to a module of model ops that needs no raising.
void addRaisedPasses(mlir::OpPassManager &pm, const PipelineOptions &options);
void addOptimizeStage(mlir::OpPassManager &pm, const PipelineOptions &options);
void addScheduleStage(mlir::OpPassManager &pm, const PipelineOptions &options);

// Dialects and interfaces of everything up to codegen.
void registerDialects(mlir::DialectRegistry &registry);
// Every pass and pipeline, for heddle-opt.
void registerPasses();
// The pipelines, which no registry lists: (name, description).
llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> registeredPipelines();

} // namespace heddle

#endif
