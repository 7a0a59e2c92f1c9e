// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of a family as a module of model ops.
#ifndef HEDDLE_FRONTENDS_IMPORT_IMPORTMODEL_H
#define HEDDLE_FRONTENDS_IMPORT_IMPORTMODEL_H

#include "frontends/ModelConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

struct Bottlenecks;

// @forward(ids, positions) -> logits, with ids and positions (batch, sequence) and logits (batch, sequence, vocab_size), and one function per
// layer. The model is one that a reader of a family gave; its weights stay in its files. Where it has adapters
// (frontends/peft/KeepAdapters.h), @forward takes the number of each token's as a third argument, 0 for none. Null, after an error, where a
// weight has adapters that are not kept apart. `bottlenecks`, null where there are none, are added to its layers.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, const Model &model,
                                              const Bottlenecks *bottlenecks);

} // namespace heddle

#endif
