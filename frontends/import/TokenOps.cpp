// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a token goes is known before the program runs, so that shifts, windows and merges are one gather each, by stored numbers. Windows
// stand beside heads: what a window adds to its scores depends on which one it is, and the batch has no part in it.

#include "frontends/import/TokenOps.h"

#include "dialect/HeddleDialect.h"
#include "frontends/import/TokenLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

static Value expand(OpBuilder &b, Location loc, Value x, ArrayRef<int64_t> shape,
                    ArrayRef<ReassociationIndices> groups) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : shape)
    sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(tensor::DimOp::create(b, loc, x, 0).getResult())
                                                : b.getIndexAttr(size));
  return tensor::ExpandShapeOp::create(b, loc, typeOf(x).clone(shape), x, groups, sizes);
}

static Value collapse(OpBuilder &b, Location loc, Value x, ArrayRef<ReassociationIndices> groups) {
  return tensor::CollapseShapeOp::create(b, loc, x, groups);
}

static Value transpose(OpBuilder &b, Location loc, Value x, ArrayRef<int64_t> permutation) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t axis : permutation)
    sizes.push_back(tensor::getMixedSize(b, loc, x, axis));
  Value room = tensor::EmptyOp::create(b, loc, sizes, typeOf(x).getElementType());
  return linalg::TransposeOp::create(b, loc, x, room, permutation).getResult()[0];
}

Value heddle::patchesOf(OpBuilder &b, Location loc, Value pixels, int64_t patch, int64_t grid) {
  int64_t channels = typeOf(pixels).getDimSize(1), missing = grid * patch - typeOf(pixels).getDimSize(2);
  if (missing < 0) {
    SmallVector<OpFoldResult> from(4, b.getIndexAttr(0)), step(4, b.getIndexAttr(1)),
        sizes = {tensor::DimOp::create(b, loc, pixels, 0).getResult(), b.getIndexAttr(channels),
                 b.getIndexAttr(grid * patch), b.getIndexAttr(grid * patch)};
    pixels = tensor::ExtractSliceOp::create(b, loc, pixels, from, sizes, step);
  } else if (missing > 0) {
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    SmallVector<OpFoldResult> low(4, b.getIndexAttr(0)), high(4, b.getIndexAttr(0));
    high[2] = high[3] = b.getIndexAttr(missing);
    auto type = typeOf(pixels).clone({dynamic, channels, grid * patch, grid * patch});
    pixels = tensor::PadOp::create(b, loc, type, pixels, low, high, zero);
  }
  Value split = expand(b, loc, pixels, {dynamic, channels, grid, patch, grid, patch}, {{0}, {1}, {2, 3}, {4, 5}});
  return collapse(b, loc, transpose(b, loc, split, {0, 2, 4, 1, 3, 5}), {{0}, {1, 2}, {3, 4, 5}});
}

// An element of a stored tensor as a number to compute with.
static Value widened(OpBuilder &b, Location loc, Value element) {
  return element.getType().isF32() ? element : arith::ExtFOp::create(b, loc, b.getF32Type(), element).getResult();
}

Value heddle::tokensOf(OpBuilder &b, Location loc, Value x, ArrayRef<int32_t> tokens, int64_t group, Value other) {
  int64_t count = int64_t(tokens.size()), width = typeOf(x).getDimSize(2);
  Value places = numbers(b, loc, {count}, tokens);
  bool hasGaps = llvm::is_contained(tokens, -1);
  Value room = roomFor(b, loc, {dynamic, count, width}, x);
  SmallVector<Value> inputs = {places};
  SmallVector<AffineMap> maps = {mapOf(b, 3, {1})};
  if (other) {
    inputs.push_back(other);
    maps.push_back(mapOf(b, 3, {2}));
  }
  Value found = generic(b, loc, room, inputs, maps, [&](OpBuilder &b, ValueRange elements) -> Value {
    Value place = elements[0], zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    if (hasGaps)
      place = arith::MaxSIOp::create(b, loc, place, zero);
    Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), place);
    Value element = tensor::ExtractOp::create(
        b, loc, x, ValueRange{linalg::IndexOp::create(b, loc, 0), row, linalg::IndexOp::create(b, loc, 2)});
    if (!hasGaps)
      return element;
    Value isToken = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, elements[0], zero);
    Value gap =
        other ? widened(b, loc, elements[1]) : arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0)).getResult();
    return arith::SelectOp::create(b, loc, isToken, element, gap);
  });
  if (group == 1)
    return found;
  Value grouped = expand(b, loc, found, {dynamic, count / group, group, width}, {{0}, {1, 2}, {3}});
  return collapse(b, loc, grouped, {{0}, {1}, {2, 3}});
}

