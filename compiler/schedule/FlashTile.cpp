// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/TensorAttention.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {
#define GEN_PASS_DEF_FLASHTILE
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static Value transposeHeads(OpBuilder &b, Location loc, Value input) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, input);
  std::swap(sizes[1], sizes[2]);
  Value init = tensor::EmptyOp::create(b, loc, sizes, cast<RankedTensorType>(input.getType()).getElementType());
  return linalg::TransposeOp::create(b, loc, input, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
}

static const SmallVector<ReassociationIndices> headGroups = {{0, 1}, {2, 3}};

// (1, heads, rows, head_dim) as (rows, heads * head_dim): what it was split from, where it was.
static Value toRows(OpBuilder &b, Location loc, Value heads) {
  if (auto transpose = heads.getDefiningOp<linalg::TransposeOp>())
    if (auto expand = transpose.getInput().getDefiningOp<tensor::ExpandShapeOp>())
      if (transpose.getPermutation() == ArrayRef<int64_t>{0, 2, 1, 3} && expand.getReassociationIndices() == headGroups)
        return expand.getSrc();
  auto type = cast<RankedTensorType>(heads.getType());
  auto flat =
      RankedTensorType::get({ShapedType::kDynamic, type.getDimSize(1) * type.getDimSize(3)}, type.getElementType());
  return tensor::CollapseShapeOp::create(b, loc, flat, transposeHeads(b, loc, heads), headGroups);
}

// Uses of `heads` that merge it back into rows read `rows` instead.
static void forwardRows(Value heads, Value rows) {
  for (Operation *user : llvm::make_early_inc_range(heads.getUsers()))
    if (auto transpose = dyn_cast<linalg::TransposeOp>(user))
      for (Operation *merge : llvm::make_early_inc_range(transpose->getUsers()))
        if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(merge))
          if (collapse.getReassociationIndices() == headGroups && collapse.getType() == rows.getType())
            collapse.replaceAllUsesWith(rows);
}

// Uses of `heads`, (1, heads, rows, head_dim), read `rows` instead: as it is where they merge it back, else split again.
static void replaceHeads(OpBuilder &b, Value heads, Value rows) {
  forwardRows(heads, rows);
  if (heads.use_empty())
    return;
  auto type = cast<RankedTensorType>(heads.getType());
  Location loc = heads.getLoc();
  Value count = tensor::DimOp::create(b, loc, rows, 0);
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), count, b.getIndexAttr(type.getDimSize(1)),
                                     b.getIndexAttr(type.getDimSize(3))};
  auto split = type.clone({1, ShapedType::kDynamic, type.getDimSize(1), type.getDimSize(3)});
  Value expanded = tensor::ExpandShapeOp::create(b, loc, split, rows, headGroups, sizes);
  heads.replaceAllUsesWith(transposeHeads(b, loc, expanded));
}

namespace {
struct FlashTile : heddle::impl::FlashTileBase<FlashTile> {
  using FlashTileBase::FlashTileBase;

