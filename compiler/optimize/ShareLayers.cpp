// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/OperationSupport.h"

namespace heddle {
#define GEN_PASS_DEF_SHARELAYERS
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static bool equal(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

namespace {
struct ShareLayers : heddle::impl::ShareLayersBase<ShareLayers> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> kept;
    DenseMap<StringAttr, StringAttr> sharedWith;
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!func.isPrivate() || func.isExternal())
        continue;
      auto same = llvm::find_if(kept, [&](func::FuncOp other) { return equal(func, other); });
      if (same == kept.end()) {
        kept.push_back(func);
        continue;
      }
      sharedWith[func.getSymNameAttr()] = same->getSymNameAttr();
      func.erase();
    }
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](FlatSymbolRefAttr symbol) -> std::optional<Attribute> {
      auto found = sharedWith.find(symbol.getAttr());
      return found == sharedWith.end() ? symbol : FlatSymbolRefAttr::get(found->second);
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true);
  }
};
} // namespace
