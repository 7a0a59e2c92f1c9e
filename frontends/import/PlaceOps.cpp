// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a token stands is given with it: positions on a page, in a text with padding and in an image of any size are computed while the program runs.

#include "frontends/import/PlaceOps.h"

#include "frontends/import/TokenLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

// Of `rank` loops: the first of them, or two, and then the number `place`.
static AffineMap placeBehind(OpBuilder &b, int64_t rank, unsigned loops, int64_t place) {
  SmallVector<AffineExpr> exprs;
  for (unsigned loop = 0; loop < loops; ++loop)
    exprs.push_back(b.getAffineDimExpr(loop));
  exprs.push_back(b.getAffineConstantExpr(place));
  return AffineMap::get(rank, 0, exprs, b.getContext());
}

Value heddle::edgesOf(OpBuilder &b, Location loc, Value boxes, int64_t corner, int64_t from, int64_t most) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, boxes);
  sizes.pop_back();
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getI64Type());
  SmallVector<Value> inputs = {boxes};
  SmallVector<AffineMap> maps = {placeBehind(b, 2, 2, corner)};
  if (from >= 0) {
    inputs.push_back(boxes);
    maps.push_back(placeBehind(b, 2, 2, from));
  }
  return generic(b, loc, room, inputs, maps, [&](OpBuilder &b, ValueRange e) -> Value {
    Value edge = from < 0 ? e[0] : arith::SubIOp::create(b, loc, e[0], e[1]).getResult();
    if (!most)
      return edge;
    Value zero = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
    Value end = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(most));
    return arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, edge, zero), end);
  });
}

Value heddle::placesInText(OpBuilder &b, Location loc, Value ids) {
  return generic(b, loc, roomLike(b, loc, ids), ValueRange(), {}, [&](OpBuilder &b, ValueRange) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), linalg::IndexOp::create(b, loc, 1));
  });
}

Value heddle::countedTokens(OpBuilder &b, Location loc, Value ids, int64_t padding, int64_t rows) {
  int64_t most = rows - padding - 1;
  Value isWithin = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, tensor::DimOp::create(b, loc, ids, 1),
                                         arith::ConstantIndexOp::create(b, loc, most));
  cf::AssertOp::create(b, loc, isWithin, "texts are longer than the model's " + std::to_string(most) + " positions");
  auto number = [&](OpBuilder &b, int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value))).getResult();
  };
  auto isToken = [&](OpBuilder &b, Value id) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, id, number(b, padding));
  };
  // Loops: text, token, and each token up to it.
  Value start = linalg::FillOp::create(b, loc, number(b, 0), roomLike(b, loc, ids)).getResult(0);
  SmallVector<AffineMap> maps = {mapOf(b, 3, {0, 2}), mapOf(b, 3, {0, 1}), mapOf(b, 3, {0, 1})};
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  loops.back() = utils::IteratorType::reduction;
  Value counts =
      linalg::GenericOp::create(b, loc, start.getType(), ValueRange{ids, ids}, start, maps, loops,
                                [&](OpBuilder &b, Location loc, ValueRange e) {
                                  Value isUpTo = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule,
                                                                       linalg::IndexOp::create(b, loc, 2),
                                                                       linalg::IndexOp::create(b, loc, 1));
                                  Value counts = arith::AndIOp::create(b, loc, isUpTo, isToken(b, e[0]));
                                  Value one = arith::ExtUIOp::create(b, loc, b.getI32Type(), counts);
                                  linalg::YieldOp::create(b, loc, arith::AddIOp::create(b, loc, e[2], one).getResult());
                                })
          .getResult(0);
  AffineMap same = b.getMultiDimIdentityMap(2);
  return generic(b, loc, roomLike(b, loc, ids), {ids, counts}, {same, same}, [&](OpBuilder &b, ValueRange e) -> Value {
    Value count = arith::SelectOp::create(b, loc, isToken(b, e[0]), e[1], number(b, 0));
    return arith::AddIOp::create(b, loc, count, number(b, padding));
  });
}

