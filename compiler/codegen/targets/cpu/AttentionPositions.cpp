// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores get for buckets of distances: of a table, or of the tokens themselves.

#include "compiler/codegen/targets/cpu/AttentionTile.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);

// Distances from starts.front() - 1 to starts.back() differ; with a page on either side every row of it is laid out.
BucketRange::BucketRange(const PositionSpec &spec, int64_t blockTokens, unsigned lanes) {
  if (!spec.hasBuckets())
    return;
  int64_t nearest = spec.starts.empty() ? 0 : spec.starts.front() - 1;
  int64_t farthest = spec.starts.empty() ? 0 : spec.starts.back();
  first = 1 - farthest - blockTokens;
  last = -nearest;
  stride = llvm::alignTo(last - first + blockTokens, lanes) + lanes;
}

// Runs follow each other in memory, the farthest distance first. A vector that a run fills beyond its end is what the next one begins with.
void AttentionTile::fillRuns(Value to, llvm::function_ref<Value(size_t)> lineOf) {
  const PositionSpec &positions = spec.positions;
  for (size_t run = positions.rows.size(); run-- > 0;) {
    // Distances from starts[run - 1] to starts[run] - 1.
    bool isFarthest = run == positions.starts.size(), isNearest = run == 0;
    int64_t begin = isFarthest ? 0 : 1 - positions.starts[run] - buckets.first;
    int64_t end = isNearest ? buckets.stride - vectorLanes : 1 - positions.starts[run - 1] - buckets.first;
    Value line = lineOf(run);
    auto fill = [&](Value at) { b.store(line, b.at(to, at, floatBytes)); };
    if (end - begin <= vectorLanes)
      fill(b.constant(begin));
    else
      b.loop(begin, end, vectorLanes, fill);
  }
}

void AttentionTile::loadPositions(const TileValues &tile, Value table) {
  const PositionSpec &positions = spec.positions;
  if (positions.kind == PositionSpec::Tokens)
    fillRuns(bucketBiases, [&](size_t run) { return b.constantI32(int32_t(positions.rows[run]), vectorLanes); });
  if (positions.kind != PositionSpec::Buckets)
    return;
  int64_t element = kvBytes(positions.table);
  b.loop(0, groupSize, 1, [&](Value headInGroup) {
    Value head = b.at(table, b.add(tile.firstHead, headInGroup), element);
    fillRuns(b.at(bucketBiases, headInGroup, buckets.stride * floatBytes), [&](size_t run) {
      Value bias = b.loadKv(positions.table, b.at(head, positions.rows[run] * spec.numHeads * element), 1);
      return b.broadcast(b.mulF(b.lane0(bias), b.constantF32(unit)), vectorLanes);
    });
  });
}

Value AttentionTile::bucketsOf(Value headInGroup, Value place) {
  Value relative = b.sub(b.constant(0), place); // of the page's first key
  Value nearest = b.min(b.max(relative, b.constant(buckets.first)), b.constant(buckets.last));
  Value at = b.add(b.mul(headInGroup, buckets.stride), b.sub(nearest, b.constant(buckets.first)));
  return b.at(bucketBiases, at, floatBytes);
}

// Keys that no row of the tile looks at keep what was there before.
void AttentionTile::sumTokenTerms(const TileValues &tile, Value tokenIndex, Value headInGroup, const PageValues &page,
                                  const ScoreTerms &terms, Value place) {
  int64_t headBytes = spec.positions.numBuckets * floatBytes;
  Value head = b.add(tile.firstHead, headInGroup), bucketOfKeys = bucketsOf(b.constant(0), place);
  Value ofQuery = b.at(b.at(terms.slopes, b.mul(tokenIndex, terms.tokenBytes)), head, headBytes);
  Value ofKeys = b.at(b.at(terms.slopes, b.mul(page.begin, terms.tokenBytes)), b.add(head, spec.numHeads), headBytes);
  b.loop(page.firstKey, page.endKey, 1, [&](Value key) {
    Value bucket = b.mul(b.loadIndex(b.at(bucketOfKeys, key, sizeof(int32_t))), floatBytes);
    Value ofKey = b.at(ofKeys, b.mul(key, terms.tokenBytes));
    Value sum = b.addF(b.loadFloat(b.at(ofQuery, bucket)), b.loadFloat(b.at(ofKey, bucket)));
    b.store(b.mulF(sum, b.constantF32(unit)), b.at(tokenTerms, key, floatBytes));
  });
}