Value heddle::meanOfTokens(OpBuilder &b, Location loc, Value x) {
  int64_t tokens = typeOf(x).getDimSize(1), width = typeOf(x).getDimSize(2);
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value room = roomFor(b, loc, {dynamic, width}, x);
  Value start = linalg::FillOp::create(b, loc, zero, room).getResult(0);
  Value sum =
      linalg::ReduceOp::create(b, loc, x, start, ArrayRef<int64_t>{1}, [](OpBuilder &b, Location loc, ValueRange pair) {
        linalg::YieldOp::create(b, loc, arith::AddFOp::create(b, loc, pair[0], pair[1]).getResult());
      })->getResult(0);
  return generic(b, loc, room, sum, b.getMultiDimIdentityMap(2), [&](OpBuilder &b, ValueRange elements) -> Value {
    Value count = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(tokens)));
    return arith::DivFOp::create(b, loc, elements[0], count);
  });
}

Value heddle::tableAdded(OpBuilder &b, Location loc, Value x, Value table) {
  Value rows = collapse(b, loc, rowsOf(b, loc, table), {{0, 1}, {2}}), room = roomLike(b, loc, x);
  if (typeOf(x).isDynamicDim(1)) {
    Value tokens = tensor::DimOp::create(b, loc, x, 1);
    int64_t most = typeOf(table).getDimSize(0);
    Value isWithin =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, tokens, arith::ConstantIndexOp::create(b, loc, most));
    cf::AssertOp::create(b, loc, isWithin, "texts are longer than the model's " + std::to_string(most) + " positions");
    SmallVector<OpFoldResult> offsets(2, b.getIndexAttr(0)), strides(2, b.getIndexAttr(1));
    SmallVector<OpFoldResult> sizes = {tokens, b.getIndexAttr(typeOf(x).getDimSize(2))};
    auto type = typeOf(rows).clone({dynamic, typeOf(x).getDimSize(2)});
    rows = tensor::ExtractSliceOp::create(b, loc, type, rows, offsets, sizes, strides);
  }
  return generic(b, loc, room, {x, rows}, {b.getMultiDimIdentityMap(3), mapOf(b, 3, {1, 2})},
                 [&](OpBuilder &b, ValueRange e) -> Value { return arith::AddFOp::create(b, loc, e[0], e[1]); });
}

Value heddle::columnsScaled(OpBuilder &b, Location loc, Value x, Value factors) {
  bool isOne = cast<RankedTensorType>(factors.getType()).getDimSize(0) == 1;
  AffineMap place = isOne ? AffineMap::get(3, 0, b.getAffineConstantExpr(0)) : mapOf(b, 3, {2});
  return generic(
      b, loc, roomLike(b, loc, x), {x, factors}, {b.getMultiDimIdentityMap(3), place},
      [&](OpBuilder &b, ValueRange e) -> Value { return arith::MulFOp::create(b, loc, e[0], widened(b, loc, e[1])); });
}

Value heddle::checkedIntegers(OpBuilder &b, Location loc, Value integers, const std::string &name, int64_t limit) {
  Value zero = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  Value end = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(limit));
  auto isWithin = [&](OpBuilder &b, ValueRange e) -> Value {
    Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, e[0], end);
    Value isNumber = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, e[0], zero);
    return arith::AndIOp::create(b, loc, isBelow, isNumber);
  };
  assertAll(b, loc, integers, b.getMultiDimIdentityMap(2), 2, isWithin,
            name + " holds a number outside of [0, " + std::to_string(limit) + ")");
  Value numbers = tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, integers), b.getI32Type());
  return generic(b, loc, numbers, integers, b.getMultiDimIdentityMap(2), [&](OpBuilder &b, ValueRange e) -> Value {
    return arith::TruncIOp::create(b, loc, b.getI32Type(), e[0]);
  });
}

