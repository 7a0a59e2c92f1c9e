// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two products of an attention tile: scores of the keys of a page, and its values weighted by them.

#include "compiler/codegen/targets/cpu/AttentionTile.h"

#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>
#include <tuple>

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
static constexpr int64_t cacheLine = 64;
static constexpr int64_t pairBytes = 4, pageTokens = HEDDLE_KV_PAGE_SIZE;

static bool travelsInPairs(const AttentionSpec &spec) {
  return spec.kv == KvType::BF16 && spec.headDim % 2 == 0;
}

AttentionTile::Panel AttentionTile::keysOf(const PageValues &page) {
  if (readsKeysInPlace) {
    if (usesTileUnit)
      prefetchRows(page.nextKeys, spec.headDim / 2, pageTokens * pairBytes, blockTokens * pairBytes);
    return {page.keys, pageTokens * pairBytes};
  }
  if (!pagesArePaired)
    transposeKeys(page);
  else if (holdsCodes)
    pairs ? unpackKeyPairs(page) : unpackKeys(page);
  else if (pairs)
    copyKeyPairs(page);
  else
    widenKeyPairs(page);
  return {panel, blockTokens * floatBytes};
}

// Tiles take the values of a page whole: where some are not seen, a copy without them.
AttentionTile::Panel AttentionTile::valuesOf(const RowBlock &block, const PageValues &page) {
  Panel copy = {valuePanel, valueStride * floatBytes};
  if (readsFloatRows()) {
    // Less than a block of registers reads each value once.
    Value isReadOnce = b.lessThan(block.count, b.constant(spec.registerRows));
    b.ifThen(b.lessThan(b.constant(spec.registerRows - 1), block.count), [&] { widenValues(page); });
    copy.rowStride = b.select(isReadOnce, page.valueBytes, b.constant(copy.rowBytes));
    copy.base = b.select(isReadOnce, page.values, copy.base);
    return copy;
  }
  Panel inPlace = {page.values, valueRun() * pairBytes, {}, valueRun() < spec.valueDim()};
  if (readsValuesInPlace)
    return inPlace;
  if (!copiesValues())
    return {page.values, spec.valueRowDim() * floatBytes};
  if (!pagesArePaired) {
    pairs ? pairValues(page) : widenValues(page);
    return copy;
  }
  if (holdsCodes) {
    unpackValues(page);
    return copy;
  }
  if (!pairs) {
    widenValuePairs(page);
    return copy;
  }
  int64_t rowBytes = spec.valueDim() * pairBytes;
  prefetchRows(page.nextValues, blockTokens / 2, rowBytes, rowBytes);
  if (spec.valueDim() != valueStride) {
    copyValuePairs(page);
    return copy;
  }
  Value isSeen = b.lessThan(b.constant(blockTokens - 1), b.sub(page.endKey, page.firstKey));
  b.ifThen(b.lessThan(b.sub(page.endKey, page.firstKey), b.constant(blockTokens)), [&] { copyValuePairs(page); });
  inPlace.base = b.select(isSeen, page.values, valuePanel);
  return inPlace;
}

// The lines of `count` rows, rowBytes apart.
void AttentionTile::prefetchRows(Value rows, int64_t count, int64_t rowBytes, int64_t bytes) {
  b.loop(0, count, 1, [&](Value row) { prefetchLines(b.at(rows, row, rowBytes), bytes); });
}

void AttentionTile::prefetchLines(Value from, int64_t bytes) {
  // Next to what is read now, in the first cache, unless that has few misses under way.
  bool isNear = readsValuesInPlace && spec.prefetchCache == 1;
  prefetchLines(from, bytes, isNear ? CacheLevel::First : CacheLevel::Second);
}

void AttentionTile::prefetchLines(Value from, int64_t bytes, CacheLevel level) {
  for (int64_t line = 0; line < bytes; line += cacheLine)
    b.prefetch(b.at(from, line), level);
}

