// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What MLIR says of a module, as what readers say of a file.
#ifndef HEDDLE_FRONTENDS_MLIR_MLIRSTATUS_H
#define HEDDLE_FRONTENDS_MLIR_MLIRSTATUS_H

#include "bytes/Status.h"

#include "mlir/IR/Diagnostics.h"

namespace heddle {

// File, line and column of what was read from text, else the tensor, the part of a layer or the node that an importer named.
InputPlace placeOf(mlir::Location location);

// An error that a verifier, a parser or a pass reported, with its place.
Status statusOf(mlir::Diagnostic &diagnostic);

} // namespace heddle

#endif
