// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Raise finds model ops in graphs that are no decoders as well. Those that have no kernel there become linalg again, written from the
// formula of the op: one linalg.generic for each reduction and one for what is computed of an element. Loops that walk the same rows
// are joined after buffers are assigned (compiler/codegen/host/GraphLoops.cpp), so a norm costs what one loop over its rows does.

#include "compiler/schedule/ModelOpFormulas.h"

#include "dialect/HeddleDialect.h"
#include "dialect/Norms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {

// Loops over tensors and arithmetic on their elements.
class FormulaBuilder : public ImplicitLocOpBuilder {
public:
  FormulaBuilder(Operation *op, PatternRewriter &rewriter) : ImplicitLocOpBuilder(op->getLoc(), rewriter) {}
  using Body = function_ref<Value(ValueRange)>;

  Value integer(int64_t value) { return arith::ConstantOp::create(*this, getI32IntegerAttr(int32_t(value))); }
  Value real(double value) { return arith::ConstantOp::create(*this, getF32FloatAttr(float(value))); }
  Value add(Value x, Value y) { return arith::AddFOp::create(*this, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(*this, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(*this, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(*this, x, y); }
  Value widen(Value x) { return x.getType().isF32() ? x : Value(arith::ExtFOp::create(*this, getF32Type(), x)); }

  // A tensor of `type`, sized as `like`.
  Value emptyLike(RankedTensorType type, Value like) {
    SmallVector<Value> sizes;
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      if (type.isDynamicDim(axis))
        sizes.push_back(tensor::DimOp::create(*this, like, axis));
    return tensor::EmptyOp::create(*this, type, sizes);
  }

  // The result's element at loop indices (i…) is body(elements of inputs); the first input has the result's sizes. Maps are those of
  // the inputs.
  Value map(RankedTensorType type, ValueRange inputs, ArrayRef<AffineMap> maps, Body body) {
    SmallVector<AffineMap> all(maps);
    all.push_back(getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
    return loopsOver(type, inputs, emptyLike(type, inputs[0]), all, loops,
                     [&](ValueRange elements) { return body(elements.drop_back()); });
  }

  // sum over the last dimension of body(element of input and, row by row, of the others)
  Value sumRows(Value input, ValueRange rows, Body body) {
    auto type = cast<RankedTensorType>(input.getType());
    unsigned rank = type.getRank();
    auto sums = RankedTensorType::get(type.getShape().drop_back(), getF32Type());
    AffineMap whole = getMultiDimIdentityMap(rank), row = rowMap(rank);
    Value zero = linalg::FillOp::create(*this, real(0), emptyLike(sums, input)).getResult(0);
    SmallVector<Value> inputs = {input};
    llvm::append_range(inputs, rows);
    SmallVector<AffineMap> maps = {whole};
    maps.append(rows.size() + 1, row);
    SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
    loops.back() = utils::IteratorType::reduction;
    return loopsOver(sums, inputs, zero, maps, loops,
                     [&](ValueRange elements) { return add(elements.back(), body(elements.drop_back())); });
  }

  // (i…, j) -> (i…), (i…, j) -> (j)
  AffineMap rowMap(unsigned rank) { return getMultiDimIdentityMap(rank).dropResult(rank - 1); }
  AffineMap columnMap(unsigned rank) { return AffineMap::get(rank, 0, getAffineDimExpr(rank - 1)); }

  // A norm's weight or bias, and which of its numbers an element takes: as (heads, width) where each head has its own.
  template <typename NormOp> std::pair<Value, AffineMap> ofColumns(NormOp op, Value weight) {
    auto type = cast<RankedTensorType>(op.getType());
    if (!isPerHead(op))
      return {weight, columnMap(type.getRank())};
    auto byHead = RankedTensorType::get({type.getDimSize(1), type.getDimSize(3)}, getElementTypeOrSelf(weight));
    Value rows = tensor::ExpandShapeOp::create(*this, byHead, weight, ArrayRef<ReassociationIndices>{{0, 1}});
    return {rows, AffineMap::getMultiDimMapWithTargets(4, {1, 3}, getContext())};
  }

  // The size of the last dimension as f32.
  Value widthOf(Value tensor) {
    Value width = tensor::DimOp::create(*this, tensor, cast<RankedTensorType>(tensor.getType()).getRank() - 1);
    return arith::SIToFPOp::create(*this, getF32Type(), arith::IndexCastOp::create(*this, getI64Type(), width));
  }

  Value sigmoid(Value x) { return div(real(1), add(real(1), math::ExpOp::create(*this, sub(real(0), x)))); }
  Value activate(ActivationKind kind, Value x);

private:
  Value loopsOver(RankedTensorType type, ValueRange inputs, Value output, ArrayRef<AffineMap> maps,
                  ArrayRef<utils::IteratorType> loops, Body body) {
    return linalg::GenericOp::create(*this, type, inputs, output, maps, loops,
                                     [&](OpBuilder &inner, Location, ValueRange elements) {
                                       OpBuilder::InsertionGuard guard(*this);
                                       restoreInsertionPoint(inner.saveInsertionPoint());
                                       linalg::YieldOp::create(*this, body(elements));
                                     })
        .getResult(0);
  }
};

} // namespace

Value FormulaBuilder::activate(ActivationKind kind, Value x) {
  switch (kind) {
  case ActivationKind::Silu:
    return mul(x, sigmoid(x));
  case ActivationKind::Gelu: {
    Value curve = math::ErfOp::create(*this, mul(x, real(1 / std::sqrt(2.0))));
    return mul(mul(real(0.5), x), add(real(1), curve));
  }
  case ActivationKind::GeluTanh: {
    Value cube = mul(real(0.044715), mul(x, mul(x, x)));
    Value curve = math::TanhOp::create(*this, mul(real(std::sqrt(2 / llvm::numbers::pi)), add(x, cube)));
    return mul(mul(real(0.5), x), add(real(1), curve));
  }
  case ActivationKind::Relu:
    return arith::MaximumFOp::create(*this, x, real(0));
  case ActivationKind::QuickGelu:
    return mul(x, sigmoid(mul(real(1.702), x)));
  case ActivationKind::Tanh:
    return math::TanhOp::create(*this, x);
  case ActivationKind::SquaredRelu: {
    Value positive = arith::MaximumFOp::create(*this, x, real(0));
    return mul(positive, positive);
  }
  }
  llvm_unreachable("all activations are listed");
}

namespace {

struct LayerNormFormula : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormOp op, PatternRewriter &rewriter) const override {
    FormulaBuilder b(op, rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    Value x = op.getInput(), width = b.widthOf(x);
    AffineMap whole = b.getMultiDimIdentityMap(type.getRank()), row = b.rowMap(type.getRank());
    Value sum = b.sumRows(x, {}, [&](ValueRange e) { return e[0]; });
    Value squares = b.sumRows(x, sum, [&](ValueRange e) {
      Value centered = b.sub(e[0], b.div(e[1], width));
      return b.mul(centered, centered);
    });
    SmallVector<Value> inputs = {x, sum, squares};
    SmallVector<AffineMap> maps = {whole, row, row};
    for (Value columns : {op.getWeight(), op.getBias()})
      if (columns) {
        auto [value, map] = b.ofColumns(op, columns);
        inputs.push_back(value);
        maps.push_back(map);
      }
    rewriter.replaceOp(op, b.map(type, inputs, maps, [&](ValueRange e) {
      Value variance = b.div(e[2], width);
      Value inverse = math::RsqrtOp::create(b, b.add(variance, b.real(op.getEps().convertToDouble())));
      Value y = b.mul(b.mul(b.sub(e[0], b.div(e[1], width)), inverse), b.widen(e[3]));
      return op.getBias() ? b.add(y, b.widen(e[4])) : y;
    }));
    return success();
  }
};

struct RmsNormFormula : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op, PatternRewriter &rewriter) const override {
    FormulaBuilder b(op, rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    unsigned rank = type.getRank();
    Value x = op.getInput(), width = b.widthOf(x);
    Value squares = b.sumRows(x, {}, [&](ValueRange e) { return b.mul(e[0], e[0]); });
    auto [columns, column] = b.ofColumns(op, op.getWeight());
    SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(rank), b.rowMap(rank), column};
    rewriter.replaceOp(op, b.map(type, {x, squares, columns}, maps, [&](ValueRange e) {
      Value mean = b.add(b.div(e[1], width), b.real(op.getEps().convertToDouble()));
      Value weight = b.widen(e[2]);
      if (double offset = op.getWeightOffset().convertToDouble())
        weight = b.add(weight, b.real(offset));
      return b.mul(b.mul(e[0], math::RsqrtOp::create(b, mean)), weight);
    }));
    return success();
  }
};

struct GluFormula : OpRewritePattern<GluOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GluOp op, PatternRewriter &rewriter) const override {
    FormulaBuilder b(op, rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<AffineMap> maps(op->getNumOperands(), b.getMultiDimIdentityMap(type.getRank()));
    rewriter.replaceOp(op, b.map(type, op->getOperands(), maps, [&](ValueRange e) {
      Value y = b.activate(op.getActivation(), e[0]);
      return op.getUp() ? b.mul(y, e[1]) : y;
    }));
    return success();
  }
};