// What step `step` of `steps` asks for, of `count` rows of rowBytes: all of them when each step has asked.
void AttentionTile::prefetchPart(Value rows, int64_t count, Value stride, int64_t rowBytes, Value step, int64_t steps) {
  int64_t parts = std::max<int64_t>(1, steps / count), rowsOfStep = llvm::divideCeil(count, steps);
  int64_t partBytes = llvm::alignTo(llvm::divideCeil(rowBytes, parts), cacheLine);
  Value first = b.divide(b.mul(step, rowsOfStep), parts);
  Value part = b.at(rows, b.mul(b.remainder(step, b.constant(parts)), partBytes));
  for (int64_t row = 0; row < rowsOfStep; ++row)
    prefetchLines(b.at(part, b.mul(b.add(first, row), stride)), partBytes, CacheLevel::First);
}

void AttentionTile::transposeKeys(const PageValues &page) {
  // Square blocks; the last block of columns overlaps its neighbour where the row is no multiple.
  int64_t lanesPerRow = spec.headDim / (travelsInPairs(spec) ? 2 : 1);
  int64_t side = std::min<int64_t>(vectorLanes, llvm::bit_floor(uint64_t(lanesPerRow)));
  if (!spec.isDense)
    return b.loop(0, blockTokens, side, [&](Value key) { transposeRows(page, key, side, Value()); });
  // The last rows of a tensor are no whole block: the very last stands for those that are not there.
  Value whole = b.mul(b.divide(page.endKey, side), side);
  b.loop(b.constant(0), whole, side, [&](Value key) { transposeRows(page, key, side, Value()); });
  b.ifThen(b.lessThan(whole, page.endKey),
           [&] { transposeRows(page, whole, side, b.sub(page.endKey, b.constant(1))); });
}

// Keys [key, key + side), none of them behind `lastKey` if that is given.
void AttentionTile::transposeRows(const PageValues &page, Value key, int64_t side, Value lastKey) {
  // Two bf16 columns travel as one 32-bit lane: half the loads and shuffles, and widening is a shift or a mask.
  bool inPairs = travelsInPairs(spec);
  int64_t perLane = inPairs ? 2 : 1, lanesPerRow = spec.headDim / perLane, element = kvBytes(spec.kv);
  SmallVector<Value> rows;
  for (int64_t row = 0; row < side; ++row) {
    Value at = b.add(key, row);
    rows.push_back(b.mul(lastKey ? b.min(at, lastKey) : at, page.keyBytes));
  }
  b.loop(0, lanesPerRow, side, [&](Value lane) {
    if (lanesPerRow % side)
      lane = b.min(lane, b.constant(lanesPerRow - side));
    Value column = b.mul(lane, perLane * element);
    Value from = b.at(page.keys, column), next = b.at(page.nextKeys, column);
    int64_t panelRows = pairs ? 1 : perLane; // of one lane
    Value to = b.at(panel, b.add(b.mul(lane, panelRows * blockTokens), key), floatBytes);
    SmallVector<Value> block;
    for (Value row : rows) {
      Value pointer = b.at(from, row);
      block.push_back(inPairs ? b.load(b.ints(side), pointer) : b.loadKv(spec.kv, pointer, side));
      if (!spreadsPrefetch)
        b.prefetch(b.at(next, row));
    }
    for (int64_t row = 0; spreadsPrefetch && row < side; row += 2)
      b.prefetch(b.at(next, b.divide(b.add(key, row), 2), spec.headDim * element));
    b.transpose(block);
    for (int64_t row = 0; row < side; ++row) {
      Value low = block[row], high;
      if (inPairs && !pairs)
        std::tie(low, high) = b.widenPair(block[row]);
      b.store(low, b.at(to, row * panelRows * blockTokens * floatBytes));
      if (high)
        b.store(high, b.at(to, (row * panelRows + 1) * blockTokens * floatBytes));
    }
  });
}

