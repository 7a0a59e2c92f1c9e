// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/import/TokenLoops.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

RankedTensorType heddle::typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value heddle::numbers(OpBuilder &b, Location loc, ArrayRef<int64_t> shape, ArrayRef<int32_t> values) {
  auto type = RankedTensorType::get(shape, b.getI32Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, values));
}

Value heddle::roomFor(OpBuilder &b, Location loc, ArrayRef<int64_t> shape, Value like) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : shape)
    sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(tensor::DimOp::create(b, loc, like, 0).getResult())
                                                : b.getIndexAttr(size));
  return tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
}

Value heddle::roomLike(OpBuilder &b, Location loc, Value x) {
  return tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, x), typeOf(x).getElementType());
}

Value heddle::generic(OpBuilder &b, Location loc, Value room, ValueRange inputs, ArrayRef<AffineMap> inputMaps,
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

AffineMap heddle::mapOf(OpBuilder &b, int64_t rank, ArrayRef<unsigned> dims) {
  SmallVector<AffineExpr> exprs;
  for (unsigned dim : dims)
    exprs.push_back(b.getAffineDimExpr(dim));
  return AffineMap::get(rank, 0, exprs, b.getContext());
}

Value heddle::rowsOf(OpBuilder &b, Location loc, Value table, ArrayRef<int32_t> rows) {
  SmallVector<int32_t> places(rows);
  for (int32_t row = 0; rows.empty() && row < typeOf(table).getDimSize(0); ++row)
    places.push_back(row);
  Value ids = numbers(b, loc, {1, int64_t(places.size())}, places);
  auto type = RankedTensorType::get({1, int64_t(places.size()), typeOf(table).getDimSize(1)}, b.getF32Type());
  return EmbeddingOp::create(b, loc, type, ids, table, b.getF64FloatAttr(1.0));
}

void heddle::assertAll(OpBuilder &b, Location loc, ValueRange inputs, ArrayRef<AffineMap> inputMaps, int64_t rank,
                       Element fits, const std::string &message) {
  Value yes = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
  Value room = tensor::EmptyOp::create(b, loc, ArrayRef<int64_t>(), b.getI1Type());
  Value start = linalg::FillOp::create(b, loc, yes, room).getResult(0);
  SmallVector<AffineMap> maps(inputMaps);
  maps.push_back(mapOf(b, rank, {}));
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::reduction);
  Value allFit = linalg::GenericOp::create(b, loc, start.getType(), inputs, start, maps, loops,
                                           [&](OpBuilder &b, Location loc, ValueRange e) {
                                             Value fit = fits(b, e.drop_back());
                                             linalg::YieldOp::create(
                                                 b, loc, arith::AndIOp::create(b, loc, fit, e.back()).getResult());
                                           })
                     .getResult(0);
  cf::AssertOp::create(b, loc, tensor::ExtractOp::create(b, loc, allFit, ValueRange()), message);
}
