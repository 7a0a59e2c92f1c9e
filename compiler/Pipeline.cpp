// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of contents of the compiler. A model passes these stages, each of which ends in a contract:
//
//   import    frontends/          model file        -> model ops; weights stay in the file
//   raise     compiler/raise/     primitive graphs  -> model ops (nothing to do for GGUF and Hugging Face files)
//   optimize  compiler/optimize/  fewer, cheaper model ops; a step or an encode over rows of a ragged batch; equal layers shared
//   schedule  compiler/schedule/  model ops         -> kernels on buffers, weights in the layout kernels read
//   codegen   compiler/codegen/   kernels and host code -> objects (codegen/Codegen.cpp)
//   package   compiler/package/   objects, packed weights, metadata -> one file (package/Package.cpp)

#include "compiler/Pipeline.h"

#include "compiler/codegen/Passes.h"
#include "compiler/codegen/host/HostCode.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "compiler/optimize/Passes.h"
#include "compiler/raise/Passes.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace heddle;

ArrayRef<PassSwitch> heddle::passSwitches() {
  using Options = PipelineOptions;
  static const PassSwitch switches[] = {{"bind-decoder-inputs", &Options::bindDecoderInputs, Stage::Raise},
                                        {"raise-linear", &Options::raiseLinear, Stage::Raise},
                                        {"raise-norm", &Options::raiseNorm, Stage::Raise},
                                        {"raise-glu", &Options::raiseGlu, Stage::Raise},
                                        {"raise-moe", &Options::raiseMoe, Stage::Raise},
                                        {"raise-rope", &Options::raiseRope, Stage::Raise},
                                        {"raise-softmax", &Options::raiseSoftmax, Stage::Raise},
                                        {"fuse-attention", &Options::fuseAttention, Stage::Raise},
                                        {"form-forward", &Options::formForward, Stage::Raise},
                                        {"flash-tile", &Options::flashTile, Stage::Schedule},
                                        {"tile-windows", &Options::tileWindows, Stage::Schedule},
                                        {"channels-last", &Options::channelsLast, Stage::Optimize},
                                        {"share-kv", &Options::shareKv, Stage::Optimize},
                                        {"split-kv", &Options::splitKv, Stage::Schedule},
                                        {"fuse-projections", &Options::fuseProjections, Stage::Optimize},
                                        {"share-layers", &Options::shareLayers, Stage::Optimize}};
  return switches;
}

ArrayRef<ExtensionPoint> heddle::extensionPoints() {
  static const ExtensionPoint points[] = {{"after-import", Stage::Import},
                                          {"after-raise", Stage::Raise},
                                          {"after-optimize", Stage::Optimize},
                                          {"before-bufferize", Stage::Schedule},
                                          {"after-schedule", Stage::Schedule}};
  return points;
}

// The pipelines were parsed once when they were given: they are good here.
void heddle::addExtensions(OpPassManager &pm, const PipelineOptions &options, StringRef point) {
  for (const auto &[at, pipeline] : options.extensions)
    if (point == at && failed(parsePassPipeline(pipeline, pm)))
      llvm::report_fatal_error("a pass pipeline that was parsed before cannot be parsed");
}

// Reads a graph as its frontend writes it, one op after the other; leaves it without what folds or is computed twice.
void heddle::addImportStage(OpPassManager &pm) {
  // One function: its buffers and run-time checks then belong to one call.
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  pm.addPass(createCanonicalizerPass());
  // Paddings that fold into one leave their sum as affine.apply.
  pm.addPass(createLowerAffinePass());
  pm.addPass(createCSEPass());
}

// Reads what a frontend emits for a graph that it knows nothing about: linalg, tensor, arith. Leaves model ops.
void heddle::addRaiseStage(OpPassManager &pm, const PipelineOptions &options) {
  auto addIf = [&](bool enabled, std::unique_ptr<Pass> pass) {
    if (enabled)
      pm.addNestedPass<func::FuncOp>(std::move(pass));
  };
  // First: what follows from the mask's ones and the positions' range is seen by every pass.
  if (options.formForward && options.bindDecoderInputs)
    pm.addPass(createBindDecoderInputs());
  // Before others: where a trace of elements ends is at products of rows with stored matrices.
  addIf(options.raiseLinear, createRaiseLinear());
  addIf(options.raiseNorm, createRaiseNorm());
  // After norms: a norm's power is not an activation, but a gate may multiply one.
  addIf(options.raiseGlu, createRaiseGlu());
  // After GLU: an expert is a gated product.
  addIf(options.raiseMoe, createRaiseMoe());
  // After norms: some rotate normalised heads. Before attention: a rotated head is then one value.
  addIf(options.raiseRope, createRaiseRope());
  addIf(options.raiseSoftmax, createRaiseSoftmax());
  addIf(options.fuseAttention, createFuseAttention());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  // Last: a layer is found by the attention in it.
  if (options.formForward)
    pm.addPass(createFormForward());
  addRaisedPasses(pm, options);
}

void heddle::addRaisedPasses(OpPassManager &pm, const PipelineOptions &options) {
  // Once every matrix has the op that reads it; before projections are fused, which must agree in their type.
  if (!options.weights.empty()) {
    QuantizeWeightsOptions quantize;
    quantize.type = options.weights;
    pm.addPass(createQuantizeWeights(quantize));
  }
  addExtensions(pm, options, "after-raise");
}