void AttentionTile::widenValues(const PageValues &page) {
  int64_t element = kvBytes(spec.kv);
  b.loop(page.firstKey, page.endKey, 1, [&](Value key) {
    Value offset = b.mul(key, page.valueBytes), to = b.at(valuePanel, key, valueStride * floatBytes);
    Value from = b.at(page.values, offset), next = b.at(page.nextValues, offset);
    for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
      b.store(b.loadKv(spec.kv, b.at(from, run.begin * element), run.lanes), b.at(to, run.begin * floatBytes));
      if (run.begin * element % cacheLine == 0)
        b.prefetch(b.at(next, run.begin * element));
    }
  });
}

// What no row sees may hold anything: its weight of 0 needs a finite partner.
void AttentionTile::clearUnseenPairs(const PageValues &page, Value to, int64_t columns) {
  Value firstPair = b.divide(page.firstKey, 2), endPair = b.divideUp(page.endKey, 2);
  for (auto [begin, end] : {std::pair(b.constant(0), firstPair), std::pair(endPair, b.constant(blockTokens / 2))})
    b.loop(begin, end, 1, [&](Value pair) { fillZeros(b.at(to, pair, columns * floatBytes), columns); });
}

void AttentionTile::pairValues(const PageValues &page) {
  int64_t rowBytes = spec.valueRowDim() * kvBytes(spec.kv), nextRows = spreadsPrefetch ? 1 : 2; // asked for with a pair
  Value firstKey = page.firstKey, endKey = page.endKey;
  Value firstPair = b.divide(firstKey, 2), endPair = b.divideUp(endKey, 2);
  if (usesTileUnit)
    clearUnseenPairs(page, valuePanel, valueStride);
  b.loop(firstPair, endPair, 1, [&](Value pair) {
    Value key = b.mul(pair, 2), from = b.at(page.values, key, rowBytes),
          next = b.at(page.nextValues, pair, nextRows * rowBytes);
    Value to = b.at(valuePanel, pair, valueStride * floatBytes);
    // A slot that no row sees may hold anything: its weight of 0 needs a finite partner.
    Value lowSeen = b.lessThan(b.sub(firstKey, b.constant(1)), key), highSeen = b.lessThan(b.add(key, 1), endKey);
    for (ColumnRun run : columnRuns(spec.valueDim(), 2 * vectorLanes)) {
      auto halves = VectorType::get({run.lanes}, b.getI16Type());
      Value pointer = b.at(from, run.begin * kvBytes(spec.kv)), zero = b.constantZero(halves);
      Value low = b.select(lowSeen, b.load(halves, pointer), zero);
      Value high = b.select(highSeen, b.load(halves, b.at(pointer, rowBytes)), zero);
      for (unsigned first = 0; first < run.lanes; first += vectorLanes)
        b.store(b.joinHalves(low, high, first, std::min(run.lanes, vectorLanes)),
                b.at(to, (run.begin + first) * floatBytes));
      if (run.begin * kvBytes(spec.kv) % cacheLine == 0) {
        b.prefetch(b.at(next, run.begin * kvBytes(spec.kv)));
        if (!spreadsPrefetch)
          b.prefetch(b.at(next, run.begin * kvBytes(spec.kv) + rowBytes));
      }
    }
  });
}

void AttentionTile::copyKeyPairs(const PageValues &page) {
  b.loop(0, spec.headDim / 2, 1, [&](Value pair) {
    Value offset = b.mul(pair, pageTokens * pairBytes), from = b.at(page.keys, offset);
    Value to = b.at(panel, pair, blockTokens * pairBytes);
    for (int64_t key = 0; key < blockTokens; key += vectorLanes)
      b.store(b.load(b.ints(vectorLanes), b.at(from, key * pairBytes)), b.at(to, key * pairBytes));
    prefetchLines(b.at(page.nextKeys, offset), blockTokens * pairBytes);
  });
}

