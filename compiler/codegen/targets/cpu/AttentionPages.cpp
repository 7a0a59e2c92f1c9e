// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a tile looks at, and in which order: the pages of its sequence, and of each those of all heads of a run.

#include "compiler/codegen/targets/cpu/AttentionTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
static constexpr int64_t floatBytes = sizeof(float);

bool AttentionTile::takesHeadRuns() const {
  return spec.shareKvHeads && headTiles() > 1 && !spec.isDense && !spec.storesScores && !spec.positions.kind;
}

Value AttentionTile::maxHeadTiles(Value numTokens) {
  if (!takesHeadRuns())
    return b.constant(1);
  return b.min(b.divide(b.constant(runRows), rowsOfHead(numTokens)), b.constant(headTiles()));
}

Value AttentionTile::rowsOfHead(Value numTokens) {
  return b.mul(b.divideUp(b.mul(numTokens, groupSize), rowAlignment()), rowAlignment());
}

TileValues AttentionTile::headOfRun(const TileValues &run, Value index) {
  TileValues tile = run;
  tile.firstHead = b.add(run.firstHead, b.mul(index, groupSize));
  tile.kvHead = b.divide(tile.firstHead, headsPerKvHead());
  tile.headTiles = Value();
  return tile;
}

void AttentionTile::forEachHead(const TileValues &run, llvm::function_ref<void(const TileValues &)> body) {
  if (!run.headTiles)
    return body(run);
  b.loop(b.constant(0), run.headTiles, 1, [&](Value index) { atHead(run, index, body); });
}

void AttentionTile::atHead(const TileValues &run, Value index, llvm::function_ref<void(const TileValues &)> body) {
  const std::pair<Value *, int64_t> scratch[] = {{&query, queryStride}, {&accs, valueStride}, {&totals, valueStride},
                                                 {&sums, vectorLanes},  {&rowMax, 1},         {&factors, 1},
                                                 {&totalMax, 1},        {&totalSum, 1}};
  Value firstRow = b.mul(index, rowsOfHead(run.numTokens));
  SmallVector<Value> ofRun;
  for (auto [base, floats] : scratch) {
    ofRun.push_back(*base);
    *base = b.at(*base, firstRow, floats * floatBytes);
  }
  body(headOfRun(run, index));
  for (auto [part, base] : llvm::zip(scratch, ofRun))
    *part.first = base;
}

KeyBlocks AttentionTile::pages(const TileValues &tile, Value kOffset, Value vOffset) {
  int64_t element = kvBytes(spec.kv), valueBytes = (pagesArePaired ? valueRun() : spec.valueRowDim()) * element;
  int64_t keyBytes = (pagesArePaired ? 2 : spec.headDim) * element;
  Value table = tile.sequence.pages;
  auto find = [this, table, kOffset, vOffset, keyBytes, valueBytes](Value index, Value kvHead) {
    Value headKeys = b.add(kOffset, b.mul(kvHead, kvPlaneBytes(spec.kv, spec.headDim)));
    Value headValues = b.add(vOffset, b.mul(kvHead, kvPlaneBytes(spec.kv, spec.valueRowDim())));
    int64_t blocks = pageTokens / blockTokens; // of a page
    Value page = loadPage(b, table, blocks == 1 ? index : b.divide(index, blocks));
    Value keys = b.at(page, headKeys), values = b.at(page, headValues);
    if (blocks == 1)
      return std::make_pair(keys, values);
    Value first = b.mul(b.remainder(index, b.constant(blocks)), blockTokens);
    return std::make_pair(b.at(keys, first, keyBytes), b.at(values, first, valueBytes));
  };
  return {find, b.constant(keyBytes), b.constant(valueBytes)};
}

void AttentionTile::forEachPage(const TileValues &run, const KeyRange &keys,
                                llvm::function_ref<void(const TileValues &, const PageValues &)> body) {
  // Beyond the split the next thread's or this thread's next split begins.
  Value lastPage = b.divide(b.sub(run.sequence.length, b.constant(1)), blockTokens);
  auto lookAt = [&](const TileValues &tile, Value pageIndex, Value nextIndex, Value nextHead) {
    auto [firstKey, firstValue] = keys.blocks.find(pageIndex, tile.kvHead);
    auto [nextKey, nextValue] = keys.blocks.find(nextIndex, nextHead);
    Value pageBegin = b.mul(pageIndex, blockTokens);
    PageValues page = {pageBegin,
                       b.max(b.sub(keys.first, pageBegin), b.constant(0)),
                       b.min(b.sub(keys.end, pageBegin), b.constant(blockTokens)),
                       firstKey,
                       nextKey,
                       firstValue,
                       nextValue,
                       keys.blocks.keyBytes,
                       keys.blocks.valueBytes};
    if (spec.globals != GlobalTokens::Keys)
      return body(tile, page);
    auto [begin, end] = visibleKeys(tile.sequence, tile.firstToken, tile.numTokens);
    Value isInWindow =
        arith::AndIOp::create(b, b.lessThan(begin, b.add(pageBegin, blockTokens)), b.lessThan(pageBegin, end));
    b.ifThen(arith::OrIOp::create(b, isInWindow, hasGlobals(tile, page)), [&] { body(tile, page); });
  };
  b.loop(b.divide(keys.first, blockTokens), b.divideUp(keys.end, blockTokens), 1, [&](Value pageIndex) {
    Value nextIndex = b.min(b.add(pageIndex, 1), lastPage);
    if (!run.headTiles)
      return lookAt(run, pageIndex, nextIndex, run.kvHead);
    // The next head's part of this page follows, behind the last head's the first one's of the next page.
    b.loop(b.constant(0), run.headTiles, 1, [&](Value index) {
      Value next = b.add(index, 1), isLast = b.equal(next, run.headTiles);
      Value nextHead = headOfRun(run, b.select(isLast, b.constant(0), next)).kvHead;
      atHead(run, index, [&](const TileValues &tile) {
        lookAt(tile, pageIndex, b.select(isLast, nextIndex, pageIndex), nextHead);
      });
    });
  });
}
