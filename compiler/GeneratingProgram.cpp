// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Program.h"
#include "compiler/codegen/DeviceKernels.h"
#include "compiler/codegen/StepRows.h"
#include "frontends/import/ImportModel.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/TokenizerReader.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/model/PackageHeader.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace heddle;

// Without --context.
static constexpr int64_t defaultContext = 8192;

namespace {

// A model whose architecture a frontend knows: @forward becomes steps over a cache.
class GeneratingProgram : public Program {
public:
  GeneratingProgram(const CompileOptions &options, const Target &target) : options(options), target(target) {}

  CompileStatus read(std::string &error) override;
  // What read does with the files that it found.
  CompileStatus take(Model read, std::string table, std::string &error);
  CompileStatus checkKernels(ModuleOp module, std::string &error) const;
  CompileStatus import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) override;
  void addOptimizeStage(OpPassManager &pm) const override { heddle::addOptimizeStage(pm, pipeline); }
  void addScheduleStage(OpPassManager &pm) const override { heddle::addScheduleStage(pm, pipeline); }
  FailureOr<GeneratedCode> generateCode(ModuleOp module, MachineCode kind) const override {
    return heddle::generateCode(module, target, kind);
  }
  void describe(PackageInfo &info) const override;
  std::string buildMetadata(ModuleOp module, const PackageInfo &info, const GeneratedCode &code,
                            ArrayRef<PackedWeight> weights) const override {
    return heddle::buildMetadata(module, model, info, target, code.kernels, weights);
  }
  const Checkpoint &checkpoint() const override { return model.checkpoint; }

private:
  int64_t contextLength() const {
    return options.context ? options.context : std::min(model.config.longestContext(), defaultContext);
  }
  void choosePrecision();
  // Numbers in a page of the cache, keys and values of all layers. A device's kernels count them in 32 bits.
  int64_t pageValues() const {
    const ModelConfig &config = model.config;
    return 2 * HEDDLE_KV_PAGE_SIZE * config.numHiddenLayers * config.numKvHeads * config.headDim;
  }

  const CompileOptions &options;
  const Target &target;
  Model model;
  std::string tokenizer;
  PipelineOptions pipeline;
};

} // namespace

CompileStatus GeneratingProgram::read(std::string &error) {
  auto refuse = [&](std::string message) {
    error = std::move(message);
    return CompileStatus::InvalidInput;
  };
  if (options.task == Task::Graph)
    return refuse(options.model + ": --task=graph: only an MLIR module (.mlir) or an ONNX file holds a graph");
  Expected<Model> read = readModel(options.model);
  if (!read)
    return refuse(read.message());
  Expected<std::string> table = readTokenizer(options.model);
  if (!table)
    return refuse(table.message());
  return take(std::move(*read), std::move(*table), error);
}

CompileStatus GeneratingProgram::take(Model read, std::string table, std::string &error) {
  model = std::move(read);
  tokenizer = std::move(table);
  bool computesF32 = options.activations == "auto" || options.activations == "f32";
  if (target.isDevice() && !computesF32)
    error = "--activations=" + options.activations + ": target " + target.name + " computes in f32";
  else if (target.isDevice() && !options.pipeline.flashTile)
    error = "--flash-tile=off: target " + target.name + " has kernels in tiles only";
  else if (int64_t longest = model.config.longestContext(); options.context > longest && !options.extrapolates)
    error = "--context=" + std::to_string(options.context) + " is more than the model's " + std::to_string(longest) +
            " positions";
  else if (options.context > HEDDLE_MAX_CONTEXT)
    error = "--context=" + std::to_string(options.context) + " is more than the " + std::to_string(HEDDLE_MAX_CONTEXT) +
            " positions of a program";
  if (!error.empty())
    return CompileStatus::InvalidInput;
  choosePrecision();
  return CompileStatus::Done;
}

CompileStatus GeneratingProgram::import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) {
  module = importModel(context, model);
  if (!module || failed(verify(*module)))
    return CompileStatus::Failure;
  return checkKernels(*module, error);
}

// What has no kernel is refused by what the model asks for, not by what a pass made of it.
CompileStatus GeneratingProgram::checkKernels(ModuleOp module, std::string &error) const {
  bool isLatent = module.walk([](LatentAttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (isLatent && !options.pipeline.flashTile) {
    error = options.model + ": --flash-tile=off: latent attention has kernels in tiles only";
    return CompileStatus::InvalidInput;
  }
  std::string missing = target.isDevice() ? missingDeviceKernel(module) : "";
  if (!missing.empty())
    error = options.model + ": target " + target.name + " has no kernel for " + missing;
  else if (int64_t values = pageValues(); target.isDevice() && values > INT32_MAX)
    error = options.model + ": a page of the KV cache, " + std::to_string(HEDDLE_KV_PAGE_SIZE) + " tokens of " +
            std::to_string(model.config.numHiddenLayers) + " layers, holds " + std::to_string(values) +
            " numbers, those of target " + target.name + " at most " + std::to_string(INT32_MAX);
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
}

// What DESIGN says of fast and precise, for the types that the file holds.
void GeneratingProgram::choosePrecision() {
  bool quantized = false, bf16 = false, f16 = false;
  for (auto &[name, tensor] : model.checkpoint.tensors) {
    if (tensor.shape.size() < 2)
      continue;
    quantized |= tensorTypeInfo(tensor.type).blockValues > 1;
    bf16 |= tensor.type == heddle::TensorType::BF16;
    f16 |= tensor.type == heddle::TensorType::F16;
  }
  pipeline = options.pipeline;
  pipeline.context = contextLength();
  bool fast = options.precision == Precision::Fast;
  pipeline.kvElementType = !fast ? "f32" : quantized || bf16 ? "bf16" : f16 ? "f16" : "f32";
  // Neither int8 nor bf16 in fast: compiler/schedule/README.md has the figures.
  pipeline.activations = "f32";
  bool hasBf16 = target.isDevice() ? target.gpu.has_value() : target.cpu.hasBf16Dot() || target.cpu.hasBf16Tiles();
  pipeline.bf16Products = fast && hasBf16;
  if (options.kv != "auto")
    pipeline.kvElementType = options.kv;
  if (options.activations != "auto")
    pipeline.activations = options.activations;
  pipeline.singleResult = target.isDevice();
  pipeline.splitKv &= !target.isDevice(); // keys of all rows and heads are work enough for it
}

void GeneratingProgram::describe(PackageInfo &info) const {
  info.architecture = model.config.architecture;
  info.context = contextLength();
  info.maxRows = std::min(maxStepRows, info.context);
  info.tokenizer = tokenizer;
}

std::unique_ptr<Program> heddle::makeGeneratingProgram(const CompileOptions &options, const Target &target) {
  return std::make_unique<GeneratingProgram>(options, target);
}

std::unique_ptr<Program> heddle::makeGeneratingProgram(const CompileOptions &options, const Target &target,
                                                       ModuleOp module, Model model, std::string tokenizer,
                                                       std::string &error) {
  auto program = std::make_unique<GeneratingProgram>(options, target);
  bool fits = program->take(std::move(model), std::move(tokenizer), error) == CompileStatus::Done &&
              program->checkKernels(module, error) == CompileStatus::Done;
  return fits ? std::move(program) : nullptr;
}