void AttentionTile::widenKeyPairs(const PageValues &page) {
  b.loop(0, spec.headDim / 2, 1, [&](Value pair) {
    Value offset = b.mul(pair, pageTokens * pairBytes), from = b.at(page.keys, offset);
    Value to = b.at(panel, pair, 2 * blockTokens * floatBytes);
    for (int64_t key = 0; key < blockTokens; key += vectorLanes) {
      auto [low, high] = b.widenPair(b.load(b.ints(vectorLanes), b.at(from, key * pairBytes)));
      b.store(low, b.at(to, key * floatBytes));
      b.store(high, b.at(to, (blockTokens + key) * floatBytes));
    }
    prefetchLines(b.at(page.nextKeys, offset), blockTokens * pairBytes);
  });
}

// In the page's order, but for rows of valueStride where a page has one run of columns.
void AttentionTile::copyValuePairs(const PageValues &page) {
  int64_t stride = valueRun() < spec.valueDim() ? valueRun() : valueStride;
  b.loop(0, spec.valueDim() / valueRun(), 1, [&](Value index) {
    Value values = b.at(page.values, index, bytesOfRun(pairBytes));
    Value copy = b.at(valuePanel, index, pageTokens / 2 * stride * pairBytes);
    clearUnseenPairs(page, copy, stride);
    b.loop(b.divide(page.firstKey, 2), b.divideUp(page.endKey, 2), 1, [&](Value pair) {
      Value from = b.at(values, pair, valueRun() * pairBytes), to = b.at(copy, pair, stride * pairBytes);
      for (ColumnRun run : columnRuns(valueRun(), vectorLanes))
        b.store(b.load(b.ints(run.lanes), b.at(from, run.begin * pairBytes)), b.at(to, run.begin * pairBytes));
    });
  });
}

// Lane i: scale `place(i)` of `count`.
Value AttentionTile::loadScales(Value pointer, unsigned count, llvm::function_ref<int64_t(int64_t)> place) {
  Value scales = b.loadKv(KvType::F16, pointer, count);
  SmallVector<int64_t> order = llvm::map_to_vector(llvm::seq<int64_t>(vectorLanes), place);
  return vector::ShuffleOp::create(b, scales, scales, order);
}

static Value loadCodes(RawBuilder &b, Value pointer, unsigned lanes) {
  return arith::ExtSIOp::create(b, b.ints(lanes), b.load(VectorType::get({lanes}, b.getI8Type()), pointer));
}

// i32 lanes of codes
Value AttentionTile::scaledCodes(Value codes, Value scales) {
  return b.mulF(arith::SIToFPOp::create(b, scales.getType(), codes), scales);
}

// Two vectors of floats as bf16, one after the other.
void AttentionTile::storePairs(Value first, Value second, Value to) {
  if (roundsTwo)
    return b.store(b.roundTwo(first, second, pairDot), to);
  b.storeKv(KvType::BF16, first, to);
  b.storeKv(KvType::BF16, second, b.at(to, vectorLanes * kvBytes(KvType::BF16)));
}

// The panel takes pairs in the order in which their codes lie: vectors of as many codes as lanes, whose tokens' scales stay in registers for a block
// of columns.
void AttentionTile::unpackKeyPairs(const PageValues &page) {
  const int64_t lanes = vectorLanes;
  constexpr int64_t rowBytes = 2 * pageTokens, pairsOfBlock = kvBlockColumns / 2; // of codes
  auto ofToken = [](int64_t lane) { return lane / 2; };
  Value scales = b.at(page.keys, pageTokens * spec.headDim);
  b.loop(0, spec.headDim / kvBlockColumns, 1, [&](Value block) {
    Value ofBlock = b.at(scales, block, pageTokens * kvScaleBytes);
    for (int64_t at = 0; at < 2 * blockTokens; at += 2 * lanes) {
      Value low = loadScales(b.at(ofBlock, at / 2 * kvScaleBytes), vectorLanes / 2, ofToken);
      Value high = loadScales(b.at(ofBlock, (at + vectorLanes) / 2 * kvScaleBytes), vectorLanes / 2, ofToken);
      Value firstPair = b.mul(block, pairsOfBlock);
      b.loop(firstPair, b.add(firstPair, pairsOfBlock), 1, [&](Value pair) {
        Value from = b.at(b.at(page.keys, pair, rowBytes), at);
        if (at % cacheLine == 0)
          b.prefetch(b.at(b.at(page.nextKeys, pair, rowBytes), at));
        storePairs(scaledCodes(loadCodes(b, from, vectorLanes), low),
                   scaledCodes(loadCodes(b, b.at(from, vectorLanes), vectorLanes), high),
                   b.at(b.at(panel, pair, blockTokens * pairBytes), at * kvBytes(KvType::BF16)));
      });
    }
    prefetchLines(b.at(b.at(page.nextKeys, pageTokens * spec.headDim), block, pageTokens * kvScaleBytes),
                  blockTokens * kvScaleBytes);
  });
}

