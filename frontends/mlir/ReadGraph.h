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
  Checkpoint checkpoint; // files that weights name by their index
};

// Parses and verifies the model's file. Messages begin with its path.
Expected<mlir::OwningOpRef<mlir::ModuleOp>> readMlirModule(mlir::MLIRContext &context, ModelFiles &files);

// The same with the files that the module's attribute `heddle.files` names, mapped; a weight that lies in none of them is refused.
Expected<ImportedGraph> readMlirGraph(mlir::MLIRContext &context, ModelFiles &files);

} // namespace heddle

#endif
