// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/SharedWeights.h"

#include "compiler/schedule/Passes.h"
#include "compiler/weights/WeightPlaces.h"
#include "dialect/Codes.h"

using namespace mlir;
using namespace heddle;

void heddle::shareWeights(ArrayRef<ModuleOp> modules) {
  WeightPlaces places;
  for (ModuleOp module : modules) {
    SmallVector<WeightOp> ops;
    module.walk([&](WeightOp op) {
      if (op.getPacking())
        ops.push_back(op);
    });
    llvm::stable_sort(ops,
                      [](WeightOp a, WeightOp b) { return a.getPacking().getOffset() < b.getPacking().getOffset(); });
    for (WeightOp op : ops)
      op.setPackingAttr(
          places.place(op.getPacking(), cast<RankedTensorType>(op.getType()), op->getAttr(Codes::attrName)));
  }
  for (ModuleOp module : modules)
    module->setAttr(weightsSizeAttr, IntegerAttr::get(IntegerType::get(module.getContext(), 64), places.size()));
}

std::vector<PackedWeight> heddle::weightsOf(ModuleOp module, ArrayRef<PackedWeight> section) {
  DenseMap<uint64_t, const PackedWeight *> byOffset;
  for (const PackedWeight &weight : section)
    byOffset[weight.offset] = &weight;
  std::vector<PackedWeight> table = planWeights(module);
  for (PackedWeight &weight : table) {
    const PackedWeight &packed = *byOffset.at(weight.offset);
    weight.sha256 = packed.sha256;
    weight.loss = packed.loss;
  }
  return table;
}

WeightShares heddle::shareOf(ArrayRef<std::vector<PackedWeight>> variants) {
  DenseMap<uint64_t, unsigned> readers; // by offset
  for (const std::vector<PackedWeight> &table : variants)
    for (const PackedWeight &weight : table)
      ++readers[weight.offset];
  WeightShares shares;
  DenseSet<uint64_t> counted;
  for (const std::vector<PackedWeight> &table : variants) {
    uint64_t &own = shares.own.emplace_back(0);
    for (const PackedWeight &weight : table)
      if (counted.insert(weight.offset).second)
        (readers[weight.offset] > 1 ? shares.shared : own) += weight.size;
  }
  return shares;
}
