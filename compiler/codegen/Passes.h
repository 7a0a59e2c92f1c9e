// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that show what codegen does; none is part of a compilation.
#ifndef HEDDLE_COMPILER_CODEGEN_PASSES_H
#define HEDDLE_COMPILER_CODEGEN_PASSES_H

#include "compiler/contract/StagePass.h"

#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "compiler/codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/codegen/Passes.h.inc"

} // namespace heddle

#endif
