// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an encode gives. @encode says it in its attribute `heddle.outputs`, a dictionary for each result, in their order:
//
//   heddle.outputs = [{name = "logits"}, {name = "pooler_output", of_sequences}, {name = "start_logits", squeezed}]
//
// Before the batch is flattened the type of a result of @forward says what its rows belong to, and its attributes the rest: `heddle.name`
// and, where it has it, `heddle.squeezed`.
#ifndef HEDDLE_DIALECT_ENCODEOUTPUTS_H
#define HEDDLE_DIALECT_ENCODEOUTPUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

constexpr llvm::StringLiteral outputNameAttr = "heddle.name";
constexpr llvm::StringLiteral squeezedAttr = "heddle.squeezed";

struct EncodeOutput {
  std::string name;
  bool ofSequences = false; // a row of each sequence, not of each token
  bool isSqueezed = false;  // a row is one number, and the tensor that a caller gets has no dimension for it
};

// Of @encode, or of a @forward that becomes one; nothing of any other entry.
llvm::SmallVector<EncodeOutput> outputsOf(mlir::func::FuncOp entry);
// Makes them what @encode says, which the results of @forward no longer do.
void setOutputs(mlir::func::FuncOp encode, llvm::ArrayRef<EncodeOutput> outputs);

} // namespace heddle

#endif
