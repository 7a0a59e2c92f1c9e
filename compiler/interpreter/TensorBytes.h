// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors as files hold them: little-endian, booleans in bytes.
#ifndef HEDDLE_COMPILER_INTERPRETER_TENSORBYTES_H
#define HEDDLE_COMPILER_INTERPRETER_TENSORBYTES_H

#include "compiler/interpreter/Tensor.h"

#include <string>

namespace heddle {

int64_t storedBytes(mlir::Type elementType); // of one element

// `bytes` holds all elements of the shape.
Tensor tensorFromBytes(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, const uint8_t *bytes);
std::string bytesOf(const Tensor &tensor);

// The same element type in another context, which outlives the one that it is from.
mlir::Type typeIn(mlir::MLIRContext &context, mlir::Type elementType);

} // namespace heddle

#endif