Value heddle::biasOfMask(OpBuilder &b, Location loc, Value mask, int64_t more) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, mask);
  Value room =
      tensor::EmptyOp::create(b, loc, {sizes[0], b.getIndexAttr(1), b.getIndexAttr(1), sizes[1]}, b.getF32Type());
  Value bias = generic(b, loc, room, mask, mapOf(b, 4, {0, 3}), [&](OpBuilder &b, ValueRange e) -> Value {
    Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    Value isMasked = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, e[0], zero);
    Value nothing = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    Value never = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
    return arith::SelectOp::create(b, loc, isMasked, never, nothing);
  });
  if (!more)
    return bias;
  Value nothing = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  sizes = {sizes[0], b.getIndexAttr(1), b.getIndexAttr(1), b.getIndexAttr(more)};
  Value others =
      linalg::FillOp::create(b, loc, nothing, tensor::EmptyOp::create(b, loc, sizes, b.getF32Type()).getResult())
          .getResult(0);
  return tensor::ConcatOp::create(b, loc, 3, ValueRange{bias, others});
}

// The column of each text's first largest key: its ids, or 1 where they are `end`.
static Value endOf(OpBuilder &b, Location loc, Value ids, std::optional<int64_t> end) {
  OpFoldResult texts = tensor::getMixedSize(b, loc, ids, 0);
  auto filled = [&](int32_t number) {
    Value value = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(number));
    Value room = tensor::EmptyOp::create(b, loc, texts, b.getI32Type());
    return linalg::FillOp::create(b, loc, value, room).getResult(0);
  };
  SmallVector<Value> starts = {filled(-1), filled(0)};
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(2), mapOf(b, 2, {0}), mapOf(b, 2, {0})};
  SmallVector<utils::IteratorType> loops = {utils::IteratorType::parallel, utils::IteratorType::reduction};
  return linalg::GenericOp::create(
             b, loc, ValueRange(starts).getTypes(), ids, starts, maps, loops,
             [&](OpBuilder &b, Location loc, ValueRange e) {
               Value key = e[0];
               if (end) {
                 Value id = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(*end)));
                 Value isEnd = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, key, id);
                 key = arith::ExtUIOp::create(b, loc, b.getI32Type(), isEnd);
               }
               Value column = arith::IndexCastOp::create(b, loc, b.getI32Type(), linalg::IndexOp::create(b, loc, 1));
               Value isLarger = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, key, e[1]);
               Value largest = arith::SelectOp::create(b, loc, isLarger, key, e[1]);
               Value at = arith::SelectOp::create(b, loc, isLarger, column, e[2]);
               linalg::YieldOp::create(b, loc, ValueRange{largest, at});
             })
      .getResult(1);
}

// The token of each text at its number of `places`.
static Value tokenAt(OpBuilder &b, Location loc, Value x, Value places) {
  Value room = roomFor(b, loc, {dynamic, typeOf(x).getDimSize(2)}, x);
  return generic(b, loc, room, places, mapOf(b, 2, {0}), [&](OpBuilder &b, ValueRange e) -> Value {
    Value token = arith::IndexCastOp::create(b, loc, b.getIndexType(), e[0]);
    return tensor::ExtractOp::create(
        b, loc, x, ValueRange{linalg::IndexOp::create(b, loc, 0), token, linalg::IndexOp::create(b, loc, 1)});
  });
}

Value heddle::tokenOf(OpBuilder &b, Location loc, Value x, Value ids, std::optional<int64_t> end) {
  return tokenAt(b, loc, x, endOf(b, loc, ids, end));
}

Value heddle::lastTokenOf(OpBuilder &b, Location loc, Value x) {
  Value count = tensor::DimOp::create(b, loc, x, 1), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value last = arith::IndexCastOp::create(b, loc, b.getI32Type(), arith::SubIOp::create(b, loc, count, one));
  Value room = tensor::EmptyOp::create(b, loc, tensor::getMixedSize(b, loc, x, 0), b.getI32Type());
  return tokenAt(b, loc, x, linalg::FillOp::create(b, loc, last, room).getResult(0));
}

