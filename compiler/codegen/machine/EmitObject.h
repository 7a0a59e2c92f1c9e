// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of kernels or host code to machine code.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_EMITOBJECT_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_EMITOBJECT_H

#include "compiler/codegen/machine/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
} // namespace llvm

namespace heddle {

// Registers the dialects that kernels and host code are written in, and their translation to LLVM IR.
void registerCodegenDialects(mlir::DialectRegistry &registry);

// `func`, `scf`, `arith`, `math`, `vector`, `memref`, `cf`, `ub` and `llvm` ops → `llvm` ops only.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module, const CpuTarget &target);

enum class MachineCode { Object, Assembly, LLVMIR };

// Kernels are unrolled and vectorised where they are written; loops of a graph are plain.
enum class Loops { AsWritten, Vectorized };

// The module (`llvm` dialect) as an ELF object, assembly or LLVM IR text for `target`, optimised. Deterministic.
// Leaves the module empty, so that its ops and the machine code are not in memory together.
mlir::FailureOr<std::string> emitMachineCode(mlir::ModuleOp module, const CpuTarget &target, MachineCode kind,
                                             Loops loops = Loops::AsWritten);

// The module as ELF objects to link together, which threads make side by side. How it is divided depends on the module alone: the
// bytes are the same on every machine. Its internal functions become hidden ones, whose names begin with `prefix`, so that two
// modules may have one of the same name.
mlir::FailureOr<std::vector<std::string>> emitObjects(mlir::ModuleOp module, const CpuTarget &target,
                                                      llvm::StringRef prefix, Loops loops = Loops::AsWritten);

// A module of LLVM IR, whose functions carry their target's attributes, as machine code. Fails where `machine` emits no such code.
mlir::FailureOr<std::string> printMachineCode(llvm::Module &module, llvm::TargetMachine &machine, MachineCode kind,
                                              Loops loops = Loops::AsWritten);

} // namespace heddle

#endif
