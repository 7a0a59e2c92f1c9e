// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives out places in the weights section.
#ifndef HEDDLE_COMPILER_WEIGHTS_WEIGHTPLACES_H
#define HEDDLE_COMPILER_WEIGHTS_WEIGHTPLACES_H

#include "dialect/HeddleDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace heddle {

// Weights in the order in which they ask, each at a multiple of 64 bytes. Those of equal bytes have one place: their packings, types and codes
// are the same but for names, places, and who reads them.
class WeightPlaces {
public:
  // `packing` with the place of what it describes, a tensor of `type`; `codes` is Codes::attrName of its weight, null without.
  PackingAttr place(PackingAttr packing, mlir::RankedTensorType type, mlir::Attribute codes);
  // Bytes of the section: it ends with its last weight, whatever its size.
  int64_t size() const { return sectionSize; }

private:
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, int64_t> offsets; // of what already has its place
  int64_t sectionSize = 0;
};

} // namespace heddle

#endif
