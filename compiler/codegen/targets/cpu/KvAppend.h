// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the keys and values of a step into the pages of its sequences: the CPU body of `kv_append`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KVAPPEND_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KVAPPEND_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/kernel/RawBuilder.h"
#include "compiler/codegen/machine/Target.h"

namespace heddle {

// A function called with a KvAppendCall.
mlir::func::FuncOp buildKvAppend(mlir::ModuleOp module, llvm::StringRef name, const KvAppendSpec &spec,
                                 const CpuTarget &target);

} // namespace heddle

#endif
