// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"

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
  auto flat = RankedTensorType::get({ShapedType::kDynamic, type.getDimSize(1) * type.getDimSize(3)}, type.getElementType());
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

namespace {
struct FlashTile : heddle::impl::FlashTileBase<FlashTile> {
  using FlashTileBase::FlashTileBase;

  LogicalResult tile(AttentionOp op) {
    auto view = op.getKey().getDefiningOp<KvViewOp>();
    if (!view || op.getValue() != view.getValue())
      return op.emitError("keys and values must be views of the cache");
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value query = toRows(b, loc, op.getQuery());
    Value rows = tensor::DimOp::create(b, loc, query, 0);
    auto type = cast<RankedTensorType>(query.getType());
    Value init = tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(type.getDimSize(1))}, type.getElementType());
    auto online = OnlineAttentionOp::create(b, loc, TypeRange{type}, query, view.getCache(), view.getLayer(), op.getSinks(), init,
                                            b.getI64IntegerAttr(op.getNumHeads()), op.getMaskAttr(), op.getScaleAttr(),
                                            op.getSoftcapAttr(), b.getI64IntegerAttr(blockKv), b.getBoolAttr(shareKv), /*split_kv=*/nullptr);
    forwardRows(op.getResult(), online.getResult(0));
    if (!op.getResult().use_empty()) {
      auto result = op.getResult().getType();
      SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), rows, b.getIndexAttr(result.getDimSize(1)), b.getIndexAttr(result.getDimSize(3))};
      auto split = result.clone({1, ShapedType::kDynamic, result.getDimSize(1), result.getDimSize(3)});
      Value expanded = tensor::ExpandShapeOp::create(b, loc, split, online.getResult(0), headGroups, sizes);
      op.replaceAllUsesWith(transposeHeads(b, loc, expanded));
    }
    op.erase();
    if (view->use_empty())
      view.erase();
    return success();
  }

  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops)
      if (failed(tile(op)))
        return signalPassFailure();
    // Values appended in heads form are appended as the rows they were split from.
    getOperation().walk([&](KvAppendOp op) {
      for (OpOperand *operand : {&op.getKeyMutable(), &op.getValueMutable()})
        if (auto collapse = operand->get().getDefiningOp<tensor::CollapseShapeOp>())
          if (auto transpose = collapse.getSrc().getDefiningOp<linalg::TransposeOp>()) {
            OpBuilder b(op);
            operand->set(toRows(b, op.getLoc(), transpose.getInput()));
          }
    });
  }
};
} // namespace
