// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/weights/WeightPlaces.h"

using namespace mlir;
using namespace heddle;

// Every weight begins a cache line.
static constexpr int64_t alignment = 64;

// Booleans are bytes.
static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

// What lies at a place, without the names that the model has for it: equal ones are stored once.
static PackingAttr withoutNames(PackingAttr packing) {
  SmallVector<SourceAttr> sources;
  for (SourceAttr source : packing.getSources())
    sources.push_back(SourceAttr::get(packing.getContext(), "", source.getRows(), source.getStorage()));
  return PackingAttr::get(packing.getContext(), packing.getLayout(), packing.getFormat(), packing.getShape(),
                          /*offset=*/0, sources, packing.getGroup(), packing.getTransposed(), /*manyRows=*/false);
}

PackingAttr WeightPlaces::place(PackingAttr packing, RankedTensorType type, Attribute codes) {
  MLIRContext *context = packing.getContext();
  SmallVector<Attribute> content = {withoutNames(packing)};
  if (codes)
    content.push_back(codes);
  auto [entry, isNew] =
      offsets.try_emplace({ArrayAttr::get(context, content), type}, llvm::alignTo(sectionSize, alignment));
  if (isNew)
    sectionSize = entry->second + bytesOf(type);
  return PackingAttr::get(context, packing.getLayout(), packing.getFormat(), packing.getShape(), entry->second,
                          packing.getSources(), packing.getGroup(), packing.getTransposed(), packing.getManyRows());
}
