// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which functions of a module are called from outside, and how. A public function is an entry of the program: @step takes the new tokens
// of a ragged batch and a cache, @encode the tokens of whole sequences; either is @forward until the batch is flattened. An encoder-decoder
// has both: its @encode is @forward_encoder until then, which gives the last hidden state and, for each layer of the decoder, keys and values of the
// source, which @forward takes. A module whose only such function is @forward_encoder encodes, whatever its masks are. Any other takes and
// gives tensors, as a graph does. Private functions are the layers that entries call, and the bodies of kernels.
#ifndef HEDDLE_DIALECT_ENTRIES_H
#define HEDDLE_DIALECT_ENTRIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

class AttentionOp;

// @step, else @encode, or the @forward that becomes one of them; null in a program without.
mlir::func::FuncOp raggedEntry(mlir::ModuleOp module);
// That entry and, of an encoder-decoder, behind it @encode, or the @forward_encoder that becomes it.
llvm::SmallVector<mlir::func::FuncOp> raggedEntries(mlir::ModuleOp module);
// Whether raggedEntry() encodes: it is @encode, or becomes it, by its name or since its attention is not causal.
bool isEncoder(mlir::ModuleOp module);
bool isEncoderDecoder(mlir::ModuleOp module);
// Whether the keys and values of attention outside of graphs are kept from step to step, which those of an encoder are not.
bool keepsKeys(AttentionOp attention);

bool isGraphEntry(mlir::func::FuncOp func);
// Whether `op` belongs to a graph entry: it is one, or lies in one.
bool isInGraphEntry(mlir::Operation *op);
// In the order of the module.
llvm::SmallVector<mlir::func::FuncOp> graphEntries(mlir::ModuleOp module);
// The graph entry of a module whose only entry it is, else null.
mlir::func::FuncOp onlyGraph(mlir::ModuleOp module);

} // namespace heddle

#endif
