// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A chunk has four rows, so two columns of it are 16 bytes of a panel: one store.

#include "compiler/codegen/targets/cuda/CodePanels.h"

using namespace mlir;
using namespace heddle;

CodePanels::CodePanels(GpuBuilder &builder, const PackedLayout &layout, int64_t k, int64_t depth, int64_t panels,
                       int64_t count, int64_t threads, Value weights, Value first)
    : b(builder), inPlace(b.remainder(b.threadIndex(), WeightChunks::lanesOfPlace(layout))),
      chunks(b, layout, k, inPlace), placesPerSlice(depth / chunks.placeValues()) {
  assert(depth % chunks.placeValues() == 0 && "a slice has whole places");
  int64_t lanes = WeightChunks::lanesOfPlace(layout), atOnce = threads / lanes, all = panels * placesPerSlice;
  Value firstItem = b.divide(b.threadIndex(), lanes);
  // Where threads are more than chunks, several do the same.
  for (int64_t begin = 0; begin < all; begin += atOnce) {
    Value item = b.remainder(b.add(firstItem, begin), all), panel = b.divide(item, placesPerSlice);
    Value last = b.constant(count - 1);
    items.push_back({panel, b.remainder(item, placesPerSlice),
                     b.at(weights, b.min(b.add(first, panel), last), layout.panelBytes(k))});
  }
}

SmallVector<WeightChunks::Chunk> CodePanels::load(Value slice) {
  SmallVector<WeightChunks::Chunk> loaded;
  for (const Item &item : items) {
    Value place = b.add(b.mul(slice, placesPerSlice), item.place);
    loaded.push_back(chunks.load(item.from, b.min(place, b.constant(chunks.places() - 1))));
  }
  return loaded;
}

void CodePanels::store(ArrayRef<WeightChunks::Chunk> loaded, SharedPanels &to, Value stage) {
  for (auto [item, chunk] : llvm::zip_equal(items, loaded))
    for (int64_t run = 0; run < chunks.runs(); ++run) {
      Value column = chunks.columnOf(item.place, run), ofPanel = b.mul(item.panel, to.panelBytes());
      for (int64_t i = 0; i < chunks.runColumns(); i += 2) {
        SmallVector<Value> pairs;
        for (int64_t row = 0; row < 4; ++row)
          pairs.push_back(b.packBf16(chunks.number(chunk, row, run, i), chunks.number(chunk, row, run, i + 1)));
        Value place = to.offsetOf(b.divide(b.add(column, i), 2), b.remainder(inPlace, 4));
        b.store(b.vector(pairs), to.address(b.add(place, ofPanel), stage));
      }
    }
}