// Pairs of codes as the numbers of two rows.
static std::pair<Value, Value> splitCodes(RawBuilder &b, Value pointer, unsigned lanes) {
  Value bits = b.loadHalves(pointer, lanes), up = b.constantI32(24, lanes);
  auto signedByte = [&](Value shifted) { return arith::ShRSIOp::create(b, shifted, up); };
  return {signedByte(arith::ShLIOp::create(b, bits, up)),
          signedByte(arith::ShLIOp::create(b, bits, b.constantI32(16, lanes)))};
}

void AttentionTile::unpackKeys(const PageValues &page) {
  constexpr int64_t rowBytes = 2 * pageTokens;
  Value scales = b.at(page.keys, pageTokens * spec.headDim);
  b.loop(0, spec.headDim / 2, 1, [&](Value pair) {
    Value offset = b.mul(pair, rowBytes), from = b.at(page.keys, offset);
    Value ofBlock = b.at(scales, b.divide(pair, kvBlockColumns / 2), pageTokens * kvScaleBytes);
    Value to = b.at(panel, pair, 2 * blockTokens * floatBytes);
    for (int64_t key = 0; key < blockTokens; key += vectorLanes) {
      Value factors = b.loadKv(KvType::F16, b.at(ofBlock, key * kvScaleBytes), vectorLanes);
      auto [low, high] = splitCodes(b, b.at(from, 2 * key), vectorLanes);
      b.store(scaledCodes(low, factors), b.at(to, key * floatBytes));
      b.store(scaledCodes(high, factors), b.at(to, (blockTokens + key) * floatBytes));
    }
    prefetchLines(b.at(page.nextKeys, offset), 2 * blockTokens);
  });
  prefetchLines(b.at(page.nextKeys, pageTokens * spec.headDim),
                spec.headDim / kvBlockColumns * pageTokens * kvScaleBytes);
}

