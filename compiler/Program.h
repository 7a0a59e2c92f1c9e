// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is compiled: a model that generates, or a graph. Compile.cpp takes either through the same steps.
#ifndef HEDDLE_COMPILER_PROGRAM_H
#define HEDDLE_COMPILER_PROGRAM_H

#include "compiler/Compile.h"
#include "compiler/package/Package.h"

#include "mlir/IR/OwningOpRef.h"

namespace heddle {

class Program {
public:
  virtual ~Program() = default;
  // Reads files and checks the options against them. No MLIR context exists yet: what is refused here costs no more than reading it.
  virtual CompileStatus read(std::string &error) = 0;
  // The verified module of the import stage. A status without an error has emitted a diagnostic.
  virtual CompileStatus import(mlir::MLIRContext &context, mlir::OwningOpRef<mlir::ModuleOp> &module,
                               std::string &error) = 0;
  // Whether the raise stage may find something in the imported module; a frontend that knows the architecture leaves it nothing to do.
  virtual bool isRaised() const { return false; }
  // Whether the raise stage first looks for a model that generates: the passes that bind a decoder's inputs run then, and what they
  // made of a graph that turns out to be none is dropped.
  virtual bool mayGenerate(mlir::ModuleOp imported) const { return false; }
  virtual void addRaiseStage(mlir::OpPassManager &pm, bool asDecoder) const {}
  // What is to be compiled of the module that the raise stage left, if it is another kind of program; it outlives this one's files.
  // Null: this one goes on, unless `error` is set. `blocked` says what the stage could not raise.
  virtual std::unique_ptr<Program> takeRaised(mlir::ModuleOp raised, llvm::StringRef blocked, std::string &error) {
    return nullptr;
  }
  virtual void addOptimizeStage(mlir::OpPassManager &pm) const = 0;
  virtual void addScheduleStage(mlir::OpPassManager &pm) const = 0;
  // Of the module that the schedule stage leaves.
  virtual mlir::FailureOr<GeneratedCode> generateCode(mlir::ModuleOp module, MachineCode kind) const = 0;
  // Adds what only this kind of program knows.
  virtual void describe(PackageInfo &info) const = 0;
  virtual std::string buildMetadata(mlir::ModuleOp module, const PackageInfo &info, const GeneratedCode &code,
                                    llvm::ArrayRef<PackedWeight> weights) const = 0;
  // Where weights lie; valid after import.
  virtual const Checkpoint &checkpoint() const = 0;
};

// Whether a graph is made of the model, not a program that generates.
bool holdsGraph(const CompileOptions &options);

// Of a file; "." for a name alone.
std::string folderOf(llvm::StringRef path);

// What the task of the options and the kind of file ask for. Both arguments outlive the program.
std::unique_ptr<Program> makeProgram(const CompileOptions &options, const Target &target);
std::unique_ptr<Program> makeGeneratingProgram(const CompileOptions &options, const Target &target);
// Of a module that has @forward: null, with an error, if the options do not fit it.
std::unique_ptr<Program> makeGeneratingProgram(const CompileOptions &options, const Target &target,
                                               mlir::ModuleOp module, Model model, std::string tokenizer,
                                               std::string &error);
std::unique_ptr<Program> makeMlirProgram(const CompileOptions &options, const Target &target);
std::unique_ptr<Program> makeOnnxProgram(const CompileOptions &options, const Target &target);

} // namespace heddle

#endif