// (heads, 2 * most + 1): what each distance from -most on adds.
static Value tableOfDistances(OpBuilder &b, Location loc, Value table, const PageDistances &terms) {
  std::vector<int32_t> columns;
  size_t start = 0;
  for (int64_t distance = -terms.most; distance <= terms.most; ++distance) {
    while (start < terms.buckets.starts.size() && terms.buckets.starts[start] <= distance)
      ++start;
    columns.push_back(int32_t(terms.buckets.rows[start]));
  }
  auto count = int64_t(columns.size());
  Value rows = rowsOf(b, loc, table);
  Value room = roomFor(b, loc, {typeOf(table).getDimSize(0), count}, rows);
  return generic(
      b, loc, room, numbers(b, loc, {count}, columns), mapOf(b, 2, {1}), [&](OpBuilder &b, ValueRange e) -> Value {
        Value first = arith::ConstantIndexOp::create(b, loc, 0);
        Value column = arith::IndexCastOp::create(b, loc, b.getIndexType(), e[0]);
        Value value =
            tensor::ExtractOp::create(b, loc, rows, ValueRange{first, linalg::IndexOp::create(b, loc, 0), column});
        Value scale = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(terms.scale)));
        return arith::MulFOp::create(b, loc, value, scale);
      });
}

Value heddle::scoresOfDistances(OpBuilder &b, Location loc, Value places, Value table, const PageDistances &terms,
                                Value onto) {
  auto behind = int64_t(terms.behind.size());
  SmallVector<OpFoldResult> sizes = {tensor::getMixedSize(b, loc, places, 0), b.getIndexAttr(behind)};
  Value others =
      generic(b, loc, tensor::EmptyOp::create(b, loc, sizes, b.getI32Type()), numbers(b, loc, {behind}, terms.behind),
              mapOf(b, 2, {1}), [](OpBuilder &, ValueRange e) { return e[0]; });
  Value all = tensor::ConcatOp::create(b, loc, 1, ValueRange{places, others});
  Value added = tableOfDistances(b, loc, table, terms);
  OpFoldResult tokens = tensor::getMixedSize(b, loc, all, 1);
  sizes = {sizes[0], tensor::getMixedSize(b, loc, added, 0), tokens, tokens};
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  SmallVector<AffineExpr> ofOnto;
  for (unsigned dim = 0; dim < 4; ++dim)
    ofOnto.push_back(typeOf(onto).getDimSize(dim) == 1 ? b.getAffineConstantExpr(0) : b.getAffineDimExpr(dim));
  return generic(b, loc, room, {all, all, onto},
                 {mapOf(b, 4, {0, 2}), mapOf(b, 4, {0, 3}), AffineMap::get(4, 0, ofOnto, b.getContext())},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   auto number = [&](int64_t value) {
                     return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value))).getResult();
                   };
                   Value distance = arith::SubIOp::create(b, loc, e[0], e[1]);
                   Value within = arith::MinSIOp::create(
                       b, loc, arith::MaxSIOp::create(b, loc, distance, number(-terms.most)), number(terms.most));
                   Value column = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                                             arith::AddIOp::create(b, loc, within, number(terms.most)));
                   Value term =
                       tensor::ExtractOp::create(b, loc, added, ValueRange{linalg::IndexOp::create(b, loc, 1), column});
                   return arith::AddFOp::create(b, loc, e[2], term);
                 });
}

