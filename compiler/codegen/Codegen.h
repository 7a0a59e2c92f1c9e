// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The codegen stage: a scheduled module becomes objects.
#ifndef HEDDLE_COMPILER_CODEGEN_CODEGEN_H
#define HEDDLE_COMPILER_CODEGEN_CODEGEN_H

#include "compiler/codegen/host/KernelLibrary.h"
#include "compiler/codegen/machine/EmitObject.h"

namespace heddle {

// Which functions the runtime calls (runtime/model/ModelAbi.h): heddle_step, and heddle_graph_0, heddle_graph_1, …
struct ModelEntries {
  bool hasStep = false, hasEncode = false;
  unsigned numGraphs = 0;
};

struct GeneratedCode {
  ModelEntries entries;
  std::vector<std::string> objects; // ELF, or for text kinds what MLIR emitted as one text: of a GPU, its kernels alone
  std::vector<KernelRecord> kernels;  // in order of first call
  std::vector<KernelLaunch> launches; // of the step, in order of emission
};

// Kernels and entries of the module that the schedule stage leaves.
mlir::FailureOr<GeneratedCode> generateCode(mlir::ModuleOp module, const Target &target, MachineCode kind);

// The section of the note that names a model's package by its SHA-256. Linkers give it a program header, which the package stage
// puts to another use.
inline constexpr llvm::StringLiteral modelNoteSection = ".note.heddle";

// The object that defines const heddle_model *heddle_model_<name>(void), for a package whose metadata has this SHA-256. `variants`: the symbols
// of the code for further CPUs.
mlir::FailureOr<std::string> emitModelObject(mlir::MLIRContext &context, llvm::StringRef name,
                                             llvm::ArrayRef<uint8_t> packageSha256, const ModelEntries &entries,
                                             const Target &target, llvm::ArrayRef<std::string> variants = {});

// The object of code for a further CPU, which defines the heddle_model itself, as `symbol`.
mlir::FailureOr<std::string> emitVariantObject(mlir::MLIRContext &context, llvm::StringRef symbol, llvm::StringRef name,
                                               llvm::ArrayRef<uint8_t> packageSha256, const ModelEntries &entries,
                                               const Target &target);

} // namespace heddle

#endif
