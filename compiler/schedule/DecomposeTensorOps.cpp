// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/ModelOpFormulas.h"
#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <numeric>

namespace heddle {
#define GEN_PASS_DEF_DECOMPOSETENSOROPS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

struct DecomposeAggregated : OpInterfaceRewritePattern<linalg::AggregatedOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(linalg::AggregatedOpInterface op, PatternRewriter &rewriter) const override {
    // What a softmax decomposes into are sizes of its input, in tensors of its output: they are to say the same of both.
    if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op.getOperation());
        softmax && softmax->getNumResults() == 1 && softmax.getInput().getType() != softmax.getOutput().getType()) {
      Value input = tensor::CastOp::create(rewriter, op.getLoc(), softmax.getOutput().getType(), softmax.getInput());
      rewriter.modifyOpInPlace(op, [&] { softmax.getInputMutable().assign(input); });
    }
    FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
    if (failed(results))
      return rewriter.notifyMatchFailure(op, "has no decomposition");
    rewriter.replaceOp(op, *results);
    return success();
  }
};

// Elementwise conversion of a tensor's floats, by the upstream arith op.
Value convertFloats(PatternRewriter &rewriter, Location loc, Value tensor, Type element) {
  auto type = cast<RankedTensorType>(tensor.getType());
  RankedTensorType converted = type.clone(element);
  if (type.getElementTypeBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(rewriter, loc, converted, tensor);
  return arith::TruncFOp::create(rewriter, loc, converted, tensor);
}

bool isNarrow(Value tensor) {
  Type element = getElementTypeOrSelf(tensor.getType());
  return element.isF16() || element.isBF16();
}

// Named contractions of 16-bit floats as the one op that the patterns below know.
struct NamedToContract : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(linalg::LinalgOp op, PatternRewriter &rewriter) const override {
    if (isa<linalg::GenericOp, linalg::ContractOp>(op) || !linalg::isaContractionOpInterface(op) ||
        op->getNumResults() != 1 || !llvm::any_of(op->getOperands(), isNarrow))
      return rewriter.notifyMatchFailure(op, "is no named contraction of 16-bit floats");
    auto contract = linalg::ContractOp::create(rewriter, op.getLoc(), op->getResultTypes(), op.getDpsInputs(),
                                               op.getDpsInits()[0], op.getIndexingMaps());
    rewriter.replaceOp(op, contract->getResults());
    return success();
  }
};

// The kernel for products reads f32.
struct WidenInputs : OpRewritePattern<linalg::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::ContractOp op, PatternRewriter &rewriter) const override {
    if (op.getNumResults() != 1 || !getElementTypeOrSelf(op.getResult(0).getType()).isF32() ||
        !llvm::any_of(op.getInputs(), isNarrow))
      return rewriter.notifyMatchFailure(op, "has no 16-bit inputs of a sum in f32");
    SmallVector<Value> inputs;
    for (Value input : op.getInputs())
      inputs.push_back(isNarrow(input) ? convertFloats(rewriter, op.getLoc(), input, rewriter.getF32Type()) : input);
    auto contract = linalg::ContractOp::create(rewriter, op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits()[0],
                                               op.getIndexingMapsAttr());
    rewriter.replaceOp(op, contract->getResults());
    return success();
  }
};

// A 16-bit accumulator loses what is small beside the sum: contractions cast their operands to the type of their destination.
struct WidenAccumulator : OpRewritePattern<linalg::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::ContractOp op, PatternRewriter &rewriter) const override {
    if (op.getNumResults() != 1)
      return rewriter.notifyMatchFailure(op, "works on buffers");
    Value init = op.getDpsInits()[0];
    Type element = getElementTypeOrSelf(init.getType());
    if (!isNarrow(init))
      return rewriter.notifyMatchFailure(op, "accumulates in 32 bits or more, or in integers");
    Value wide = convertFloats(rewriter, op.getLoc(), init, rewriter.getF32Type());
    auto contract = linalg::ContractOp::create(rewriter, op.getLoc(), wide.getType(), op.getInputs(), wide,
                                               op.getIndexingMapsAttr());
    rewriter.replaceOp(op, convertFloats(rewriter, op.getLoc(), contract->getResult(0), element));
    return success();
  }
};

// Which value may lie in which place is decided by comparing the insertions with one another: many are left to bufferization, which
// copies each operand of a concatenation to its part.
constexpr size_t mostInsertions = 8;

struct ConcatToInsertions : OpRewritePattern<tensor::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() > mostInsertions)
      return rewriter.notifyMatchFailure(op, "has too many operands to compute them in place");
    FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
    if (failed(results))
      return rewriter.notifyMatchFailure(op, "has no decomposition");
    rewriter.replaceOp(op, *results);
    return success();
  }
};

// Of a step or an encode: products that stand side by side write their columns where these stand, since nothing is copied there.
void placeProducts(tensor::ConcatOp concat) {
  SmallVector<PackedMatmulOp> products;
  for (Value part : concat.getInputs()) {
    auto product = part.getDefiningOp<PackedMatmulOp>();
    if (!product || !part.hasOneUse() || product.getInits().size() != 1 ||
        !product.getInits()[0].getDefiningOp<tensor::EmptyOp>() || product->getBlock() != concat->getBlock())
      return;
    products.push_back(product);
  }
  SmallVector<int64_t> begins;
  int64_t width = 0;
  for (PackedMatmulOp product : products) {
    begins.push_back(width);
    width += cast<RankedTensorType>(product.getResult(0).getType()).getDimSize(1);
  }
  SmallVector<size_t> order(products.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t x, size_t y) { return products[x]->isBeforeInBlock(products[y]); });
  PackedMatmulOp first = products[order.front()];
  OpBuilder b(first);
  Location loc = concat.getLoc();
  OpFoldResult rows = tensor::DimOp::create(b, loc, first.getInput(), 0).getResult(), one = b.getIndexAttr(1);
  Value room = tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(width)}, concat.getType().getElementType());
  for (size_t i : order) {
    auto type = cast<RankedTensorType>(products[i].getResult(0).getType());
    SmallVector<OpFoldResult> offsets = {b.getIndexAttr(0), b.getIndexAttr(begins[i])},
                              sizes = {rows, b.getIndexAttr(type.getDimSize(1))}, strides = {one, one};
    b.setInsertionPoint(products[i]);
    products[i].getInitsMutable()[0].set(tensor::ExtractSliceOp::create(b, loc, type, room, offsets, sizes, strides));
    b.setInsertionPointAfter(products[i]);
    room = tensor::InsertSliceOp::create(b, loc, products[i].getResult(0), room, offsets, sizes, strides);
  }
  concat.replaceAllUsesWith(room);
  concat.erase();
}

struct DecomposeTensorOps : heddle::impl::DecomposeTensorOpsBase<DecomposeTensorOps> {
  void runInStage() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ConcatToInsertions, DecomposeAggregated, NamedToContract, WidenAccumulator, WidenInputs>(
        &getContext());
    populateModelOpFormulas(patterns);
    FrozenRewritePatternSet parts(std::move(patterns));
    for (func::FuncOp graph : graphEntries(getOperation()))
      if (failed(applyPatternsGreedily(graph, parts)))
        return signalPassFailure();
    SmallVector<tensor::ConcatOp> ofRows;
    getOperation().walk([&](tensor::ConcatOp op) {
      if (!isInGraphEntry(op) && op.getType().getRank() == 2 && op.getDim() == 1)
        ofRows.push_back(op);
    });
    llvm::for_each(ofRows, placeProducts);
  }
};
} // namespace
