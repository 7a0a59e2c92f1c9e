// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops that ops over tokens are written with.
#ifndef HEDDLE_FRONTENDS_IMPORT_TOKENLOOPS_H
#define HEDDLE_FRONTENDS_IMPORT_TOKENLOOPS_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <string>

namespace heddle {

mlir::RankedTensorType typeOf(mlir::Value value);
// A constant of 32-bit integers.
mlir::Value numbers(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int32_t> values);
// A tensor of `shape`, whose first size, where it is not known, is the batch of `like`.
mlir::Value roomFor(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape, mlir::Value like);
mlir::Value roomLike(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

using Element = llvm::function_ref<mlir::Value(mlir::OpBuilder &b, mlir::ValueRange elements)>;
// A tensor like `room`, element by element of `inputs`, which `inputMaps` place.
mlir::Value generic(mlir::OpBuilder &b, mlir::Location loc, mlir::Value room, mlir::ValueRange inputs,
                    llvm::ArrayRef<mlir::AffineMap> inputMaps, Element element);
// Of `rank` loops those numbered `dims`.
mlir::AffineMap mapOf(mlir::OpBuilder &b, int64_t rank, llvm::ArrayRef<unsigned> dims);
// Ends the call with `message` where an element of `inputs`, which `inputMaps` place in `rank` loops, is none for which `fits` holds.
void assertAll(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange inputs,
               llvm::ArrayRef<mlir::AffineMap> inputMaps, int64_t rank, Element fits, const std::string &message);

// All rows of a stored table as numbers to compute with: (1, rows, width). `rows` empty: as they stand.
mlir::Value rowsOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value table, llvm::ArrayRef<int32_t> rows = {});

} // namespace heddle

#endif
