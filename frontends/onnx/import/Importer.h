// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From an ONNX graph to @graph: one function of upstream ops on tensors.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_IMPORTER_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_IMPORTER_H

#include "bytes/Expected.h"
#include "frontends/onnx/OnnxModel.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

// A module with
//   func.func @graph(%ids: tensor<?x?xi64> {heddle.name = "input_ids", heddle.dims = ["batch", "sequence"]}, …)
//       -> (tensor<…> {heddle.name = "logits"}, …)
// Inputs that are initialisers are no arguments. Unsigned integers are signless in the IR; arguments and results say
// `heddle.unsigned`. A failure names file, node, op, domain and opset: the graph means nothing, or has an op that is not
// supported.
Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, const OnnxModel &model);

// Whether the graph gives logits (and keys and values, `present…`) for input_ids, and takes more than them: keys and values of earlier tokens,
// called `past…`, or a mask or positions whose batch and sequence have names of their own.
bool hasFirstStep(const OnnxModel &model);
// The same module for a sequence that begins here: keys and values of earlier tokens are empty and no arguments, attention_mask and
// position_ids have the shape of input_ids, use_cache_branch is false, cache_position counts, and the only result is logits. For models
// that hasFirstStep().
Expected<mlir::OwningOpRef<mlir::ModuleOp>> importFirstStep(mlir::MLIRContext &context, const OnnxModel &model);

} // namespace heddle

#endif
