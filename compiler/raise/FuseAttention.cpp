// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/AttentionMatcher.h"
#include "compiler/raise/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEATTENTION
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct FuseAttention : heddle::impl::FuseAttentionBase<FuseAttention> {
  void runInStage() override {
    SmallVector<linalg::SoftmaxOp> anchors;
    getOperation().walk([&](linalg::SoftmaxOp op) { anchors.push_back(op); });
    for (linalg::SoftmaxOp anchor : anchors) {
      AttentionMatcher matcher(anchor);
      std::string reason = matcher.run();
      if (reason.empty())
        continue;
      // The stage's contract: every softmax inside attention or explained.
      anchor->setAttr(notFusedAttr, StringAttr::get(&getContext(), reason));
      if (!matcher.isSilent())
        anchor.emitRemark("not fused: ") << reason;
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