  LogicalResult tile(AttentionOp op) {
    if (op.getSequences())
      return tileSequences(op);
    if (op.getGlobals())
      return op.emitError("attends globally, which has a form within sequences alone");
    if (op.getPositions() && op.getRows() && cast<ShapedType>(op.getPositions().getType()).isDynamicDim(0))
      return op.emitError("reads what tokens give for distances, which has a form within sequences alone");
    auto view = op.getKey().getDefiningOp<KvViewOp>();
    if (!view && !op.getValue().getDefiningOp<KvViewOp>()) {
      tileTensors(op);
      return success();
    }
    if (!view || op.getValue() != view.getValue())
      return op.emitError("keys and values must be views of one layer of the cache, or neither of them");
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value query = toRows(b, loc, op.getQuery());
    Value rows = tensor::DimOp::create(b, loc, query, 0);
    auto type = cast<RankedTensorType>(query.getType());
    int64_t heads = op.getNumHeads();
    SmallVector<Value> inits = {
        tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(type.getDimSize(1))}, type.getElementType())};
    if (!tiles)
      inits.push_back(
          tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(heads * llvm::alignTo(context, 64))}, b.getF32Type()));
    auto online = OnlineAttentionOp::create(b, loc, ValueRange(inits).getTypes(), query, view.getCache(),
                                            view.getLayer(), op.getPositions(), op.getSinks(), inits,
                                            b.getI64IntegerAttr(heads), op.getMaskAttr(), op.getScaleAttr(),
                                            op.getSoftcapAttr(), b.getI64IntegerAttr(blockKv), b.getBoolAttr(shareKv),
                                            /*split_kv=*/nullptr, op.getStartsAttr(), op.getRowsAttr());
    replaceHeads(b, op.getResult(), online.getResult(0));
    op.erase();
    if (view->use_empty())
      view.erase();
    return success();
  }

  LogicalResult tileSequences(AttentionOp op) {
    if (!tiles)
      return op.emitError("has kernels in tiles only");
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value query = toRows(b, loc, op.getQuery()), key = toRows(b, loc, op.getKey()),
          value = toRows(b, loc, op.getValue());
    Value rows = tensor::DimOp::create(b, loc, query, 0);
    Value room = tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(op.getNumHeads() * op.getType().getDimSize(3))},
                                         cast<RankedTensorType>(query.getType()).getElementType());
    auto attend = [&](ArrayRef<Value> of, Value out, MaskAttr mask, bool ofGlobals) {
      return RaggedAttentionOp::create(b, loc, TypeRange(out), of[0], of[1], of[2], op.getSequences(),
                                       op.getPositions(), op.getSinks(), op.getGlobals(), out,
                                       b.getI64IntegerAttr(op.getNumHeads()), b.getI64IntegerAttr(op.getNumKvHeads()),
                                       mask, op.getScaleAttr(), op.getSoftcapAttr(), op.getStartsAttr(),
                                       op.getRowsAttr(), ofGlobals ? b.getUnitAttr() : UnitAttr())
          .getResult(0);
    };
    Value result = attend({query, key, value}, room, op.getMask(), /*ofGlobals=*/false);
    if (op.getGlobals()) {
      auto global = llvm::map_to_vector(op.getGlobalOperands(), [&](Value heads) { return toRows(b, loc, heads); });
      result =
          attend(global, result, MaskAttr::get(b.getContext(), /*causal=*/false, /*window=*/0), /*ofGlobals=*/true);
    }
    replaceHeads(b, op.getResult(), result);
    op.erase();
    return success();
  }

  void tileTensors(AttentionOp op) {
    if (op.getPositions())
      storePositions(op);
    std::string missing = missingFlashAttention(op);
    if (tiles && missing.empty())
      return lowerToFlashAttention(op);
    op.emitRemark("becomes loops: ") << (tiles ? missing : "tiles are switched off");
    decomposeAttention(op);
  }

  // Kernels over tensors read a bias: what positions give becomes one.
  static void storePositions(AttentionOp op) {
    OpBuilder b(op);
    Value queries = tensor::DimOp::create(b, op.getLoc(), op.getQuery(), 2),
          keys = tensor::DimOp::create(b, op.getLoc(), op.getKey(), 2);
    auto type = RankedTensorType::get(
        {1, op.getNumHeads(), op.getQuery().getType().getDimSize(2), op.getKey().getType().getDimSize(2)},
        b.getF32Type());
    Value bias = PositionBiasOp::create(b, op.getLoc(), type, op.getPositions(), queries, keys, op.getStartsAttr(),
                                        op.getRowsAttr());
    op.getPositionsMutable().clear();
    op.removeStartsAttr();
    op.removeRowsAttr();
    op.getBiasMutable().assign(bias);
  }

  LogicalResult tileLatent(LatentAttentionOp op) {
    if (!tiles)
      return op.emitError("has kernels in tiles only");
    auto view = op.getLatent().getDefiningOp<KvViewOp>();
    if (!view || (op.getKeyRope() && op.getKeyRope() != view.getValue()))
      return op.emitError("latent and rotary key must be views of the cache");
    OpBuilder b(op);
    Location loc = op.getLoc();
    LatentDims dims = op.getDims();
    Value query = toRows(b, loc, op.getQuery());
    Value rows = tensor::DimOp::create(b, loc, query, 0);
    SmallVector<Value> inits;
    for (int64_t width : {dims.numHeads * dims.value, dims.scratchDim()})
      inits.push_back(tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(width)}, b.getF32Type()));
    auto online = OnlineLatentAttentionOp::create(
        b, loc, TypeRange(ValueRange(inits)), query, view.getCache(), view.getLayer(), op.getKeyUps(), op.getValueUps(),
        Value(), inits, b.getI64IntegerAttr(dims.numHeads), b.getI64IntegerAttr(dims.numKvHeads),
        b.getI64IntegerAttr(dims.nope), b.getI64IntegerAttr(dims.value), op.getMaskAttr(), op.getScaleAttr(),
        op.getFormAttr(), StringAttr(), StringAttr(), StringAttr(), IntegerAttr());
    replaceHeads(b, op.getResult(), online.getResult(0));
    op.erase();
    if (view->use_empty())
      view.erase();
    return success();
  }

  void runInStage() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<AttentionOp, LatentAttentionOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      auto attention = dyn_cast<AttentionOp>(op);
      if (failed(attention ? tile(attention) : tileLatent(cast<LatentAttentionOp>(op))))
        return signalPassFailure();
    }
    getOperation().walk([](PositionBiasOp op) { decomposePositionBias(op); });
    // Values appended in heads form are appended as the rows they were split from.
    getOperation().walk([&](KvAppendOp op) {
      for (OpOperand &operand : op->getOpOperands())
        if (auto collapse = operand.get().getDefiningOp<tensor::CollapseShapeOp>())
          if (auto transpose = collapse.getSrc().getDefiningOp<linalg::TransposeOp>()) {
            OpBuilder b(op);
            operand.set(toRows(b, op.getLoc(), transpose.getInput()));
          }
    });
  }
};
} // namespace