Value heddle::rowsOfLengthOne(OpBuilder &b, Location loc, Value x) {
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value start = linalg::FillOp::create(b, loc, zero, roomFor(b, loc, {dynamic}, x)).getResult(0);
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(2), mapOf(b, 2, {0})};
  SmallVector<utils::IteratorType> loops = {utils::IteratorType::parallel, utils::IteratorType::reduction};
  Value squares = linalg::GenericOp::create(b, loc, start.getType(), x, start, maps, loops,
                                            [](OpBuilder &b, Location loc, ValueRange e) {
                                              Value square = arith::MulFOp::create(b, loc, e[0], e[0]);
                                              linalg::YieldOp::create(
                                                  b, loc, arith::AddFOp::create(b, loc, square, e[1]).getResult());
                                            })
                      .getResult(0);
  return generic(b, loc, roomLike(b, loc, x), {x, squares}, {b.getMultiDimIdentityMap(2), mapOf(b, 2, {0})},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   return arith::DivFOp::create(b, loc, e[0], math::SqrtOp::create(b, loc, e[1]));
                 });
}

Value heddle::scaledProducts(OpBuilder &b, Location loc, Value x, Value y, Value scale, Value bias) {
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  SmallVector<OpFoldResult> sizes = {tensor::getMixedSize(b, loc, x, 0), tensor::getMixedSize(b, loc, y, 0)};
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  Value start = linalg::FillOp::create(b, loc, zero, room).getResult(0);
  SmallVector<AffineMap> maps = {mapOf(b, 3, {0, 2}), mapOf(b, 3, {1, 2}), mapOf(b, 3, {0, 1})};
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  loops.back() = utils::IteratorType::reduction;
  Value products = linalg::GenericOp::create(b, loc, start.getType(), ValueRange{x, y}, start, maps, loops,
                                             [](OpBuilder &b, Location loc, ValueRange e) {
                                               Value product = arith::MulFOp::create(b, loc, e[0], e[1]);
                                               linalg::YieldOp::create(
                                                   b, loc, arith::AddFOp::create(b, loc, product, e[2]).getResult());
                                             })
                       .getResult(0);
  AffineMap first = AffineMap::get(2, 0, b.getAffineConstantExpr(0));
  SmallVector<Value> inputs = {products, scale};
  SmallVector<AffineMap> places = {b.getMultiDimIdentityMap(2), first};
  if (bias) {
    inputs.push_back(bias);
    places.push_back(first);
  }
  return generic(b, loc, room, inputs, places, [&](OpBuilder &b, ValueRange e) -> Value {
    Value scaled = arith::MulFOp::create(b, loc, e[0], math::ExpOp::create(b, loc, widened(b, loc, e[1])));
    return bias ? arith::AddFOp::create(b, loc, scaled, widened(b, loc, e[2])).getResult() : scaled;
  });
}

Value heddle::idsWithin(OpBuilder &b, Location loc, Value ids, int64_t limit) {
  return generic(b, loc, roomLike(b, loc, ids), ids, b.getMultiDimIdentityMap(2), [&](OpBuilder &b, ValueRange e) {
    Value end = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(limit)));
    Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, e[0], end);
    return arith::SelectOp::create(b, loc, isBelow, e[0], zero).getResult();
  });
}

Value heddle::idsBeside(OpBuilder &b, Location loc, Value ids, int64_t limit, int64_t distance) {
  return generic(b, loc, roomLike(b, loc, ids), ids, b.getMultiDimIdentityMap(2), [&](OpBuilder &b, ValueRange e) {
    Value end = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(limit)));
    Value step = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(distance)));
    Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, e[0], end);
    Value beside = arith::AddIOp::create(b, loc, e[0], step);
    return arith::SelectOp::create(b, loc, isBelow, end, beside).getResult();
  });
}

Value heddle::sumByWeights(OpBuilder &b, Location loc, ValueRange parts, Value weights, int64_t begin) {
  SmallVector<Value> inputs(parts);
  SmallVector<AffineMap> maps(parts.size(), b.getMultiDimIdentityMap(3));
  for (size_t i = 0; i < parts.size(); ++i) {
    AffineExpr column = b.getAffineConstantExpr(begin + int64_t(i));
    maps.push_back(AffineMap::get(3, 0, {b.getAffineDimExpr(0), b.getAffineDimExpr(1), column}, b.getContext()));
    inputs.push_back(weights);
  }
  return generic(b, loc, roomLike(b, loc, parts[0]), inputs, maps, [&](OpBuilder &b, ValueRange e) {
    Value sum;
    for (size_t i = 0; i < parts.size(); ++i) {
      Value term = arith::MulFOp::create(b, loc, e[i], e[parts.size() + i]);
      sum = sum ? arith::AddFOp::create(b, loc, sum, term).getResult() : term;
    }
    return sum;
  });
}

