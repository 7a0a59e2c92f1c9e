// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention as loops, step by step as its formula says: scores, their greatest, weights, the weights' sum, and values so weighted.
// A key's head is computed from the query's where it is read, so that heads need not be known.

#include "compiler/schedule/TensorAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {

// Builds one attention. Numbers are of `type`: f64 where an operand is, else f32.
class Decomposition {
public:
  explicit Decomposition(AttentionOp op)
      : op(op), b(op.getLoc(), op), type(b.getF32Type()), mask(op.getMask()), zero(index(0)) {
    for (Value operand : op->getOperands())
      if (getElementTypeOrSelf(operand.getType()).isF64())
        type = b.getF64Type();
  }
  Value run();

private:
  using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange loops, ValueRange elements)>;
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value size(Value tensor, int64_t d) { return tensor::DimOp::create(b, tensor, d); }
  Value number(ImplicitLocOpBuilder &at, double value) {
    return arith::ConstantOp::create(at, at.getFloatAttr(type, value));
  }
  Value converted(ImplicitLocOpBuilder &at, Value element);
  // tensor[loops[d] …], in `type`.
  Value read(ImplicitLocOpBuilder &at, Value tensor, ValueRange indices);
  Value readBias(ImplicitLocOpBuilder &at, ValueRange loops);
  Value isVisible(ImplicitLocOpBuilder &at, Value i, Value j);
  // Loops over (batch, heads, queries, x, y): `result` names those of the result, the others reduce. `sizes` are theirs.
  Value loops(ArrayRef<OpFoldResult> sizes, ArrayRef<unsigned> result, ArrayRef<std::pair<Value, AffineMap>> inputs,
              Type element, std::optional<double> init, Body body);
  Value scores();

  AttentionOp op;
  ImplicitLocOpBuilder b;
  Type type;
  MaskAttr mask;
  Value zero, group, queries, keys;
  SmallVector<Value> biasIsOne; // whether each dimension of the bias is of size 1
  SmallVector<OpFoldResult> scoreSizes, outSizes;
};

} // namespace

Value Decomposition::converted(ImplicitLocOpBuilder &at, Value element) {
  if (element.getType() == type)
    return element;
  return arith::ExtFOp::create(at, type, element);
}

Value Decomposition::read(ImplicitLocOpBuilder &at, Value tensor, ValueRange indices) {
  return converted(at, tensor::ExtractOp::create(at, tensor, indices));
}

// A dimension of size 1 serves every index.
Value Decomposition::readBias(ImplicitLocOpBuilder &at, ValueRange loops) {
  SmallVector<Value> indices;
  for (auto [isOne, loop] : llvm::zip_equal(biasIsOne, loops))
    indices.push_back(arith::SelectOp::create(at, isOne, zero, loop));
  return read(at, op.getBias(), indices);
}

Value Decomposition::isVisible(ImplicitLocOpBuilder &at, Value i, Value j) {
  Value position = arith::AddIOp::create(at, arith::SubIOp::create(at, keys, queries), i), visible;
  if (mask.getCausal())
    visible = arith::CmpIOp::create(at, arith::CmpIPredicate::sle, j, position);
  if (mask.getWindow()) {
    Value first = arith::SubIOp::create(at, position, arith::ConstantIndexOp::create(at, mask.getWindow()));
    Value isInside = arith::CmpIOp::create(at, arith::CmpIPredicate::slt, first, j);
    visible = visible ? Value(arith::AndIOp::create(at, visible, isInside)) : isInside;
  }
  if (mask.getChunk()) {
    Value chunk = arith::ConstantIndexOp::create(at, mask.getChunk());
    Value begin = arith::MulIOp::create(at, arith::DivSIOp::create(at, position, chunk), chunk);
    visible = arith::AndIOp::create(at, visible, arith::CmpIOp::create(at, arith::CmpIPredicate::sge, j, begin));
  }
  if (mask.getAhead()) {
    Value end = arith::AddIOp::create(at, position, arith::ConstantIndexOp::create(at, mask.getAhead()));
    Value isInside = arith::CmpIOp::create(at, arith::CmpIPredicate::slt, j, end);
    visible = visible ? Value(arith::AndIOp::create(at, visible, isInside)) : isInside;
  }
  return visible;
}

