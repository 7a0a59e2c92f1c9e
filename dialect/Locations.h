// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where in the model an op comes from. An importer names it (the layer's part and its weight, or the node and its op type); what merges
// ops merges their locations.
#ifndef HEDDLE_DIALECT_LOCATIONS_H
#define HEDDLE_DIALECT_LOCATIONS_H

#include "mlir/IR/Location.h"

#include <string>

namespace heddle {

// Of one op that does what several did.
mlir::Location mergedLocation(mlir::MLIRContext *context, llvm::ArrayRef<mlir::Location> parts);
// Of one op that stands for the same op of several layers.
mlir::Location sharedLocation(mlir::MLIRContext *context, llvm::ArrayRef<mlir::Location> layers);

// Of a tensor of the model's file.
mlir::Location tensorLocation(mlir::MLIRContext *context, llvm::StringRef name);
bool isOfTensor(mlir::Location location);

// For messages and reports: "model.layers.0.self_attn.q_proj + model.layers.0.self_attn.k_proj, and in 31 more layers".
std::string locationText(mlir::Location location);

} // namespace heddle

#endif