// The mean of `element` over the numbers of each token: (batch, sequence). `given`: further inputs of it, one for each token.
static Value meanOfRows(OpBuilder &b, Location loc, Value x, ValueRange given, Element element) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value room = tensor::EmptyOp::create(b, loc, ArrayRef(sizes).drop_back(), b.getF32Type());
  Value start = linalg::FillOp::create(b, loc, zero, room).getResult(0);
  SmallVector<Value> inputs = {x};
  llvm::append_range(inputs, given);
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(3)};
  maps.append(given.size() + 1, mapOf(b, 3, {0, 1}));
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  loops.back() = utils::IteratorType::reduction;
  Value sum = linalg::GenericOp::create(b, loc, start.getType(), inputs, start, maps, loops,
                                        [&](OpBuilder &b, Location loc, ValueRange e) {
                                          Value term = element(b, e.drop_back());
                                          linalg::YieldOp::create(
                                              b, loc, arith::AddFOp::create(b, loc, term, e.back()).getResult());
                                        })
                  .getResult(0);
  return generic(b, loc, room, sum, b.getMultiDimIdentityMap(2), [&](OpBuilder &b, ValueRange e) -> Value {
    Value width = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(typeOf(x).getDimSize(2))));
    return arith::DivFOp::create(b, loc, e[0], width);
  });
}

Value heddle::rowsOfMagnitude(OpBuilder &b, Location loc, Value x, Value like, double least) {
  auto square = [&](OpBuilder &b, ValueRange e) -> Value { return arith::MulFOp::create(b, loc, e[0], e[0]); };
  Value own = meanOfRows(b, loc, x, {}, square), wanted = meanOfRows(b, loc, like, {}, square);
  AffineMap ofToken = mapOf(b, 3, {0, 1});
  return generic(b, loc, roomLike(b, loc, x), {x, own, wanted}, {b.getMultiDimIdentityMap(3), ofToken, ofToken},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   Value bound = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(least)));
                   Value bounded = arith::MaximumFOp::create(b, loc, e[1], bound);
                   Value grown = arith::MulFOp::create(b, loc, e[0], math::SqrtOp::create(b, loc, e[2]));
                   return arith::DivFOp::create(b, loc, grown, math::SqrtOp::create(b, loc, bounded));
                 });
}

Value heddle::rowsAboveCutoff(OpBuilder &b, Location loc, Value x, double deviations) {
  Value mean = meanOfRows(b, loc, x, {}, [](OpBuilder &, ValueRange e) { return e[0]; });
  Value variance = meanOfRows(b, loc, x, mean, [&](OpBuilder &b, ValueRange e) -> Value {
    Value distance = arith::SubFOp::create(b, loc, e[0], e[1]);
    return arith::MulFOp::create(b, loc, distance, distance);
  });
  AffineMap ofToken = mapOf(b, 3, {0, 1});
  return generic(b, loc, roomLike(b, loc, x), {x, mean, variance}, {b.getMultiDimIdentityMap(3), ofToken, ofToken},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   Value factor = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(deviations)));
                   Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
                   Value above = arith::MulFOp::create(b, loc, math::SqrtOp::create(b, loc, e[2]), factor);
                   Value cutoff = arith::AddFOp::create(b, loc, e[1], above);
                   return arith::MaximumFOp::create(b, loc, arith::SubFOp::create(b, loc, e[0], cutoff), zero);
                 });
}

Value heddle::xieluOf(OpBuilder &b, Location loc, Value x, Value terms) {
  SmallVector<Value> inputs = {x};
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(3)};
  for (unsigned term = 0; term < ActivationTerms().size(); ++term) {
    inputs.push_back(terms);
    maps.push_back(AffineMap::get(3, 0, b.getAffineConstantExpr(term)));
  }
  return generic(b, loc, roomLike(b, loc, x), inputs, maps, [&](OpBuilder &b, ValueRange e) -> Value {
    Value x = e[0], one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    Value power = math::ExpOp::create(b, loc, arith::MinimumFOp::create(b, loc, x, e[4]));
    Value curve = arith::SubFOp::create(b, loc, arith::SubFOp::create(b, loc, power, one), x);
    Value square = arith::MulFOp::create(b, loc, e[1], arith::MulFOp::create(b, loc, x, x));
    Value isPositive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x, zero);
    Value bent =
        arith::SelectOp::create(b, loc, isPositive, square, arith::MulFOp::create(b, loc, e[2], curve).getResult());
    return arith::AddFOp::create(b, loc, bent, arith::MulFOp::create(b, loc, e[3], x));
  });
}