// What each of `side` rows of the square counts for the row that a patch is in, or columns for its column; (images, patches, side), not divided by their sum.
static Value countsAlong(OpBuilder &b, Location loc, Value x, Value shapes, int64_t side, bool isColumn) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  sizes.back() = b.getIndexAttr(side);
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  return generic(
      b, loc, room, {shapes, shapes}, {placeBehind(b, 3, 1, 0), placeBehind(b, 3, 1, 1)},
      [&](OpBuilder &b, ValueRange e) -> Value {
        auto integer = [&](int64_t number) {
          return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(number)).getResult();
        };
        auto real = [&](float number) {
          return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(number)).getResult();
        };
        auto widened = [&](Value number) -> Value { return arith::SIToFPOp::create(b, loc, b.getF32Type(), number); };
        auto loop = [&](unsigned dim) -> Value {
          return arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, dim));
        };
        Value patch = loop(1), columns = arith::MaxSIOp::create(b, loc, e[1], integer(1));
        Value row = arith::DivSIOp::create(b, loc, patch, columns), place = row;
        if (isColumn)
          place = arith::SubIOp::create(b, loc, patch, arith::MulIOp::create(b, loc, row, columns));
        // What fills up a batch stands where the first patch does.
        Value isOfImage = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, row, e[0]);
        place = arith::SelectOp::create(b, loc, isOfImage, place, integer(0));
        Value scale = arith::DivFOp::create(b, loc, real(float(side)), widened(e[isColumn]));
        Value reach = arith::MaximumFOp::create(b, loc, scale, real(1.0F));
        Value middle = arith::AddFOp::create(b, loc, widened(place), real(0.5F));
        Value center = arith::SubFOp::create(b, loc, arith::MulFOp::create(b, loc, middle, scale), real(0.5F));
        Value distance = math::AbsFOp::create(b, loc, arith::SubFOp::create(b, loc, widened(loop(2)), center));
        Value share = arith::SubFOp::create(b, loc, real(1.0F), arith::DivFOp::create(b, loc, distance, reach));
        return arith::MaximumFOp::create(b, loc, share, real(0.0F));
      });
}

// (batch, sequence): what the last dimension adds up to.
static Value sumOfRows(OpBuilder &b, Location loc, Value x) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  sizes.pop_back();
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value start = linalg::FillOp::create(b, loc, zero, tensor::EmptyOp::create(b, loc, sizes, b.getF32Type()).getResult())
                    .getResult(0);
  return linalg::ReduceOp::create(b, loc, x, start, ArrayRef<int64_t>{2},
                                  [](OpBuilder &b, Location loc, ValueRange pair) {
                                    linalg::YieldOp::create(
                                        b, loc, arith::AddFOp::create(b, loc, pair[0], pair[1]).getResult());
                                  })
      ->getResult(0);
}

// The weights of a bilinear filter that is as wide as a pixel of the smaller of both grids: those of a row times those of a column.
Value heddle::placesOfPatches(OpBuilder &b, Location loc, Value x, Value shapes, int64_t side) {
  Value patches = arith::IndexCastOp::create(b, loc, b.getI64Type(), tensor::DimOp::create(b, loc, x, 1));
  Value none = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  auto fits = [&](OpBuilder &b, ValueRange e) -> Value {
    // Neither side is above the number of patches, so that their product does not wrap.
    Value all =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, arith::MulIOp::create(b, loc, e[0], e[1]), patches);
    for (Value each : {e[0], e[1]}) {
      Value isSide = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, each, none);
      Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, each, patches);
      all = arith::AndIOp::create(b, loc, all, arith::AndIOp::create(b, loc, isSide, isBelow));
    }
    return all;
  };
  assertAll(b, loc, {shapes, shapes}, {placeBehind(b, 1, 1, 0), placeBehind(b, 1, 1, 1)}, 1, fits,
            "spatial_shapes holds rows and columns that are none of an image of as many patches as pixel_values has");
  Value ofRows = countsAlong(b, loc, x, shapes, side, false), ofColumns = countsAlong(b, loc, x, shapes, side, true);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  sizes.back() = b.getIndexAttr(side * side);
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  auto along = [&](AffineExpr place) {
    return AffineMap::get(3, 0, {b.getAffineDimExpr(0), b.getAffineDimExpr(1), place}, b.getContext());
  };
  AffineExpr place = b.getAffineDimExpr(2);
  AffineMap ofToken = mapOf(b, 3, {0, 1});
  return generic(b, loc, room, {ofRows, ofColumns, sumOfRows(b, loc, ofRows), sumOfRows(b, loc, ofColumns)},
                 {along(place.floorDiv(side)), along(place % side), ofToken, ofToken},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   Value row = arith::DivFOp::create(b, loc, e[0], e[2]);
                   return arith::MulFOp::create(b, loc, row, arith::DivFOp::create(b, loc, e[1], e[3]));
                 });
}
