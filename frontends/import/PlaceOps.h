// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What graphs compute of where tokens stand: on a page, in a text, in an image of any size. Tensors are (batch, tokens, width) where nothing else is said.
#ifndef HEDDLE_FRONTENDS_IMPORT_PLACEOPS_H
#define HEDDLE_FRONTENDS_IMPORT_PLACEOPS_H

#include "frontends/families/ModelBuilder.h"

#include "mlir/IR/Builders.h"

namespace heddle {

// Number `corner` of each box, (batch, sequence, 4), less number `from` where that is one, and within [0, most] where that is not 0: (batch, sequence).
mlir::Value edgesOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value boxes, int64_t corner, int64_t from = -1,
                    int64_t most = 0);
// (batch, sequence): 0, 1, … for each text; and what ModelBuilder::embedCounted() describes, a call with more tokens than a table of so many rows has ends.
mlir::Value placesInText(mlir::OpBuilder &b, mlir::Location loc, mlir::Value ids);
mlir::Value countedTokens(mlir::OpBuilder &b, mlir::Location loc, mlir::Value ids, int64_t padding, int64_t rows);
// What ModelBuilder::pageDistances() describes; `places` are those of tokens of texts, (batch, sequence), and `table` the stored one.
mlir::Value scoresOfDistances(mlir::OpBuilder &b, mlir::Location loc, mlir::Value places, mlir::Value table,
                              const PageDistances &terms, mlir::Value onto);
// What ModelBuilder::placesOf() describes; a call whose images have no patch, or more than x has, ends.
mlir::Value placesOfPatches(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value shapes, int64_t side);

} // namespace heddle

#endif