Value heddle::sigmoidOf(OpBuilder &b, Location loc, Value x) {
  return generic(b, loc, roomLike(b, loc, x), x, b.getMultiDimIdentityMap(3), [&](OpBuilder &b, ValueRange e) -> Value {
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    Value inverse = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, e[0]));
    return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, inverse));
  });
}

Value heddle::softplusOf(OpBuilder &b, Location loc, Value x, Value bias) {
  SmallVector<Value> inputs = {x};
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(3)};
  if (bias) {
    inputs.push_back(bias);
    maps.push_back(mapOf(b, 3, {2}));
  }
  return generic(b, loc, roomLike(b, loc, x), inputs, maps, [&](OpBuilder &b, ValueRange e) -> Value {
    Value sum = bias ? arith::AddFOp::create(b, loc, e[0], widened(b, loc, e[1])).getResult() : e[0];
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    Value distance = arith::NegFOp::create(b, loc, math::AbsFOp::create(b, loc, sum));
    Value rest = math::Log1pOp::create(b, loc, math::ExpOp::create(b, loc, distance));
    return arith::AddFOp::create(b, loc, arith::MaximumFOp::create(b, loc, sum, zero), rest);
  });
}

Value heddle::decayOf(OpBuilder &b, Location loc, Value steps, Value rates, bool areLogs) {
  int64_t width = typeOf(steps).getDimSize(2), count = typeOf(rates).getDimSize(0), most = std::max(width, count);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, steps);
  sizes.back() = b.getIndexAttr(most);
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  // The one with fewer columns has each for several of the other.
  AffineExpr column = b.getAffineDimExpr(2);
  SmallVector<AffineExpr> ofStep = {b.getAffineDimExpr(0), b.getAffineDimExpr(1), column.floorDiv(most / width)};
  return generic(b, loc, room, {steps, rates},
                 {AffineMap::get(3, 0, ofStep, b.getContext()), AffineMap::get(3, 0, column.floorDiv(most / count))},
                 [&](OpBuilder &b, ValueRange e) -> Value {
                   Value rate = widened(b, loc, e[1]);
                   if (areLogs)
                     rate = arith::NegFOp::create(b, loc, math::ExpOp::create(b, loc, rate));
                   return arith::MulFOp::create(b, loc, e[0], rate);
                 });
}

Value heddle::headsScaled(OpBuilder &b, Location loc, Value x, Value factors) {
  RankedTensorType type = typeOf(factors);
  int64_t dim = typeOf(x).getDimSize(2) / type.getShape().back();
  SmallVector<AffineExpr> place = {b.getAffineDimExpr(2).floorDiv(dim)};
  if (type.getRank() == 3)
    place.insert(place.begin(), {b.getAffineDimExpr(0), b.getAffineDimExpr(1)});
  return generic(
      b, loc, roomLike(b, loc, x), {x, factors},
      {b.getMultiDimIdentityMap(3), AffineMap::get(3, 0, place, b.getContext())},
      [&](OpBuilder &b, ValueRange e) -> Value { return arith::MulFOp::create(b, loc, e[0], widened(b, loc, e[1])); });
}

Value heddle::columnsRepeated(OpBuilder &b, Location loc, Value x, int64_t times) {
  int64_t width = typeOf(x).getDimSize(2);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  sizes.back() = b.getIndexAttr(times * width);
  Value room = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  SmallVector<AffineExpr> place = {b.getAffineDimExpr(0), b.getAffineDimExpr(1), b.getAffineDimExpr(2) % width};
  return generic(b, loc, room, x, AffineMap::get(3, 0, place, b.getContext()),
                 [](OpBuilder &, ValueRange e) { return e[0]; });
}

