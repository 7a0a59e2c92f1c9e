// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An example of a pass plugin: one pass says how many query heads share each KV head of every attention, one fails where any do. Load it with
//
//   heddle compile MODEL -o OUT --load-pass-plugin=./describe-attention.so --add-pass=after-import:describe-attention --print-remarks

#include "dialect/HeddleDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

// Of (batch, heads, sequence, head_dim).
static int64_t heads(Value value) {
  return cast<ShapedType>(value.getType()).getDimSize(1);
}

namespace {
struct DescribeAttention : PassWrapper<DescribeAttention, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DescribeAttention)

  StringRef getArgument() const override { return "describe-attention"; }
  StringRef getDescription() const override { return "Says how many query heads share each KV head"; }

  void runOnOperation() override {
    getOperation().walk([&](heddle::AttentionOp attention) {
      attention.emitRemark() << heads(attention.getQuery()) / heads(attention.getKey())
                             << " query heads share a KV head of " << heads(attention.getKey());
    });
  }
};

struct RefuseSharedHeads : PassWrapper<RefuseSharedHeads, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RefuseSharedHeads)

  StringRef getArgument() const override { return "refuse-shared-heads"; }
  StringRef getDescription() const override { return "Fails where query heads share a KV head"; }

  void runOnOperation() override {
    WalkResult walk = getOperation().walk([&](heddle::AttentionOp attention) {
      if (heads(attention.getQuery()) == heads(attention.getKey()))
        return WalkResult::advance();
      attention.emitError("query heads share KV heads");
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "describe-attention", "1", [] {
            PassRegistration<DescribeAttention>();
            PassRegistration<RefuseSharedHeads>();
          }};
}
