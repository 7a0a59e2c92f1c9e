// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a model that was found in a graph says of itself, where a checkpoint has a config.
#ifndef HEDDLE_COMPILER_RAISE_FORWARDCONFIG_H
#define HEDDLE_COMPILER_RAISE_FORWARDCONFIG_H

#include "frontends/ModelConfig.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// Of @forward: the tokens of its longest sequence, where the graph that it was fixed them.
constexpr llvm::StringLiteral mostTokensAttr = "heddle.most_tokens";

enum class DecoderInput { InputIds, AttentionMask, PositionIds, Other };

// What argument `index` of @graph is by its name; without names, the one argument is input_ids.
DecoderInput decoderInput(mlir::func::FuncOp graph, unsigned index);

// Why the type of @graph and the names of its tensors are not those of a decoder without a cache, input_ids and maybe
// attention_mask and position_ids -> logits; empty if they are. Without names, the type decides.
std::string noDecoderSignature(mlir::func::FuncOp graph);

// Sizes, head counts, rotary embeddings and the greatest length of `module`'s @forward. False if it has none.
bool readForward(mlir::ModuleOp module, ModelConfig &config);

} // namespace heddle

#endif
