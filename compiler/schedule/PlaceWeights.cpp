// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/GraphPasses.h"
#include "compiler/schedule/Passes.h"

#include "mlir/IR/Builders.h"

namespace heddle {
#define GEN_PASS_DEF_PLACEWEIGHTS
#include "compiler/schedule/GraphPasses.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// Booleans are bytes.
static int64_t storedBytes(RankedTensorType type) {
  return type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

namespace {
struct PlaceWeights : heddle::impl::PlaceWeightsBase<PlaceWeights> {
  void runOnOperation() override {
    OpBuilder b(&getContext());
    DenseMap<std::pair<Attribute, Type>, int64_t> offsets;
    // What kernels read is packed and has its place already.
    auto packed = getOperation()->getAttrOfType<IntegerAttr>(weightsSizeAttr);
    int64_t sectionSize = packed ? packed.getInt() : 0;
    WalkResult walk = getOperation().walk([&](WeightOp op) {
      StorageAttr storage = op.getStorage();
      if (storage.getType().getValue() == "packed")
        return WalkResult::advance();
      auto type = cast<RankedTensorType>(op.getType());
      if (storage.getTransposed()) {
        op.emitError("a graph's weight must be stored in the order of its type");
        return WalkResult::interrupt();
      }
      auto [entry, isNew] = offsets.try_emplace({storage, type}, llvm::alignTo(sectionSize, 64));
      if (isNew)
        sectionSize = entry->second + storedBytes(type);
      op->setAttr("heddle.format", b.getStringAttr("stored"));
      op->setAttr("heddle.shape", b.getDenseI64ArrayAttr(type.getShape()));
      op->setAttr("heddle.sources", b.getArrayAttr(storage));
      op->setAttr("heddle.source_names", b.getArrayAttr(op.getNameAttr()));
      op.setStorageAttr(StorageAttr::get(&getContext(), b.getStringAttr("packed"), 0, entry->second, false));
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    getOperation()->setAttr(weightsSizeAttr, b.getI64IntegerAttr(sectionSize));
  }
};
} // namespace