void AttentionTile::unpackValues(const PageValues &page) {
  const int64_t lanes = vectorLanes;
  int64_t dim = spec.valueDim(), blocks = dim / kvBlockColumns, run = valueRun(), blocksOfRun = run / kvBlockColumns;
  int64_t ofPair = blocks * 2 * kvScaleBytes;
  // The first token of the block in its page.
  Value first = b.remainder(page.begin, b.constant(pageTokens));
  Value codesLeft = b.sub(b.constant(pageTokens * dim), b.mul(first, run));
  Value scales = b.at(b.at(page.values, codesLeft), b.divide(first, 2), ofPair);
  if (usesTileUnit)
    clearUnseenPairs(page, valuePanel, valueStride);
  forEachPairOfRun(page, /*pairBytes=*/2, [&](Value index, Value pair, Value offset) {
    Value firstBlock = b.mul(index, blocksOfRun);
    b.loop(0, blocksOfRun, 1, [&](Value ofRun) {
      Value from = b.at(b.at(page.values, offset), ofRun, 2 * kvBlockColumns), block = b.add(firstBlock, ofRun);
      Value factors = b.at(b.at(scales, pair, ofPair), block, 2 * kvScaleBytes);
      Value column = b.mul(block, kvBlockColumns);
      if (pairs) {
        Value to = b.at(b.at(valuePanel, pair, valueStride * pairBytes), column, pairBytes);
        Value scale = loadScales(factors, 2, [](int64_t lane) { return lane % 2; });
        auto scaled = [&](int64_t at) { return scaledCodes(loadCodes(b, b.at(from, at), vectorLanes), scale); };
        for (int64_t at = 0; at < 2 * kvBlockColumns; at += 2 * lanes)
          storePairs(scaled(at), scaled(at + vectorLanes), b.at(to, at * kvBytes(KvType::BF16)));
        return;
      }
      Value low = b.broadcast(b.lane0(b.loadKv(KvType::F16, factors, 1)), vectorLanes);
      Value high = b.broadcast(b.lane0(b.loadKv(KvType::F16, b.at(factors, kvScaleBytes), 1)), vectorLanes);
      Value to = b.at(b.at(valuePanel, pair, 2 * valueStride * floatBytes), column, floatBytes);
      for (int64_t at = 0; at < kvBlockColumns; at += vectorLanes) {
        auto [lower, upper] = splitCodes(b, b.at(from, 2 * at), vectorLanes);
        b.store(scaledCodes(lower, low), b.at(to, at * floatBytes));
        b.store(scaledCodes(upper, high), b.at(to, (valueStride + at) * floatBytes));
      }
    });
    prefetchLines(b.at(page.nextValues, offset), 2 * run);
  });
  prefetchLines(b.at(page.nextValues, pageTokens * dim), pageTokens / 2 * ofPair);
}

// `body(run, pair, bytes before it in the plane)` of the pairs of tokens that the tile sees, run by run.
void AttentionTile::forEachPairOfRun(const PageValues &page, int64_t pairBytes,
                                     llvm::function_ref<void(Value, Value, Value)> body) {
  b.loop(0, spec.valueDim() / valueRun(), 1, [&](Value index) {
    Value before = b.mul(index, bytesOfRun(pairBytes));
    b.loop(b.divide(page.firstKey, 2), b.divideUp(page.endKey, 2), 1,
           [&](Value pair) { body(index, pair, b.add(before, b.mul(pair, valueRun() * pairBytes))); });
  });
}

void AttentionTile::widenValuePairs(const PageValues &page) {
  forEachPairOfRun(page, pairBytes, [&](Value index, Value pair, Value offset) {
    Value from = b.at(page.values, offset);
    Value to = b.at(b.at(valuePanel, pair, 2 * valueStride * floatBytes), index, valueRun() * floatBytes);
    for (ColumnRun run : columnRuns(valueRun(), vectorLanes)) {
      auto [low, high] = b.widenPair(b.load(b.ints(run.lanes), b.at(from, run.begin * pairBytes)));
      b.store(low, b.at(to, run.begin * floatBytes));
      b.store(high, b.at(to, (valueStride + run.begin) * floatBytes));
    }
    prefetchLines(b.at(page.nextValues, offset), valueRun() * pairBytes);
  });
}

// Asks for `bytes` of the next page, `offset` behind the first row of its second half, whose rows hold `rowDim` numbers.
void AttentionTile::prefetchSecondHalf(Value rows, int64_t rowDim, Value offset, int64_t bytes) {
  if (spreadsPrefetch)
    prefetchLines(b.at(b.at(rows, blockTokens / 2 * rowDim * kvBytes(spec.kv)), offset), bytes);
}

Type AttentionTile::operandElement() {
  return pairs ? Type(b.getI32Type()) : Type(b.getF32Type());
}

Value AttentionTile::multiplyAdd(Value x, Value y, Value acc) {
  return pairs ? b.dotPairs(x, y, acc, pairDot) : b.fma(x, y, acc);
}

int64_t AttentionTile::tokenStep() const {
  return spec.registerRows / std::gcd(groupSize, spec.registerRows);
}