struct SoftcapFormula : OpRewritePattern<SoftcapOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftcapOp op, PatternRewriter &rewriter) const override {
    FormulaBuilder b(op, rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    double cap = op.getCap().convertToDouble();
    rewriter.replaceOp(op, b.map(type, op.getInput(), b.getMultiDimIdentityMap(type.getRank()), [&](ValueRange e) {
      return b.mul(b.real(cap), math::TanhOp::create(b, b.div(e[0], b.real(cap))));
    }));
    return success();
  }
};

// Each element reads its partner of the pair, and the angle of its position.
struct RopeFormula : OpRewritePattern<RopeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RopeOp op, PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult RopeFormula::matchAndRewrite(RopeOp op, PatternRewriter &rewriter) const {
  if (op.getTable())
    return rewriter.notifyMatchFailure(op, "reads a table of the session, which graphs have not");
  FormulaBuilder b(op, rewriter);
  auto type = cast<RankedTensorType>(op.getType());
  RopeAttr rope = op.getRope();
  ArrayRef<float> frequencies = rope.getInverseFrequency().asArrayRef();
  int64_t half = frequencies.size(), offset = op.getOffset();
  bool isInterleaved = rope.getInterleaved();
  // By dimension of the head: its frequency, 0 where nothing rotates, the place of its partner and the sign of the partner's share.
  int64_t width = type.getDimSize(3);
  if (ShapedType::isDynamic(width))
    return rewriter.notifyMatchFailure(op, "has a head dimension of unknown size");
  SmallVector<float> angles(width, 0), signs(width, 0);
  SmallVector<int64_t> partners = llvm::to_vector(llvm::seq<int64_t>(0, width));
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = offset + (isInterleaved ? 2 * i : i), second = isInterleaved ? first + 1 : first + half;
    angles[first] = angles[second] = frequencies[i];
    signs[first] = -1, signs[second] = 1;
    partners[first] = second, partners[second] = first;
  }
  double factor = rope.getAttentionFactor().getValueAsDouble();
  auto line = RankedTensorType::get({width}, b.getF32Type());
  auto table = [&](ArrayRef<float> values) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(line, values));
  };
  auto places = RankedTensorType::get({width}, b.getIndexType());
  Value partner = arith::ConstantOp::create(b, DenseIntElementsAttr::get(places, partners));
  AffineMap whole = b.getMultiDimIdentityMap(4), column = b.columnMap(4);
  AffineMap position = AffineMap::get(4, 0, {b.getAffineDimExpr(0), b.getAffineDimExpr(2)}, b.getContext());
  SmallVector<Value> inputs = {op.getInput(), op.getPositions(), table(angles), table(signs), partner};
  rewriter.replaceOp(op, b.map(type, inputs, {whole, position, column, column, column}, [&](ValueRange e) {
    Value angle = b.mul(arith::SIToFPOp::create(b, b.getF32Type(), e[1]), e[2]);
    Value at[] = {linalg::IndexOp::create(b, 0), linalg::IndexOp::create(b, 1), linalg::IndexOp::create(b, 2), e[4]};
    Value other = b.mul(e[3], tensor::ExtractOp::create(b, op.getInput(), at));
    Value rotated = b.add(b.mul(e[0], math::CosOp::create(b, angle)), b.mul(other, math::SinOp::create(b, angle)));
    Value passes = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, e[3], b.real(0));
    Value scale = b.real(factor);
    if (FloatAttr growth = rope.getGrowth()) {
      Value next = arith::AddIOp::create(b, e[1], b.integer(1)), floor = b.integer(rope.getFloor());
      Value steps = arith::SIToFPOp::create(b, b.getF32Type(), arith::DivSIOp::create(b, next, floor));
      Value grown = b.mul(b.real(growth.getValueAsDouble()), math::Log1pOp::create(b, steps));
      scale = b.mul(scale, b.add(b.real(1), grown));
    }
    return arith::SelectOp::create(b, passes, e[0], b.mul(rotated, scale));
  }));
  return success();
}

void heddle::populateModelOpFormulas(RewritePatternSet &patterns) {
  patterns.add<GluFormula, LayerNormFormula, RmsNormFormula, RopeFormula, SoftcapFormula>(patterns.getContext());
}
