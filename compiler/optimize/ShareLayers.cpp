// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"

#include "dialect/Locations.h"

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

static SmallVector<Location> locationsIn(func::FuncOp func) {
  SmallVector<Location> locations;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) { locations.push_back(op->getLoc()); });
  return locations;
}

namespace {
struct ShareLayers : heddle::impl::ShareLayersBase<ShareLayers> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> kept;
    DenseMap<StringAttr, StringAttr> sharedWith;
    // Of each function that is kept, the locations of every function that it stands for, op by op.
    DenseMap<Operation *, SmallVector<SmallVector<Location>>> locations;
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!func.isPrivate() || func.isExternal())
        continue;
      auto same = llvm::find_if(kept, [&](func::FuncOp other) { return equal(func, other); });
      if (same == kept.end()) {
        kept.push_back(func);
        locations[func].push_back(locationsIn(func));
        continue;
      }
      sharedWith[func.getSymNameAttr()] = same->getSymNameAttr();
      locations[*same].push_back(locationsIn(func));
      func.erase();
    }
    for (func::FuncOp func : kept) {
      ArrayRef<SmallVector<Location>> layers = locations[func];
      size_t next = 0;
      func.walk<WalkOrder::PreOrder>([&](Operation *op) {
        SmallVector<Location> same = llvm::map_to_vector(layers, [&](const auto &layer) { return layer[next]; });
        if (same.size() > 1)
          op->setLoc(sharedLocation(&getContext(), same));
        ++next;
      });
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
