// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Program.h"
#include "frontends/ModelConfig.h"
#include "frontends/mlir/ReadGraph.h"
#include "frontends/onnx/import/Importer.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

namespace {

// @graph over tensors of any shape, whatever says what it computes.
class GraphProgram : public Program {
public:
  GraphProgram(const CompileOptions &options, const Target &target) : options(options), target(target) {}

  CompileStatus read(std::string &error) override;
  CompileStatus import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) override;
  void addOptimizeStage(OpPassManager &pm) const override { addGraphOptimizeStage(pm, options.pipeline); }
  void addScheduleStage(OpPassManager &pm) const override { addGraphScheduleStage(pm, options.pipeline); }
  FailureOr<GeneratedCode> generateCode(ModuleOp module, MachineCode kind) const override {
    return generateGraphCode(module, target.cpu, kind);
  }
  void describe(PackageInfo &info) const override { info.architecture = "graph"; }
  std::string buildMetadata(ModuleOp module, const PackageInfo &info, const GeneratedCode &,
                            ArrayRef<PackedWeight> weights) const override {
    return buildGraphMetadata(module, signature, info, target, weights);
  }
  const Checkpoint &checkpoint() const override { return files; }

protected:
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

private:
  OwningOpRef<ModuleOp> importGraph(MLIRContext &context, std::string &error) override;
};

class OnnxProgram : public GraphProgram {
public:
  using GraphProgram::GraphProgram;
  CompileStatus read(std::string &error) override;

private:
  OwningOpRef<ModuleOp> importGraph(MLIRContext &context, std::string &error) override;

  Model model;
};

} // namespace

CompileStatus GraphProgram::read(std::string &error) {
  if (options.task == Task::Generate)
    error = options.model + ": --task=generate: the file holds a graph, which runs as one";
  else if (target.isDevice())
    error = options.model + ": target " + target.name + " has no kernels for graphs";
  else if (options.context || options.kv != "auto" || options.activations != "auto")
    error = "--context, --kv and --activations are of a model that generates; " + options.model + " is a graph";
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
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

OwningOpRef<ModuleOp> MlirProgram::importGraph(MLIRContext &context, std::string &error) {
  Expected<ImportedGraph> read = readMlirGraph(context, options.model);
  if (!read) {
    error = read.takeError().message;
    return {};
  }
  files = std::move(read->checkpoint);
  return std::move(read->module);
}

CompileStatus OnnxProgram::read(std::string &error) {
  if (CompileStatus status = GraphProgram::read(error); status != CompileStatus::Done)
    return status;
  Expected<Model> read = readModel(options.model);
  if (!read) {
    error = read.takeError().message;
    return CompileStatus::InvalidInput;
  }
  model = std::move(*read);
  files = model.checkpoint;
  return CompileStatus::Done;
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
