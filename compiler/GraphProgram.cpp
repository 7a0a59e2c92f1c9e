// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Program.h"
#include "compiler/raise/ForwardConfig.h"
#include "frontends/huggingface/Config.h"
#include "frontends/mlir/ReadGraph.h"
#include "frontends/onnx/import/Importer.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/TokenizerReader.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

namespace {

// @graph over tensors of any shape, whatever says what it computes.
class GraphProgram : public Program {
public:
  GraphProgram(const CompileOptions &options, const Target &target) : options(options), target(target) {}

  CompileStatus import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) override;
  bool isRaised() const override { return true; }
  void addRaiseStage(OpPassManager &pm, bool asDecoder) const override;
  void addOptimizeStage(OpPassManager &pm) const override { addGraphOptimizeStage(pm, options.pipeline); }
  void addScheduleStage(OpPassManager &pm) const override { addGraphScheduleStage(pm, options.pipeline); }
  FailureOr<GeneratedCode> generateCode(ModuleOp module, MachineCode kind) const override {
    return generateGraphCode(module, target, kind);
  }
  void describe(PackageInfo &info) const override { info.architecture = "graph"; }
  std::string buildMetadata(ModuleOp module, const PackageInfo &info, const GeneratedCode &,
                            ArrayRef<PackedWeight> weights) const override {
    return buildGraphMetadata(module, signature, info, target, weights);
  }
  const Checkpoint &checkpoint() const override { return files; }

protected:
  // Why the options do not fit a graph; empty if they do.
  std::string misfit() const;
  // Makes the module; null with an error if the input is at fault.
  virtual OwningOpRef<ModuleOp> importGraph(MLIRContext &context, std::string &error) = 0;

  const CompileOptions &options;
  const Target &target;
  Checkpoint files;

private:
  GraphSignature signature;
};

// A module of MLIR in text or bytecode.
class MlirProgram : public GraphProgram {
public:
  using GraphProgram::GraphProgram;
  CompileStatus read(std::string &error) override;

private:
  OwningOpRef<ModuleOp> importGraph(MLIRContext &context, std::string &error) override;
};

// Whether an ONNX graph generates, the raise stage finds out.
class OnnxProgram : public GraphProgram {
public:
  using GraphProgram::GraphProgram;
  CompileStatus read(std::string &error) override;
  CompileStatus import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) override;
  bool mayGenerate(ModuleOp imported) const override;
  std::unique_ptr<Program> takeRaised(ModuleOp raised, StringRef blocked, std::string &error) override;

private:
  OwningOpRef<ModuleOp> importGraph(MLIRContext &context, std::string &error) override;

  Model model;
};

} // namespace

std::string GraphProgram::misfit() const {
  if (target.isDevice())
    return options.model + ": target " + target.name + " has no kernels for graphs";
  if (options.context || options.kv != "auto" || options.activations != "auto")
    return "--context, --kv and --activations are of a model that generates; " + options.model + " is a graph";
  return "";
}

CompileStatus GraphProgram::import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) {
  module = importGraph(context, error);
  if (!module)
    return CompileStatus::InvalidInput;
  FailureOr<GraphSignature> found = graphSignature(*module);
  // What somebody wrote may break the contract of the stage: that is no fault of ours.
  if (failed(found) || failed(verifyStage(*module, Stage::Import)))
    return CompileStatus::InvalidInput;
  signature = std::move(*found);
  return CompileStatus::Done;
}

void GraphProgram::addRaiseStage(OpPassManager &pm, bool asDecoder) const {
  PipelineOptions pipeline = options.pipeline;
  pipeline.formForward &= asDecoder;
  heddle::addRaiseStage(pm, pipeline);
}

CompileStatus MlirProgram::read(std::string &error) {
  error = options.task == Task::Generate
              ? options.model + ": --task=generate: the file holds a graph, which runs as one"
              : misfit();
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
}

OwningOpRef<ModuleOp> MlirProgram::importGraph(MLIRContext &context, std::string &error) {
  Expected<ImportedGraph> read = readMlirGraph(context, options.model);
  if (!read) {
    error = read.message();
    return {};
  }
  files = std::move(read->checkpoint);
  return std::move(read->module);
}

CompileStatus OnnxProgram::read(std::string &error) {
  if (options.task == Task::Graph)
    error = misfit();
  if (!error.empty())
    return CompileStatus::InvalidInput;
  Expected<Model> read = readModel(options.model);
  if (!read) {
    error = read.message();
    return CompileStatus::InvalidInput;
  }
  model = std::move(*read);
  files = model.checkpoint;
  return CompileStatus::Done;
}

CompileStatus OnnxProgram::import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) {
  if (CompileStatus status = GraphProgram::import(context, module, error); status != CompileStatus::Done)
    return status;
  if (!mayGenerate(*module))
    error = misfit();
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
}

// Who asks for the stage sees it try with every graph.
bool OnnxProgram::mayGenerate(ModuleOp imported) const {
  if (options.task == Task::Generate)
    return true;
  bool isAsked = options.stopAfter == Stage::Raise || options.observer;
  return options.task == Task::Auto &&
         (isAsked || noDecoderSignature(imported.lookupSymbol<func::FuncOp>("graph")).empty());
}

std::unique_ptr<Program> OnnxProgram::takeRaised(ModuleOp raised, StringRef blocked, std::string &error) {
  if (!readForward(raised, model.config)) {
    error = options.task == Task::Generate ? (options.model + ": --task=generate: " + blocked).str() : misfit();
    return nullptr;
  }
  model.config.architecture = "onnx";
  if (Status read = readConfigBesideGraph(folderOf(options.model), model.config); !read.isOk()) {
    error = read.message();
    return nullptr;
  }
  Expected<std::string> tokenizer = readTokenizer(options.model);
  if (!tokenizer) {
    error = tokenizer.message();
    return nullptr;
  }
  return makeGeneratingProgram(options, target, raised, model, std::move(*tokenizer), error);
}

// What ops mean is understood here, so that this may still find the input at fault.
OwningOpRef<ModuleOp> OnnxProgram::importGraph(MLIRContext &context, std::string &error) {
  OwningOpRef<ModuleOp> module = importOnnx(context, *model.onnx, error);
  if (!module)
    return {};
  PassManager pm(&context);
  addImportStage(pm);
  if (failed(verify(*module)) || failed(pm.run(*module)))
    return {};
  return module;
}

std::unique_ptr<Program> heddle::makeMlirProgram(const CompileOptions &options, const Target &target) {
  return std::make_unique<MlirProgram>(options, target);
}

std::unique_ptr<Program> heddle::makeOnnxProgram(const CompileOptions &options, const Target &target) {
  return std::make_unique<OnnxProgram>(options, target);
}
