// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a model file to an output file, through every stage of Pipeline.h.
#ifndef HEDDLE_COMPILER_COMPILE_H
#define HEDDLE_COMPILER_COMPILE_H

#include "compiler/Finding.h"
#include "compiler/Pipeline.h"
#include "frontends/GivenSize.h"
#include "frontends/peft/KeepAdapters.h"

#include <cstdint>
#include <string>

namespace heddle {

enum class Emit { Executable, Library, Object, Package, Mlir, Llvm, Assembly };
enum class Precision { Fast, Precise };
enum class Task { Auto, Generate, Encode, Seq2Seq, Graph };

struct Checkpoint;
struct GeneratedCode;
struct PackageInfo;

// Is told of a compilation's progress: `heddle verify` checks modules through it. Nothing it does may change a module.
class CompileObserver {
public:
  virtual ~CompileObserver() = default;
  // Before the passes of `stage` run.
  virtual void willRun(mlir::PassManager &pm, Stage stage) {}
  // `module` is as `stage` leaves it; its weights lie in `files`. A failure has emitted its diagnostic and ends the compilation.
  virtual mlir::LogicalResult didRun(mlir::ModuleOp module, Stage stage, const Checkpoint &files) {
    return mlir::success();
  }
  // The code of a binary was generated from `module`, which the schedule stage left. The same holds of a failure.
  virtual mlir::LogicalResult didGenerate(mlir::ModuleOp module, const GeneratedCode &code, const PackageInfo &info,
                                          const Checkpoint &files) {
    return mlir::success();
  }
  // The compilation ended, well or not, and its context is about to: no module of it may be kept any longer.
  virtual void willEnd() {}
};

struct CompileOptions {
  std::string model, output;
  std::vector<AdapterUse> mergedAdapters; // that become part of the model's weights
  std::vector<NamedAdapter> adapters;     // those that stay beside it, of which a run chooses
  Emit emit = Emit::Executable;
  // Auto: checkpoints generate, encode or do one after the other, as their family does; ONNX files and MLIR modules that are causal decoders generate, others
  // are graphs.
  Task task = Task::Auto;
  bool textOnly = false;       // of a model that sees images: without what does
  std::string mmproj;          // GGUF file of what sees images beside `model`, a GGUF file; empty: none
  std::vector<GivenSize> dims; // of an ONNX file's inputs, which leave them open
  std::string target = "native";
  Precision precision = Precision::Fast;
  std::string kv = "auto";          // auto | f32 | bf16 | f16 | q8_0
  std::string activations = "auto"; // auto | f32 | bf16 | int8: inputs of products with quantised weights
  int64_t context = 0;              // 0: the model's, at most 8192
  bool extrapolates = false;        // `context` may exceed the model's positions: for tests, which do not ask for sense
  Stage stopAfter = Stage::Package;
  std::string resume;               // module that takes the place of the model's own behind its stage; empty: none
  std::string dumpStages;           // folder for <number>-<stage>.mlir, empty: none
  std::string name;                 // symbol; empty: from the output's file name
  std::string report;               // .html or .json of what was made; empty: none
  std::string depfile;              // make rule: the output depends on the model's files; empty: none
  std::vector<std::string> plugins; // libraries whose passes --add-pass runs, for the make rule
  std::string schedules;            // file of measured schedules (compiler/schedule/ScheduleFile.h); empty: none
  std::string depfileTarget;        // what stands in the rule for the output; empty: its name
  bool sidecar = false, quiet = false;
  bool printCacheKey = false;           // nothing is made: `notes` get the key
  std::vector<std::string> outputFlags; // the flags that change the output, as the user wrote them, for that key
  bool printRemarks = false;            // what passes remark, to stderr
  bool jsonDiagnostics = false;         // as objects instead of text
  PipelineOptions pipeline;
  CompileObserver *observer = nullptr;
  bool isObserved = false; // nothing is written: the observer has seen what was asked for
};

// What the user should know of a program that was made.
struct CompileNotes {
  std::vector<Finding> warnings;
  std::string cacheKey; // of CacheKey.h, if it was asked for
  std::string summary;  // the file, its size, what it computes and how to run it; empty for text
};

// Reads, compiles and writes. After a failure nothing is left behind, a previous output is untouched, and `notes` say nothing.
Status compileModel(const CompileOptions &options, CompileNotes *notes = nullptr);

} // namespace heddle

#endif