void AttentionTile::rowBlocks(Value rows, llvm::function_ref<void(Value, unsigned)> body) {
  const int64_t blockRows = spec.registerRows;
  Value whole = b.mul(b.divide(rows, blockRows), blockRows);
  if (tileRows >= blockRows)
    b.loop(b.constant(0), whole, blockRows, [&](Value row) { body(row, blockRows); });
  Value rest = b.sub(rows, whole);
  const int64_t step = std::gcd(groupSize, blockRows);
  for (int64_t count = step; count < blockRows && count <= tileRows; count += step)
    b.ifThen(b.equal(rest, b.constant(count)), [&] { body(whole, count); });
}

void AttentionTile::multiplyScores(const RowBlock &block, const PageValues &page, const Panel &keys) {
  if (usesTileUnit)
    return multiplyScoresOnUnit(block, keys);
  Value endKey = tokensOf(page, wide * vectorLanes);
  rowBlocks(block.count, [&](Value row, unsigned count) { scoreBlock(row, count, endKey, page, keys); });
}

void AttentionTile::scoreBlock(Value row, unsigned rows, Value endKey, const PageValues &page, const Panel &panel) {
  int64_t columns = wide * vectorLanes;
  b.loop(b.constant(0), endKey, columns, [&](Value key) {
    Value keys = b.at(panel.base, key, floatBytes);
    Value queries = b.at(query, row, queryStride * floatBytes);
    SmallVector<Value> zero(rows * wide, b.constantF32(0, vectorLanes));
    Value steps = b.constant(pairs ? spec.headDim / 2 : spec.headDim);
    auto products = b.fold(b.constant(0), steps, zero, [&](Value column, ValueRange acc) {
      Value keyRow = b.at(keys, column, panel.rowBytes), queryColumn = b.at(queries, column, floatBytes);
      SmallVector<Value> keyVectors, next;
      // head_dim / 2 steps for half a page
      int64_t stepBytes = blockTokens * kvBytes(spec.kv);
      if (readsKeysInPlace)
        prefetchLines(b.at(b.at(page.nextKeys, key, floatBytes), column, panel.rowBytes), columns * floatBytes);
      else if (rows < spec.registerRows && readsFloatRows())
        prefetchPart(b.at(page.nextKeys, b.mul(key, page.keyBytes)), columns, page.keyBytes, spec.headDim * floatBytes,
                     column, spec.headDim);
      else
        prefetchSecondHalf(page.nextKeys, spec.headDim, b.mul(column, stepBytes), stepBytes);
      for (int64_t w = 0; w < wide; ++w)
        keyVectors.push_back(
            b.load(VectorType::get({vectorLanes}, operandElement()), b.at(keyRow, w * vectorLanes * floatBytes)));
      for (unsigned r = 0; r < rows; ++r) {
        Value element = b.load(operandElement(), b.at(queryColumn, r * queryStride * floatBytes));
        element = b.broadcast(element, vectorLanes);
        for (int64_t w = 0; w < wide; ++w)
          next.push_back(multiplyAdd(element, keyVectors[w], acc[r * wide + w]));
      }
      return next;
    });
    Value to = b.at(b.at(scores, row, blockTokens * floatBytes), key, floatBytes);
    for (int64_t i = 0; i < rows * wide; ++i)
      b.store(products[i], b.at(to, (i / wide * blockTokens + i % wide * vectorLanes) * floatBytes));
  });
}

void AttentionTile::weighValues(const RowBlock &block, const PageValues &page, const Panel &values) {
  if (usesTileUnit)
    return accumulateValuesOnUnit(block, values);
  rowBlocks(block.count, [&](Value row, unsigned count) { valueBlock(row, count, page, values); });
}

// Of `panel`, the column that `column` is; no vector of columns belongs to two runs.
Value AttentionTile::columnOf(const Panel &panel, Value base, Value column) {
  if (!panel.isInRuns)
    return b.at(base, column, floatBytes);
  Value run = b.divide(column, valueRun()), ofRun = b.sub(column, b.mul(run, valueRun()));
  return b.at(b.at(base, run, bytesOfRun(pairBytes)), ofRun, floatBytes);
}

