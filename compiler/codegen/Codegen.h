// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The codegen stage: a scheduled module becomes objects.
#ifndef HEDDLE_COMPILER_CODEGEN_CODEGEN_H
#define HEDDLE_COMPILER_CODEGEN_CODEGEN_H

#include "compiler/codegen/EmitObject.h"
#include "compiler/codegen/KernelLibrary.h"

namespace heddle {

// Which function the runtime calls (runtime/model/ModelAbi.h).
enum class ModelEntry { Step, Graph };

struct GeneratedCode {
  ModelEntry entry = ModelEntry::Step;
  std::vector<std::string> objects; // ELF, or for text kinds what MLIR emitted as one text: of a GPU, its kernels alone
  std::vector<KernelRecord> kernels;  // in order of first call
  std::vector<KernelLaunch> launches; // in order of emission
};

// Kernels and the step function of a module after plan-memory.
mlir::FailureOr<GeneratedCode> generateCode(mlir::ModuleOp module, const Target &target, MachineCode kind);

// The code of a module after bufferize-graph.
mlir::FailureOr<GeneratedCode> generateGraphCode(mlir::ModuleOp module, const Target &target, MachineCode kind);

// The section of the note that names a model's package by its SHA-256. Linkers give it a program header, which the package stage
// puts to another use.
inline constexpr llvm::StringLiteral modelNoteSection = ".note.heddle";

// The object that defines const heddle_model *heddle_model_<name>(void), for a package whose metadata has this SHA-256.
mlir::FailureOr<std::string> emitModelObject(mlir::MLIRContext &context, llvm::StringRef name,
                                             llvm::ArrayRef<uint8_t> packageSha256, ModelEntry entry,
                                             const Target &target);

} // namespace heddle

#endif