// What scores get: (1, windows * heads, tokens, tokens), windows being 1 where all have the same.
static Value biasOf(OpBuilder &b, Location loc, int64_t heads, Value table, const WindowTerms &terms) {
  int64_t n = terms.tokens;
  int64_t windows = terms.regions.empty() ? 1 : int64_t(terms.regions.size()) / n;
  Value pairs = expand(b, loc, collapse(b, loc, rowsOf(b, loc, table, terms.distances), {{0, 1}, {2}}), {n, n, heads},
                       {{0, 1}, {2}});
  Value room = roomFor(b, loc, {windows, heads, n, n}, pairs);
  SmallVector<Value> inputs = {pairs};
  SmallVector<AffineMap> maps = {mapOf(b, 4, {2, 3, 1})};
  if (windows > 1) {
    inputs.append(2, numbers(b, loc, {windows, n}, terms.regions));
    maps.append({mapOf(b, 4, {0, 2}), mapOf(b, 4, {0, 3})});
  }
  Value bias = generic(b, loc, room, inputs, maps, [&](OpBuilder &b, ValueRange elements) -> Value {
    if (windows == 1)
      return elements[0];
    Value isWithin = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, elements[1], elements[2]);
    Value across = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(terms.across));
    return arith::SelectOp::create(b, loc, isWithin, elements[0], arith::SubFOp::create(b, loc, elements[0], across));
  });
  if (windows == 1)
    return bias;
  Value flat = collapse(b, loc, bias, {{0, 1}, {2}, {3}});
  return expand(b, loc, flat, {1, windows * heads, n, n}, {{0, 1}, {2}, {3}});
}

// The size of x along `axis`, divided.
static OpFoldResult dividedSize(OpBuilder &b, Location loc, Value x, int64_t axis, int64_t by) {
  if (int64_t size = typeOf(x).getDimSize(axis); !ShapedType::isDynamic(size))
    return b.getIndexAttr(size / by);
  Value size = tensor::DimOp::create(b, loc, x, axis), divisor = arith::ConstantIndexOp::create(b, loc, by);
  return arith::DivUIOp::create(b, loc, size, divisor).getResult();
}

static Value rowsAs(OpBuilder &b, Location loc, Value x, ArrayRef<int64_t> shape, ArrayRef<OpFoldResult> sizes) {
  SmallVector<ReassociationIndices> groups = {{0, 1}, {2}};
  return tensor::ExpandShapeOp::create(b, loc, typeOf(x).clone(shape), x, groups, sizes);
}

Value heddle::runsJoined(OpBuilder &b, Location loc, Value x) {
  Value rows = collapse(b, loc, x, {{0, 1}, {2}});
  int64_t width = typeOf(x).getDimSize(2);
  return rowsAs(b, loc, rows, {1, dynamic, width},
                {b.getIndexAttr(1), tensor::getMixedSize(b, loc, rows, 0), b.getIndexAttr(width)});
}

Value heddle::runsSplit(OpBuilder &b, Location loc, Value x, int64_t length) {
  Value rows = collapse(b, loc, x, {{0, 1}, {2}});
  int64_t width = typeOf(x).getDimSize(2);
  return rowsAs(b, loc, rows, {dynamic, length, width},
                {dividedSize(b, loc, rows, 0, length), b.getIndexAttr(length), b.getIndexAttr(width)});
}

Value heddle::tokensGrouped(OpBuilder &b, Location loc, Value x, int64_t group, bool byColumn) {
  int64_t width = typeOf(x).getDimSize(2), tokens = typeOf(x).getDimSize(1);
  SmallVector<OpFoldResult> sizes = {tensor::getMixedSize(b, loc, x, 0), dividedSize(b, loc, x, 1, group),
                                     b.getIndexAttr(group), b.getIndexAttr(width)};
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}, {3}};
  auto type =
      typeOf(x).clone({typeOf(x).getDimSize(0), ShapedType::isDynamic(tokens) ? tokens : tokens / group, group, width});
  Value grouped = tensor::ExpandShapeOp::create(b, loc, type, x, groups, sizes);
  if (byColumn)
    grouped = transpose(b, loc, grouped, {0, 1, 3, 2});
  return collapse(b, loc, grouped, {{0}, {1}, {2, 3}});
}