void AttentionTile::valueBlock(Value row, unsigned rows, const PageValues &page, const Panel &values) {
  int64_t vectors = values.isInRuns ? std::gcd(wide, valueRun() / vectorLanes) : wide;
  int64_t columns = vectors * vectorLanes, whole = spec.valueDim() / columns * columns;
  SmallVector<ColumnRun> full;
  for (int64_t w = 0; w < vectors; ++w)
    full.push_back({w * vectorLanes, vectorLanes});
  if (whole)
    b.loop(0, whole, columns, [&](Value column) { valueColumns(row, rows, full, column, page, values); });
  SmallVector<ColumnRun> tail = columnRuns(spec.valueDim() - whole, vectorLanes);
  for (ArrayRef<ColumnRun> rest = tail; !rest.empty(); rest = rest.drop_front(std::min<size_t>(wide, rest.size())))
    valueColumns(row, rows, rest.take_front(wide), b.constant(whole), page, values);
}

void AttentionTile::valueColumns(Value row, unsigned rows, ArrayRef<ColumnRun> runs, Value column,
                                 const PageValues &page, const Panel &values) {
  Value firstKey = pairs ? b.divide(page.firstKey, 2) : page.firstKey;
  Value endKey = pairs ? b.divideUp(page.endKey, 2) : page.endKey;
  int64_t runsEnd = runs.back().begin + runs.back().lanes;
  Value accRow = b.at(b.at(accs, row, valueStride * floatBytes), column, floatBytes);
  Value weights = b.at(scores, row, blockTokens * floatBytes), valueColumn = columnOf(values, values.base, column);
  Value nextColumn = readsValuesInPlace ? columnOf(values, page.nextValues, column) : Value();
  Value rowFactors = b.at(factors, row, floatBytes);
  auto accAt = [&](unsigned r, ColumnRun run) { return b.at(accRow, (r * valueStride + run.begin) * floatBytes); };
  SmallVector<Value> init;
  for (unsigned r = 0; r < rows; ++r)
    for (ColumnRun run : runs)
      init.push_back(
          b.mulF(b.loadFloats(accAt(r, run), run.lanes), b.loadBroadcast(b.at(rowFactors, r * floatBytes), run.lanes)));
  auto sums = b.fold(firstKey, endKey, init, [&](Value key, ValueRange acc) {
    Value valueRow =
        values.rowStride ? b.at(valueColumn, b.mul(key, values.rowStride)) : b.at(valueColumn, key, values.rowBytes);
    Value weightColumn = b.at(weights, key, floatBytes);
    SmallVector<Value> vectors, next;
    if (readsValuesInPlace)
      prefetchLines(b.at(nextColumn, key, values.rowBytes), runsEnd * floatBytes);
    else if (rows < spec.registerRows && readsFloatRows())
      prefetchLines(b.at(b.at(page.nextValues, column, floatBytes), b.mul(key, page.valueBytes)), runsEnd * floatBytes,
                    CacheLevel::First);
    else
      prefetchSecondHalf(b.at(page.nextValues, column, kvBytes(spec.kv)), spec.valueRowDim(),
                         b.mul(key, spec.valueRowDim() * kvBytes(spec.kv)), runsEnd * kvBytes(spec.kv));
    for (ColumnRun run : runs)
      vectors.push_back(b.load(VectorType::get({run.lanes}, operandElement()), b.at(valueRow, run.begin * floatBytes)));
    for (unsigned r = 0; r < rows; ++r) {
      Value weight = b.load(operandElement(), b.at(weightColumn, r * blockTokens * floatBytes));
      for (auto [i, run] : llvm::enumerate(runs))
        next.push_back(multiplyAdd(b.broadcast(weight, run.lanes), vectors[i], acc[r * runs.size() + i]));
    }
    return next;
  });
  for (unsigned r = 0; r < rows; ++r)
    for (auto [i, run] : llvm::enumerate(runs))
      b.store(sums[r * runs.size() + i], accAt(r, run));
}
