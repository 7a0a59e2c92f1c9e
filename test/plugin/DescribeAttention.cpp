// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An example of a pass plugin: says how many query heads share each KV head of every attention. Load it with
//
//   heddle compile MODEL -o OUT --load-pass-plugin=./describe-attention.so --add-pass=after-import:describe-attention --print-remarks

#include "dialect/HeddleDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

namespace {
struct DescribeAttention : PassWrapper<DescribeAttention, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DescribeAttention)

  StringRef getArgument() const override { return "describe-attention"; }
  StringRef getDescription() const override { return "Says how many query heads share each KV head"; }

  void runOnOperation() override {
    // (batch, heads, sequence, head_dim)
    auto heads = [](Value value) { return cast<ShapedType>(value.getType()).getDimSize(1); };
    getOperation().walk([&](heddle::AttentionOp attention) {
      attention.emitRemark() << heads(attention.getQuery()) / heads(attention.getKey())
                             << " query heads share a KV head of " << heads(attention.getKey());
    });
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "describe-attention", "1", [] { PassRegistration<DescribeAttention>(); }};
}