// Reads what frontends and raise leave. @forward over (batch, sequence) becomes an entry over rows of a ragged batch: @step over new tokens
// where attention is causal, else @encode over whole sequences; graph entries keep their tensors.
void heddle::addOptimizeStage(OpPassManager &pm, const PipelineOptions &options) {
  // Before the cache: it must hold num_kv_heads heads, not repeated ones.
  if (options.shareKv)
    pm.addPass(createShareKvHeads());
  // Before the cache, which then holds latents; after heads are shared, which hides where they come from.
  if (!options.latentForm.empty()) {
    AbsorbMlaWeightsOptions absorb;
    absorb.form = options.latentForm;
    absorb.keepsGraphs = true;
    pm.addPass(createAbsorbMlaWeights(absorb));
  }
  // First of what concerns graphs: activations that then read products may join them.
  if (options.channelsLast) {
    pm.addPass(createChannelsLast());
    pm.addPass(createCanonicalizerPass());
  }
  FlattenBatchOptions flatten;
  flatten.elementType = options.kvElementType;
  pm.addPass(createFlattenBatch(flatten));
  // After the batch: projections of one layer then read the same rows.
  if (options.fuseProjections)
    pm.addPass(createFuseProjections());
  pm.addPass(createCSEPass());
  // Last: layers are equal only once each has its final form.
  if (options.shareLayers)
    pm.addPass(createShareLayers());
  addExtensions(pm, options, "after-optimize");
}

// Reads model and cache ops, and what a graph has besides. Leaves kernels on buffers, those of the step with their place in the arena, and
// loops where a graph has no kernel.
void heddle::addScheduleStage(OpPassManager &pm, const PipelineOptions &options) {
  // First: around attention it knows transposes by name.
  FlashTileOptions tile;
  tile.tiles = options.flashTile;
  tile.context = options.context;
  tile.blockKv = options.blockKv;
  tile.shareKv = options.shareKv;
  pm.addPass(createFlashTile(tile));
  // After tiling, whose op says what a split leaves; before outlining, which must see what a branch reads.
  if (options.splitKv) {
    SplitKvOptions split;
    split.context = options.context;
    pm.addPass(createSplitKv(split));
  }
  // Before rows are flattened: windows are known by their dimensions.
  if (options.tileWindows)
    pm.addPass(createTileWindows());
  // Before kernels, which work on rows.
  pm.addPass(createFlattenRows());
  // After tiling and splitting, whose attention reads weights, too; before outlining: a residual that a product adds in place is no
  // kernel of its own.
  LowerToKernelsOptions lower;
  lower.gates = options.gatesInProducts;
  pm.addNestedPass<func::FuncOp>(createLowerToKernels(lower));
  // What no kernel computes of a graph becomes loops: in parts, then fused, then each in its best order.
  pm.addPass(createDecomposeTensorOps());
  pm.addPass(createFuseElementwise());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createOrderLoops());
  // Once all kernels have said what they read, and what folds has dropped weights: each that is left takes its bytes. Before outlining,
  // which would take stored vectors for values of a kernel.
  pm.addPass(createPackWeights());
  AssignSchedulesOptions schedules;
  schedules.activations = options.activations;
  schedules.bf16Products = options.bf16Products;
  schedules.graphs = options.graphsByWeights;
  pm.addPass(createAssignSchedules(schedules));
  pm.addPass(createCSEPass());
  // Before outlining: a value that only tells its size would have to leave its kernel.
  pm.addPass(memref::createResolveRankedShapeTypeResultDimsPass());
  pm.addPass(createCanonicalizerPass());
  OutlineKernelsOptions outline;
  outline.singleResult = options.singleResult;
  pm.addPass(createOutlineKernels(outline));
  // Kernels of different layers are equal more often than the layers are.
  pm.addPass(createShareLayers());
  // Before buffers: views that nobody needs any more would become copies.
  pm.addPass(createCanonicalizerPass());
  addExtensions(pm, options, "before-bufferize");
  pm.addPass(createBufferize());
  pm.addPass(createPlanMemory());
  pm.addPass(createPlanBarriers());
  addExtensions(pm, options, "after-schedule");
}

void heddle::registerDialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect, tensor::TensorDialect, linalg::LinalgDialect, memref::MemRefDialect, scf::SCFDialect,
                  bufferization::BufferizationDialect>();
  registerCodegenDialects(registry);
  registerGpuDialects(registry);
  registerHostCodeModels(registry);
  registerBufferizationModels(registry);
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(registry);
  cf::registerBufferizableOpInterfaceExternalModels(registry);
  func::registerInlinerExtension(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerInferTypeOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
}

ArrayRef<std::pair<StringRef, StringRef>> heddle::registeredPipelines() {
  static constexpr std::pair<StringRef, StringRef> pipelines[] = {
      {"heddle-raise", "The raise stage"},
      {"heddle-optimize", "The optimize stage with its defaults"},
      {"heddle-schedule", "The schedule stage with its defaults"}};
  return pipelines;
}

void heddle::registerPasses() {
  registerHeddleRaisePasses();
  registerHeddleOptimizePasses();
  registerHeddleSchedulePasses();
  registerHeddleCodegenPasses();
  using Add = void (*)(OpPassManager &, const PipelineOptions &);
  static constexpr Add stages[] = {addRaiseStage, addOptimizeStage, addScheduleStage};
  for (auto [pipeline, add] : llvm::zip_equal(registeredPipelines(), stages))
    PassPipelineRegistration<>(pipeline.first, pipeline.second,
                               [add = add](OpPassManager &pm) { add(pm, PipelineOptions()); });
}
