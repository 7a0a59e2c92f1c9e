// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What rms_norm and layer_norm have in common.
#ifndef HEDDLE_DIALECT_NORMS_H
#define HEDDLE_DIALECT_NORMS_H

#include "dialect/HeddleDialect.h"

namespace heddle {

// Whether each head of the input has numbers of its own in the weight, and in the bias.
template <typename NormOp> bool isPerHead(NormOp op) {
  auto width = [](mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape().back(); };
  return width(op.getWeight()) != width(op.getInput());
}

} // namespace heddle

#endif