Value Decomposition::loops(ArrayRef<OpFoldResult> sizes, ArrayRef<unsigned> result,
                           ArrayRef<std::pair<Value, AffineMap>> inputs, Type element, std::optional<double> init,
                           Body body) {
  MLIRContext *context = b.getContext();
  SmallVector<OpFoldResult> outputSizes;
  SmallVector<AffineExpr> outputExprs;
  SmallVector<utils::IteratorType> kinds(sizes.size(), utils::IteratorType::reduction);
  for (unsigned loop : result) {
    outputSizes.push_back(sizes[loop]);
    outputExprs.push_back(getAffineDimExpr(loop, context));
    kinds[loop] = utils::IteratorType::parallel;
  }
  Value room = tensor::EmptyOp::create(b, outputSizes, element);
  if (init)
    room = linalg::FillOp::create(b, number(b, *init), room).getResult(0);
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  for (auto [operand, map] : inputs) {
    operands.push_back(operand);
    maps.push_back(map);
  }
  maps.push_back(AffineMap::get(sizes.size(), 0, outputExprs, context));
  auto generic = linalg::GenericOp::create(b, room.getType(), operands, room, maps, kinds,
                                           [&](OpBuilder &nested, Location loc, ValueRange elements) {
                                             ImplicitLocOpBuilder at(loc, nested);
                                             SmallVector<Value> indices;
                                             for (size_t loop = 0; loop < sizes.size(); ++loop)
                                               indices.push_back(linalg::IndexOp::create(at, loop));
                                             linalg::YieldOp::create(at, body(at, indices, elements));
                                           });
  return generic.getResult(0);
}

// (batch, heads, queries, keys), -inf where a key is not seen.
Value Decomposition::scores() {
  MLIRContext *context = b.getContext();
  auto map = [&](ArrayRef<unsigned> loops) { return AffineMap::getMultiDimMapWithTargets(5, loops, context); };
  SmallVector<OpFoldResult> sizes(scoreSizes);
  sizes.push_back(getAsOpFoldResult(size(op.getQuery(), 3)));
  Value products = loops(sizes, {0, 1, 2, 3}, {{op.getQuery(), map({0, 1, 2, 4})}}, type, 0.0,
                         [&](ImplicitLocOpBuilder &at, ValueRange loop, ValueRange elements) -> Value {
                           Value head = arith::DivUIOp::create(at, loop[1], group);
                           Value key = read(at, op.getKey(), {loop[0], head, loop[3], loop[4]});
                           Value product = arith::MulFOp::create(at, converted(at, elements[0]), key);
                           return arith::AddFOp::create(at, elements[1], product);
                         });
  double softcap = op.getSoftcap().convertToDouble();
  return loops(scoreSizes, {0, 1, 2, 3}, {{products, AffineMap::getMultiDimIdentityMap(4, context)}}, type, {},
               [&](ImplicitLocOpBuilder &at, ValueRange loop, ValueRange elements) -> Value {
                 Value score = arith::MulFOp::create(at, elements[0], number(at, op.getScale().convertToDouble()));
                 if (softcap) {
                   Value part = arith::DivFOp::create(at, score, number(at, softcap));
                   score = arith::MulFOp::create(at, math::TanhOp::create(at, part), number(at, softcap));
                 }
                 if (op.getBias())
                   score = arith::AddFOp::create(at, score, readBias(at, loop));
                 if (Value visible = isVisible(at, loop[2], loop[3]))
                   score = arith::SelectOp::create(at, visible, score, number(at, -INFINITY));
                 return score;
               });
}

