// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_SHAREKVHEADS
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// The unrepeated (batch, kv_heads, sequence, head_dim), if `value` repeats each of its heads for a group of query heads.
static Value unrepeated(Value value) {
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}, {3}, {4}};
  if (!collapse || collapse.getReassociationIndices() != groups)
    return {};
  auto broadcast = collapse.getSrc().getDefiningOp<linalg::BroadcastOp>();
  if (!broadcast || broadcast.getDimensions() != ArrayRef<int64_t>{2})
    return {}; // heads repeated in another order: query head h would not read KV head h / group
  return broadcast.getInput();
}

namespace {
struct ShareKvHeads : heddle::impl::ShareKvHeadsBase<ShareKvHeads> {
  void runInStage() override {
    getOperation().walk([&](AttentionOp op) {
      Value key = unrepeated(op.getKey()), value = unrepeated(op.getValue());
      if (!key || !value)
        return;
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
    });
  }
};
} // namespace
