// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a module that somebody goes on from (`--resume`) is of the model that it is given with.
#ifndef HEDDLE_COMPILER_RESUMEDMODULE_H
#define HEDDLE_COMPILER_RESUMEDMODULE_H

#include "compiler/contract/Stage.h"
#include "frontends/Checkpoint.h"

#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// What tells `resumed` from what `own`, the module of the model with `checkpoint`, is after `stage`: entries, their types, the target called
// `targetName`, or a weight that the checkpoint has not. "" where nothing does.
std::string whyOfAnotherModel(mlir::ModuleOp resumed, mlir::ModuleOp own, const Checkpoint &checkpoint, Stage stage,
                              const std::string &targetName);

} // namespace heddle

#endif