// y[i] = x[i] cos[i] + x[(i + d / 2) mod d] sin[i], the sines of the first half being less than 0.
Value heddle::headsRotated(OpBuilder &b, Location loc, Value x, Value cosines, Value sines) {
  int64_t dim = typeOf(x).getDimSize(3);
  AffineMap ofToken = mapOf(b, 4, {0, 2, 3});
  return generic(b, loc, roomLike(b, loc, x), {x, cosines, sines}, {b.getMultiDimIdentityMap(4), ofToken, ofToken},
                 [&](OpBuilder &b, ValueRange elements) -> Value {
                   Value half = arith::ConstantIndexOp::create(b, loc, dim / 2),
                         all = arith::ConstantIndexOp::create(b, loc, dim);
                   Value column = linalg::IndexOp::create(b, loc, 3);
                   Value other = arith::RemUIOp::create(b, loc, arith::AddIOp::create(b, loc, column, half), all);
                   SmallVector<Value> place = {linalg::IndexOp::create(b, loc, 0), linalg::IndexOp::create(b, loc, 1),
                                               linalg::IndexOp::create(b, loc, 2), other};
                   Value partner = tensor::ExtractOp::create(b, loc, x, place);
                   return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, elements[0], elements[1]),
                                                arith::MulFOp::create(b, loc, partner, elements[2]));
                 });
}

Value heddle::biasOfKeys(OpBuilder &b, Location loc, Value x) {
  Value rows = collapse(b, loc, x, {{0}, {1, 2}});
  SmallVector<OpFoldResult> sizes = {tensor::getMixedSize(b, loc, rows, 0), b.getIndexAttr(1), b.getIndexAttr(1),
                                     tensor::getMixedSize(b, loc, rows, 1)};
  SmallVector<ReassociationIndices> groups = {{0, 1, 2}, {3}};
  auto type = typeOf(x).clone({typeOf(rows).getDimSize(0), 1, 1, typeOf(rows).getDimSize(1)});
  return tensor::ExpandShapeOp::create(b, loc, type, rows, groups, sizes);
}

Value heddle::attentionWithin(OpBuilder &b, Location loc, const QueryKeyValue &rows, int64_t heads, Value table,
                              const WindowTerms &terms) {
  int64_t n = terms.tokens, windows = typeOf(rows.q).getDimSize(1) / n, dim = typeOf(rows.q).getDimSize(2) / heads;
  Value bias = biasOf(b, loc, heads, table, terms);
  // Windows that all add the same to their scores are a batch, others stand beside the heads.
  bool isBatch = terms.regions.empty();
  auto headsOf = [&](Value x) {
    if (isBatch) {
      Value split = expand(b, loc, x, {dynamic, windows, n, heads, dim}, {{0}, {1, 2}, {3, 4}});
      return transpose(b, loc, collapse(b, loc, split, {{0, 1}, {2}, {3}, {4}}), {0, 2, 1, 3});
    }
    Value split = expand(b, loc, x, {dynamic, windows, n, heads, dim}, {{0}, {1, 2}, {3, 4}});
    return collapse(b, loc, transpose(b, loc, split, {0, 1, 3, 2, 4}), {{0}, {1, 2}, {3}, {4}});
  };
  Value q = headsOf(rows.q);
  auto mask = MaskAttr::get(b.getContext(), /*causal=*/false, /*window=*/0);
  Value attended =
      AttentionOp::create(b, loc, q.getType(), q, headsOf(rows.k), headsOf(rows.v), bias, Value(), Value(), Value(),
                          Value(), ValueRange(), mask, b.getF64FloatAttr(1.0 / std::sqrt(double(dim))),
                          b.getF64FloatAttr(0.0), DenseI64ArrayAttr(), DenseI64ArrayAttr());
  if (isBatch) {
    Value turned = transpose(b, loc, attended, {0, 2, 1, 3});
    Value batch = tensor::DimOp::create(b, loc, rows.q, 0);
    SmallVector<OpFoldResult> sizes = {batch, b.getIndexAttr(windows), b.getIndexAttr(n), b.getIndexAttr(heads),
                                       b.getIndexAttr(dim)};
    Value split = tensor::ExpandShapeOp::create(b, loc, typeOf(q).clone({dynamic, windows, n, heads, dim}), turned,
                                                SmallVector<ReassociationIndices>{{0, 1}, {2}, {3}, {4}}, sizes);
    return collapse(b, loc, split, {{0}, {1, 2}, {3, 4}});
  }
  Value split = expand(b, loc, attended, {dynamic, windows, heads, n, dim}, {{0}, {1, 2}, {3}, {4}});
  return collapse(b, loc, transpose(b, loc, split, {0, 1, 3, 2, 4}), {{0}, {1, 2}, {3, 4}});
}
