// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that hold graphs: functions over tensors of any shape, whatever says what they compute. An ONNX file may turn out to hold a
// decoder, which the raise stage finds; its config and its tokenizer then lie beside the file.

#include "compiler/Program.h"
#include "compiler/package/GraphSignature.h"
#include "compiler/raise/ForwardConfig.h"
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
static std::string graphMisfit(const CompileOptions &options, const Target &target) {
  if (target.isDevice())
    return options.model + ": target " + target.name + " has no kernels for graphs";
  if (options.context || options.kv != "auto" || options.activations != "auto")
    return "--context, --kv and --activations are of a model that generates; " + options.model + " is a graph";
  return "";
}

// What somebody wrote may break the contract of the stage: that is no fault of ours.
static CompileStatus finishImport(Program &program) {
  ModuleOp module = *program.module;
  if (failed(verify(module)) || failed(graphSignatures(module)) || failed(verifyStage(module, Stage::Import)))
    return CompileStatus::InvalidInput;
  if (graphEntries(module).empty() || raggedEntry(module)) {
    module.emitError("a graph needs a public function, which is not named step, encode or forward");
    return CompileStatus::InvalidInput;
  }
  PassManager pm(module.getContext());
  addImportStage(pm);
  return succeeded(pm.run(module)) ? CompileStatus::Done : CompileStatus::Failure;
}

CompileStatus heddle::importMlir(const CompileOptions &options, const Target &target,
                                 function_ref<MLIRContext &()> context, Program &program, std::string &error) {
  error = options.task == Task::Generate || options.task == Task::Encode
              ? options.model + ": --task=" + (options.task == Task::Encode ? "encode" : "generate") +
                    ": the file holds a graph, which runs as one"
              : graphMisfit(options, target);
  if (!error.empty())
    return CompileStatus::InvalidInput;
  Expected<ImportedGraph> read = readMlirGraph(context(), program.files);
  if (!read) {
    error = read.message();
    return CompileStatus::InvalidInput;
  }
  program.model.checkpoint = std::move(read->checkpoint);
  program.module = std::move(read->module);
  return finishImport(program);
}

// Who asks for the raise stage sees it try with every graph.
static bool mayGenerate(const CompileOptions &options, ModuleOp imported) {
  if (options.task == Task::Generate)
    return true;
  bool isAsked = options.stopAfter == Stage::Raise || options.observer;
  return options.task == Task::Auto && (isAsked || noDecoderSignature(graphEntries(imported).front()).empty());
}

CompileStatus heddle::importOnnx(const CompileOptions &options, const Target &target,
                                 function_ref<MLIRContext &()> context, Program &program, std::string &error) {
  if (options.task == Task::Graph)
    error = graphMisfit(options, target);
  if (options.task == Task::Encode)
    error = options.model + ": --task=encode: an ONNX file generates or runs as a graph";
  if (!error.empty())
    return CompileStatus::InvalidInput;
  Expected<Model> read = readModel(program.files);
  if (!read) {
    error = read.message();
    return CompileStatus::InvalidInput;
  }
  program.model = std::move(*read);
  // What ops mean is understood here, so that this may still find the input at fault.
  program.module = importOnnx(context(), *program.model.onnx, error);
  if (!program.module)
    return CompileStatus::InvalidInput;
  if (CompileStatus status = finishImport(program); status != CompileStatus::Done)
    return status;
  program.mayGenerate = mayGenerate(options, *program.module);
  if (!program.mayGenerate)
    error = graphMisfit(options, target);
  return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
}

CompileStatus heddle::adoptDecoder(const CompileOptions &options, const Target &target, StringRef blocked,
                                   Program &program, bool &outGenerates, std::string &error) {
  auto refuse = [&](std::string message) {
    error = std::move(message);
    return CompileStatus::InvalidInput;
  };
  Model &model = program.model;
  outGenerates = readForward(*program.module, model.config);
  if (!outGenerates) {
    error = options.task == Task::Generate ? (options.model + ": --task=generate: " + blocked).str()
                                           : graphMisfit(options, target);
    return error.empty() ? CompileStatus::Done : CompileStatus::InvalidInput;
  }
  model.config.architecture = "onnx";
  if (Status read = readConfigBesideGraph(program.files, model.config); !read.isOk())
    return refuse(read.message());
  Expected<std::string> tokenizer = readTokenizer(program.files, model.config.vocabSize);
  if (!tokenizer)
    return refuse(tokenizer.message());
  program.tokenizer = std::move(*tokenizer);
  return fitOptions(options, target, program, error);
}
