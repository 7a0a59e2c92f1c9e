// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What graphs of images and texts compute with tokens, in MLIR. Tensors are (batch, tokens, width) where nothing else is said; of images, all
// sizes but the batch are known.
#ifndef HEDDLE_FRONTENDS_IMPORT_TOKENOPS_H
#define HEDDLE_FRONTENDS_IMPORT_TOKENOPS_H

#include "frontends/families/ModelBuilder.h"

#include "mlir/IR/Builders.h"

namespace heddle {

// Pixels (batch, channels, size, size) as rows of patches, grid on a side, each (channels, patch, patch): what the
// image lacks of the last ones is zeros, and what lies behind them is left out.
mlir::Value patchesOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value pixels, int64_t patch, int64_t grid);
// `tokens` of x, for -1 zeros or the vector `other` where it is not null, `group` of them side by side as one.
mlir::Value tokensOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int32_t> tokens,
                     int64_t group, mlir::Value other = {});
// (batch, width)
mlir::Value meanOfTokens(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
// x plus a stored table (tokens, width), or as many rows of it as x has tokens; a call whose texts are longer ends.
mlir::Value tableAdded(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value table);

// x, each column times its number of a stored vector (width).
mlir::Value columnsScaled(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value factors);

// Integers of 64 bits, (batch, sequence), in 32 bits; a call that gives input `name` others than those in [0, limit) ends.
mlir::Value checkedIntegers(mlir::OpBuilder &b, mlir::Location loc, mlir::Value integers, const std::string &name,
                            int64_t limit);
// (batch, sequence) of 0 and 1 as what scores get, (batch, 1, 1, sequence + more): minus infinity, and nothing, as `more` keys behind get.
mlir::Value biasOfMask(mlir::OpBuilder &b, mlir::Location loc, mlir::Value mask, int64_t more = 0);
// (batch, width): the token of each text that ModelBuilder::endToken describes.
mlir::Value tokenOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value ids, std::optional<int64_t> end);
// (batch, width): the last token of each text.
mlir::Value lastTokenOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
// Of (rows, width): each divided by its length.
mlir::Value rowsOfLengthOne(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
// x y^T e^scale + bias of (rows, width) each and stored numbers; `bias` null: none.
mlir::Value scaledProducts(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value y, mlir::Value scale,
                           mlir::Value bias);

// Ids (batch, sequence), 0 in the place of those from `limit` on; and those plus `distance`, `limit` in the place of the others.
mlir::Value idsWithin(mlir::OpBuilder &b, mlir::Location loc, mlir::Value ids, int64_t limit);
mlir::Value idsBeside(mlir::OpBuilder &b, mlir::Location loc, mlir::Value ids, int64_t limit, int64_t distance);
// What ModelBuilder::weightedSum(), withMagnitudeOf() and aboveCutoff() describe.
mlir::Value sumByWeights(mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange parts, mlir::Value weights,
                         int64_t begin);
mlir::Value rowsOfMagnitude(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value like, double least);
mlir::Value rowsAboveCutoff(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, double deviations);

// What ModelBuilder::xielu() describes.
mlir::Value xieluOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value terms);

// What ModelBuilder::sigmoid(), softplus() and decay() describe.
mlir::Value sigmoidOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
mlir::Value softplusOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value bias);
mlir::Value decayOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value steps, mlir::Value rates, bool areLogs);
// x, each head times its number of `factors`: of the token, (batch, sequence, heads), or stored, (heads).
mlir::Value headsScaled(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value factors);
// (batch, sequence, times * width): all columns so many times.
mlir::Value columnsRepeated(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, int64_t times);

// What ModelBuilder::joinRuns(), splitRuns(), groupTokens(), rotated() and keyBias() describe.
mlir::Value runsJoined(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
mlir::Value runsSplit(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, int64_t length);
mlir::Value tokensGrouped(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, int64_t group, bool byColumn);
mlir::Value headsRotated(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value cosines, mlir::Value sines);
mlir::Value biasOfKeys(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

struct QueryKeyValue {
  mlir::Value q, k, v;
};
// Attention within runs of terms.tokens tokens, `table` being what terms.table names.
mlir::Value attentionWithin(mlir::OpBuilder &b, mlir::Location loc, const QueryKeyValue &rows, int64_t heads,
                            mlir::Value table, const WindowTerms &terms);

} // namespace heddle

#endif
