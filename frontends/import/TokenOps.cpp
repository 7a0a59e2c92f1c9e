// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a token goes is known before the program runs, so that shifts, windows and merges are one gather each, by stored numbers. Windows
// stand beside heads: what a window adds to its scores depends on which one it is, and the batch has no part in it.

#include "frontends/import/TokenOps.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value numbers(OpBuilder &b, Location loc, ArrayRef<int64_t> shape, ArrayRef<int32_t> values) {
  auto type = RankedTensorType::get(shape, b.getI32Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, values));
}

// A tensor of `shape`, whose first size, where it is not known, is the batch of `like`.
static Value roomFor(OpBuilder &b, Location loc, ArrayRef<int64_t> shape, Value like) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : shape)
    sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(tensor::DimOp::create(b, loc, like, 0).getResult())
                                                : b.getIndexAttr(size));
  return tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
}

using Element = function_ref<Value(OpBuilder &b, ValueRange elements)>;

// A tensor like `room`, element by element of `inputs`, which `maps` places.
static Value generic(OpBuilder &b, Location loc, Value room, ValueRange inputs, ArrayRef<AffineMap> inputMaps,
                     Element element) {
  int64_t rank = typeOf(room).getRank();
  SmallVector<AffineMap> maps(inputMaps);
  maps.push_back(b.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  return linalg::GenericOp::create(b, loc, room.getType(), inputs, room, maps, loops,
                                   [&](OpBuilder &body, Location at, ValueRange elements) {
                                     linalg::YieldOp::create(body, at, element(body, elements));
                                   })
      .getResult(0);
}

static AffineMap mapOf(OpBuilder &b, int64_t rank, ArrayRef<unsigned> dims) {
  SmallVector<AffineExpr> exprs;
  for (unsigned dim : dims)
    exprs.push_back(b.getAffineDimExpr(dim));
  return AffineMap::get(rank, 0, exprs, b.getContext());
}

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
  SmallVector<int64_t> shape;
  for (int64_t axis : permutation)
    shape.push_back(typeOf(x).getDimSize(axis));
  return linalg::TransposeOp::create(b, loc, x, roomFor(b, loc, shape, x), permutation).getResult()[0];
}

Value heddle::patchesOf(OpBuilder &b, Location loc, Value pixels, int64_t patch) {
  int64_t channels = typeOf(pixels).getDimSize(1), size = typeOf(pixels).getDimSize(2);
  int64_t grid = (size + patch - 1) / patch, missing = grid * patch - size;
  if (missing) {
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    SmallVector<OpFoldResult> low(4, b.getIndexAttr(0)), high(4, b.getIndexAttr(0));
    high[2] = high[3] = b.getIndexAttr(missing);
    auto type = typeOf(pixels).clone({dynamic, channels, grid * patch, grid * patch});
    pixels = tensor::PadOp::create(b, loc, type, pixels, low, high, zero);
  }
  Value split = expand(b, loc, pixels, {dynamic, channels, grid, patch, grid, patch}, {{0}, {1}, {2, 3}, {4, 5}});
  return collapse(b, loc, transpose(b, loc, split, {0, 2, 4, 1, 3, 5}), {{0}, {1, 2}, {3, 4, 5}});
}

Value heddle::tokensOf(OpBuilder &b, Location loc, Value x, ArrayRef<int32_t> tokens, int64_t group) {
  int64_t count = int64_t(tokens.size()), width = typeOf(x).getDimSize(2);
  Value places = numbers(b, loc, {count}, tokens);
  bool hasGaps = llvm::is_contained(tokens, -1);
  Value room = roomFor(b, loc, {dynamic, count, width}, x);
  Value found = generic(b, loc, room, places, mapOf(b, 3, {1}), [&](OpBuilder &b, ValueRange elements) -> Value {
    Value place = elements[0], zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    if (hasGaps)
      place = arith::MaxSIOp::create(b, loc, place, zero);
    Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), place);
    Value element = tensor::ExtractOp::create(
        b, loc, x, ValueRange{linalg::IndexOp::create(b, loc, 0), row, linalg::IndexOp::create(b, loc, 2)});
    if (!hasGaps)
      return element;
    Value isToken = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, elements[0], zero);
    return arith::SelectOp::create(b, loc, isToken, element, arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0)));
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

// All rows of a stored table as numbers to compute with: (1, rows, width). `rows` empty: as they stand.
static Value rowsOf(OpBuilder &b, Location loc, Value table, ArrayRef<int32_t> rows = {}) {
  SmallVector<int32_t> places(rows);
  for (int32_t row = 0; rows.empty() && row < typeOf(table).getDimSize(0); ++row)
    places.push_back(row);
  Value ids = numbers(b, loc, {1, int64_t(places.size())}, places);
  auto type = RankedTensorType::get({1, int64_t(places.size()), typeOf(table).getDimSize(1)}, b.getF32Type());
  return EmbeddingOp::create(b, loc, type, ids, table, b.getF64FloatAttr(1.0));
}

Value heddle::tableAdded(OpBuilder &b, Location loc, Value x, Value table) {
  Value rows = collapse(b, loc, rowsOf(b, loc, table), {{0, 1}, {2}});
  Value room = roomFor(b, loc, typeOf(x).getShape(), x);
  return generic(b, loc, room, {x, rows}, {b.getMultiDimIdentityMap(3), mapOf(b, 3, {1, 2})},
                 [&](OpBuilder &b, ValueRange e) -> Value { return arith::AddFOp::create(b, loc, e[0], e[1]); });
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
  Value attended = AttentionOp::create(b, loc, q.getType(), q, headsOf(rows.k), headsOf(rows.v), bias, Value(), Value(),
                                       Value(), mask, b.getF64FloatAttr(1.0 / std::sqrt(double(dim))),
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
