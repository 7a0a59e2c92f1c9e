// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that hold graphs: functions over tensors of any shape, whatever says what they compute. A graph may turn out to be a decoder, which
// the raise stage finds; its config and its tokenizer then lie beside the file.

#include "compiler/Program.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/package/GraphSignature.h"
#include "compiler/raise/ForwardConfig.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/Entries.h"
#include "frontends/huggingface/Config.h"
#include "frontends/mlir/ReadGraph.h"
#include "frontends/onnx/import/Importer.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/TokenizerReader.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

// Why the options do not fit a graph; empty if they do.
static std::string graphMisfit(const CompileOptions &options) {
  if (options.context || options.kv != "auto" || options.activations != "auto")
    return "--context, --kv and --activations are of a model that generates; " + options.model + " is a graph";
  return "";
}

// Who asks for the raise stage sees it try with every graph.
static bool mayGenerate(const CompileOptions &options, ModuleOp imported) {
  if (options.task == Task::Generate)
    return true;
  bool isAsked = options.stopAfter == Stage::Raise || options.observer;
  return options.task == Task::Auto && (isAsked || noDecoderSignature(graphEntries(imported).front()).empty());
}

// The options do not fit the model; success where `misfit` is empty.
static Status refusal(const CompileOptions &options, const std::string &misfit) {
  return misfit.empty() ? Status() : invalidInput(misfit).inFile(options.model);
}

Status heddle::checkGraphOptions(const CompileOptions &options) {
  if (options.task != Task::Auto && options.task != Task::Graph)
    return refusal(options, options.model + ": --task: the model is a graph, expected --task=graph or none");
  return refusal(options, graphMisfit(options));
}

std::string heddle::placeGraphs(ModuleOp module, Target &target) {
  if (!target.isDevice() || graphEntries(module).empty())
    return "";
  Target host = graphTargetOf(target);
  std::string text = "graphs have no kernels for target " + target.name + ": ", where = " on the CPU, " + host.name;
  if (raggedEntry(module))
    return text + (isEncoder(module) ? "dense layers behind pooling run" : "what sees images runs") + where;
  target = host;
  return text + "this one runs" + where;
}

// The same for every format of graphs, whose module and weights `program` has. What somebody wrote may break the contract of its stage:
// that is no fault of ours.
static Status finishImport(const CompileOptions &options, Program &program) {
  ModuleOp module = *program.module;
  if (failed(verify(module)) || failed(graphSignatures(module)) || failed(verifyStage(module, program.stage)))
    return diagnosed(StatusCode::InvalidInput);
  if (graphEntries(module).empty() || raggedEntry(module)) {
    module.emitError(
        "a graph needs a public function, which is not named step, encode or forward: those are of a model, "
        "'heddle compile MODEL --resume=FILE.mlir' goes on from its module");
    return diagnosed(StatusCode::InvalidInput);
  }
  if (program.stage == Stage::Import) {
    PassManager pm(module.getContext());
    addImportStage(pm);
    if (failed(pm.run(module)))
      return diagnosed(StatusCode::Failure);
    program.mayGenerate = program.firstStep || mayGenerate(options, module);
  }
  return program.mayGenerate ? Status() : refusal(options, graphMisfit(options));
}

// Why the options do not fit a module that `stage` has left; empty if they do.
static std::string stageMisfit(const CompileOptions &options, const Target &target, const Program &program) {
  std::string behind = options.model + ": the module is behind stage " + stageName(program.stage).str();
  if (program.stage > options.stopAfter)
    return behind + ", which --stop-after=" + stageName(options.stopAfter).str() + " does not reach";
  if (options.observer)
    return behind + ", verify begins at stage import";
  if (options.task == Task::Generate)
    return behind + ": --task=generate: what generates is found in stage raise";
  ModuleOp module = *program.module;
  if (program.stage == Stage::Schedule && module->getAttr(targetAttrName) != targetAttr(module.getContext(), target))
    return behind + " for another target than " + target.name;
  return "";
}

// What can be said of the options before the file is read.
static std::string taskMisfit(const CompileOptions &options) {
  if (options.task == Task::Encode || options.task == Task::Seq2Seq)
    return options.model + ": --task=" + (options.task == Task::Encode ? "encode" : "seq2seq") +
           ": a graph generates or runs as one";
  return options.task == Task::Graph ? graphMisfit(options) : "";
}

Status heddle::importMlir(const CompileOptions &options, const Target &target, function_ref<MLIRContext &()> context,
                          Program &program) {
  HEDDLE_RETURN_IF_ERROR(refusal(options, taskMisfit(options)));
  Expected<ImportedGraph> read = readMlirGraph(context(), program.files);
  if (!read)
    return read.status();
  program.model.checkpoint = std::move(read->checkpoint);
  program.module = std::move(read->module);
  FailureOr<Stage> stage = takeStageAttr(*program.module);
  if (failed(stage))
    return diagnosed(StatusCode::InvalidInput);
  program.stage = *stage;
  if (program.stage > Stage::Import)
    HEDDLE_RETURN_IF_ERROR(refusal(options, stageMisfit(options, target, program)));
  return finishImport(options, program);
}

// A decoder that takes a cache as inputs gets one of its own: what it computes without earlier tokens says all of it. Whoever watches the
// passes sees the graph as the file holds it.
static Status importForDecoder(const CompileOptions &options, Program &program) {
  if (options.task == Task::Graph || options.observer || options.stopAfter == Stage::Import ||
      !hasFirstStep(*program.model.onnx))
    return Status();
  Expected<OwningOpRef<ModuleOp>> module = importFirstStep(*(*program.module)->getContext(), *program.model.onnx);
  if (!module) // it stays the graph that it is
    return Status();
  PassManager pm((*module)->getContext());
  addImportStage(pm);
  if (failed(verify(**module)) || failed(pm.run(**module)))
    return diagnosed(StatusCode::Failure);
  program.firstStep = std::move(*module);
  return Status();
}

Status heddle::importOnnx(const CompileOptions &options, function_ref<MLIRContext &()> context, Program &program) {
  HEDDLE_RETURN_IF_ERROR(refusal(options, taskMisfit(options)));
  Expected<Model> read = readModel(program.files, options.dims);
  if (!read)
    return read.status();
  program.model = std::move(*read);
  // What ops mean is understood here, so that this may still find the input at fault.
  Expected<OwningOpRef<ModuleOp>> module = importOnnx(context(), *program.model.onnx);
  if (!module)
    return module.status();
  program.module = std::move(*module);
  HEDDLE_RETURN_IF_ERROR(importForDecoder(options, program));
  return finishImport(options, program);
}

Status heddle::adoptDecoder(const CompileOptions &options, const Target &target, StringRef blocked, Program &program,
                            bool &outGenerates) {
  Model &model = program.model;
  outGenerates = readForward(*program.module, model.config);
  if (!outGenerates)
    return refusal(options, options.task == Task::Generate ? (options.model + ": --task=generate: " + blocked).str()
                                                           : graphMisfit(options));
  model.config.architecture = isOnnx(program.files) ? "onnx" : "mlir";
  HEDDLE_RETURN_IF_ERROR(readConfigBesideGraph(program.files, model.config));
  Expected<std::string> tokenizer = readTokenizer(program.files, model.config.vocabSize);
  if (!tokenizer)
    return tokenizer.status();
  program.tokenizer = std::move(*tokenizer);
  return fitOptions(options, target, program);
}
