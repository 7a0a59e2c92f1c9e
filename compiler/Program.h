// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is compiled, and how each kind of model file becomes it. Compile.cpp takes every program through the same stages.
#ifndef HEDDLE_COMPILER_PROGRAM_H
#define HEDDLE_COMPILER_PROGRAM_H

#include "bytes/Status.h"
#include "compiler/Compile.h"
#include "compiler/codegen/machine/Target.h"
#include "frontends/ModelConfig.h"
#include "frontends/ModelFiles.h"

#include "mlir/IR/OwningOpRef.h"

namespace heddle {

// What a model file says: its entries in the IR (dialect/Entries.h), and what stands beside them.
struct Program {
  ModelFiles files;      // all that was read of the model, of which the output is made
  ModelFiles mmproj;     // the same of what sees images, where it lies in a file of its own
  AdapterMerge merged;   // the same of adapters that became part of its weights, and what they changed
  KeptAdapters adapters; // those beside it
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Model model;                     // where weights lie; the config of a model that generates
  std::string tokenizer;           // serialised package::Tokenizer; empty without one
  PipelineOptions pipeline;        // the options', and what they leave to the model
  Stage stage = Stage::Import;     // that the module is behind
  bool consistsOfModelOps = false; // a frontend knew the architecture: there is nothing to raise
  bool mayGenerate = false;        // a graph that the raise stage may find to be a decoder
  // The graph for a sequence that begins, where its own takes a cache as inputs or a mask of any shape: the raise stage looks for a decoder
  // in this one.
  mlir::OwningOpRef<mlir::ModuleOp> firstStep;
};

// A failure of which MLIR's diagnostics say what it is: compileModel puts the words in.
inline Status diagnosed(StatusCode code) {
  return Status(code, "");
}

// Reads the model that `options` name and imports it. `context` is called once files and options have been found to fit: what is refused
// before costs no more than reading it.
Status importProgram(const CompileOptions &options, const Target &target,
                     llvm::function_ref<mlir::MLIRContext &()> context, Program &program);

// The kinds of files. GGUF files and Hugging Face folders hold decoders; `.mlir` and `.onnx` files hold graphs.
Status importDecoder(const CompileOptions &options, const Target &target,
                     llvm::function_ref<mlir::MLIRContext &()> context, Program &program);
Status importMlir(const CompileOptions &options, const Target &target,
                  llvm::function_ref<mlir::MLIRContext &()> context, Program &program);
Status importOnnx(const CompileOptions &options, llvm::function_ref<mlir::MLIRContext &()> context, Program &program);

// Checks the options against the program, whose module is there, and decides what they leave to it and the target: precision, and of a
// model over rows cache and context.
Status fitOptions(const CompileOptions &options, const Target &target, Program &program);

// Refuses options that are of a model that generates or encodes, and targets without graphs: `options.model` is a graph.
Status checkGraphOptions(const CompileOptions &options);

// A graph allocates, branches and fails on its way, which what is enqueued on a device cannot: beside a step it runs on the processor that the step is
// enqueued from (graphTargetOf), and where there is nothing else, `target` becomes that. Says so; empty where nothing runs elsewhere than was asked for.
std::string placeGraphs(mlir::ModuleOp module, Target &target);

// After the raise stage looked for a decoder in a graph: reads the config and the tokenizer beside one that it found. Where it found
// none, `outGenerates` is false, and a failure says why if the options ask for one; `blocked` is what the stage could not raise.
Status adoptDecoder(const CompileOptions &options, const Target &target, llvm::StringRef blocked, Program &program,
                    bool &outGenerates);

// Whether a graph is made of the model, not a program that generates.
bool holdsGraph(const CompileOptions &options);

// Of a file; "." for a name alone.
std::string folderOf(llvm::StringRef path);

// What a decoder is read for.
DecoderUse decoderUse(const CompileOptions &options);
// Longest sequence of a program that generates.
int64_t contextOf(const CompileOptions &options, const ModelConfig &config);
// Longest source of an encoder-decoder.
int64_t sourceContextOf(const CompileOptions &options, const ModelConfig &config);

} // namespace heddle

#endif