Value Decomposition::run() {
  MLIRContext *context = b.getContext();
  queries = size(op.getQuery(), 2), keys = size(op.getKey(), 2);
  group = arith::DivUIOp::create(b, size(op.getQuery(), 1), size(op.getKey(), 1));
  for (int64_t d = 0; op.getBias() && d < 4; ++d)
    biasIsOne.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, size(op.getBias(), d), index(1)));
  for (int64_t d = 0; d < 3; ++d)
    scoreSizes.push_back(tensor::getMixedSize(b, b.getLoc(), op.getQuery(), d));
  outSizes = scoreSizes;
  scoreSizes.push_back(tensor::getMixedSize(b, b.getLoc(), op.getKey(), 2));
  outSizes.push_back(tensor::getMixedSize(b, b.getLoc(), op.getValue(), 3));

  AffineMap all = AffineMap::getMultiDimIdentityMap(4, context),
            row = AffineMap::getMultiDimIdentityMap(4, context).dropResult(3);
  Value scored = scores();
  Value greatest = loops(scoreSizes, {0, 1, 2}, {{scored, all}}, type, -INFINITY,
                         [&](ImplicitLocOpBuilder &at, ValueRange loop, ValueRange elements) -> Value {
                           Value most = arith::MaximumFOp::create(at, elements[0], elements[1]);
                           if (op.getSinks())
                             most = arith::MaximumFOp::create(at, most, read(at, op.getSinks(), loop[1]));
                           return most;
                         });
  // A row that sees no key has no greatest score, and weights of 0 whatever is subtracted.
  Value weights = loops(scoreSizes, {0, 1, 2, 3}, {{scored, all}, {greatest, row}}, type, {},
                        [&](ImplicitLocOpBuilder &at, ValueRange, ValueRange elements) -> Value {
                          Value isEmpty =
                              arith::CmpFOp::create(at, arith::CmpFPredicate::OEQ, elements[1], number(at, -INFINITY));
                          Value most = arith::SelectOp::create(at, isEmpty, number(at, 0), elements[1]);
                          return math::ExpOp::create(at, arith::SubFOp::create(at, elements[0], most));
                        });
  Value sums = loops(scoreSizes, {0, 1, 2}, {{weights, all}}, type, 0.0,
                     [&](ImplicitLocOpBuilder &at, ValueRange, ValueRange elements) -> Value {
                       return arith::AddFOp::create(at, elements[0], elements[1]);
                     });
  // (batch, heads, queries, value_dim, keys)
  SmallVector<OpFoldResult> sizes(outSizes);
  sizes.push_back(scoreSizes[3]);
  AffineMap overKeys = AffineMap::getMultiDimMapWithTargets(5, {0, 1, 2, 4}, context);
  Value weighted = loops(sizes, {0, 1, 2, 3}, {{weights, overKeys}}, type, 0.0,
                         [&](ImplicitLocOpBuilder &at, ValueRange loop, ValueRange elements) -> Value {
                           Value head = arith::DivUIOp::create(at, loop[1], group);
                           Value value = read(at, op.getValue(), {loop[0], head, loop[4], loop[3]});
                           Value product = arith::MulFOp::create(at, elements[0], value);
                           return arith::AddFOp::create(at, elements[1], product);
                         });
  Type element = op.getType().getElementType();
  SmallVector<std::pair<Value, AffineMap>> inputs = {{weighted, all}, {sums, row}};
  if (op.getSinks())
    inputs.push_back({greatest, row});
  return loops(outSizes, {0, 1, 2, 3}, inputs, element, {},
               [&](ImplicitLocOpBuilder &at, ValueRange loop, ValueRange elements) -> Value {
                 Value sum = elements[1];
                 if (op.getSinks()) {
                   Value sink = arith::SubFOp::create(at, read(at, op.getSinks(), loop[1]), elements[2]);
                   sum = arith::AddFOp::create(at, sum, math::ExpOp::create(at, sink));
                 }
                 Value isEmpty = arith::CmpFOp::create(at, arith::CmpFPredicate::OEQ, sum, number(at, 0));
                 Value quotient = arith::DivFOp::create(at, elements[0], sum);
                 Value out = arith::SelectOp::create(at, isEmpty, number(at, 0), quotient);
                 if (type.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
                   out = arith::TruncFOp::create(at, element, out);
                 return out;
               });
}

void heddle::decomposeAttention(AttentionOp op) {
  Value result = Decomposition(op).run();
  if (result.getType() != op.getType()) {
    OpBuilder b(op);
    result = tensor::CastOp::create(b, op.getLoc(), op.getType(), result);
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

void heddle::decomposePositionBias(PositionBiasOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), b.getIndexAttr(type.getDimSize(1)),
                                     getAsOpFoldResult(op.getQueries()), getAsOpFoldResult(op.getKeys())};
  Value ahead = arith::SubIOp::create(b, op.getKeys(), op.getQueries());
  Value room = tensor::EmptyOp::create(b, sizes, type.getElementType());
  SmallVector<utils::IteratorType> kinds(4, utils::IteratorType::parallel);
  auto body = [&](OpBuilder &nested, Location loc, ValueRange) {
    ImplicitLocOpBuilder at(loc, nested);
    Value head = linalg::IndexOp::create(at, 1), i = linalg::IndexOp::create(at, 2), j = linalg::IndexOp::create(at, 3);
    Value distance = arith::SubIOp::create(at, arith::AddIOp::create(at, ahead, i), j);
    SmallVector<Value> place = {head};
    if (op.getRows()) {
      Value row = arith::ConstantIndexOp::create(at, op.getRows()->front());
      for (auto [start, next] : llvm::zip_equal(*op.getStarts(), op.getRows()->drop_front())) {
        Value isBehind =
            arith::CmpIOp::create(at, arith::CmpIPredicate::sge, distance, arith::ConstantIndexOp::create(at, start));
        row = arith::SelectOp::create(at, isBehind, arith::ConstantIndexOp::create(at, next), row);
      }
      place.insert(place.begin(), row);
    }
    Value bias = tensor::ExtractOp::create(at, op.getTable(), place);
    Type element = bias.getType(), wanted = type.getElementType();
    if (element.getIntOrFloatBitWidth() < wanted.getIntOrFloatBitWidth())
      bias = arith::ExtFOp::create(at, wanted, bias);
    else if (element != wanted)
      bias = arith::TruncFOp::create(at, wanted, bias);
    if (!op.getRows()) {
      Value steps = arith::IndexCastOp::create(at, at.getI64Type(), distance);
      bias = arith::MulFOp::create(at, arith::NegFOp::create(at, bias), arith::SIToFPOp::create(at, wanted, steps));
    }
    linalg::YieldOp::create(at, bias);
  };
  Value made = linalg::GenericOp::create(b, room.getType(), ValueRange(), room,
                                         AffineMap::getMultiDimIdentityMap(4, b.getContext()), kinds, body)
                   .getResult(0);
  if (made.getType() != type)
    made = tensor::CastOp::create(b, type, made);
  op.replaceAllUsesWith(made);
  op.erase();
}
