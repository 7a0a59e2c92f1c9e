// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graphs written in MLIR: a module whose function @graph says what is computed. README.md describes the format.
#ifndef HEDDLE_FRONTENDS_MLIR_READGRAPH_H
#define HEDDLE_FRONTENDS_MLIR_READGRAPH_H

#include "frontends/Checkpoint.h"
#include "frontends/ModelFiles.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

struct ImportedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Checkpoint checkpoint; // files that weights name by their index, then the module's own
};

// Parses and verifies the model's file, and maps the files that the module's attribute `heddle.files` names.
Expected<ImportedGraph> readMlirGraph(mlir::MLIRContext &context, ModelFiles &files);

} // namespace heddle

#endif
