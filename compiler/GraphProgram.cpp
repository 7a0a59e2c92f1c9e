// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/Program.h"
#include "frontends/mlir/ReadGraph.h"

using namespace mlir;
using namespace heddle;

namespace {

// @graph of an MLIR module, over tensors of any shape.
class GraphProgram : public Program {
public:
  GraphProgram(const CompileOptions &options, const Target &target) : options(options), target(target) {}

  CompileStatus read(std::string &error) override;
  CompileStatus import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) override;
  void addOptimizeStage(OpPassManager &pm) const override { addGraphOptimizeStage(pm); }
  void addScheduleStage(OpPassManager &pm) const override { addGraphScheduleStage(pm); }
  FailureOr<GeneratedCode> generateCode(ModuleOp module, MachineCode kind) const override {
    return generateGraphCode(module, target.cpu, kind);
  }
  void describe(PackageInfo &info) const override { info.architecture = "graph"; }
  std::string buildMetadata(ModuleOp module, const PackageInfo &info, const GeneratedCode &, ArrayRef<PackedWeight> weights) const override {
    return buildGraphMetadata(module, signature, info, target, weights);
  }
  const Checkpoint &checkpoint() const override { return files; }

private:
  const CompileOptions &options;
  const Target &target;
  Checkpoint files;
  GraphSignature signature;
};

} // namespace

CompileStatus GraphProgram::read(std::string &error) {
  if (options.task == Task::Generate)
    error = options.model + ": --task=generate: an MLIR module runs as a graph";
  else if (target.isDevice())
    error = options.model + ": target " + target.name + " has no kernels for graphs";
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
}

CompileStatus GraphProgram::import(MLIRContext &context, OwningOpRef<ModuleOp> &module, std::string &error) {
  Expected<ImportedGraph> read = readMlirGraph(context, options.model);
  if (!read) {
    error = read.takeError().message;
    return CompileStatus::InvalidInput;
  }
  module = std::move(read->module);
  files = std::move(read->checkpoint);
  FailureOr<GraphSignature> found = graphSignature(*module);
  // What somebody wrote may break the contract of the stage: that is no fault of ours.
  if (failed(found) || failed(verifyStage(*module, Stage::Import)))
    return CompileStatus::InvalidInput;
  signature = std::move(*found);
  return CompileStatus::Done;
}

std::unique_ptr<Program> heddle::makeGraphProgram(const CompileOptions &options, const Target &target) {
  return std::make_unique<GraphProgram>(options, target);
}
