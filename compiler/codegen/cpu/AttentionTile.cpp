// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/AttentionTile.h"

#include "compiler/codegen/cpu/VectorMath.h"
#include "runtime/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>
#include <tuple>

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
static constexpr int64_t floatBytes = sizeof(float);
// Score vectors that the softmax keeps in registers.
static constexpr int64_t registerScores = 4;
static constexpr int64_t cacheLine = 64;
static constexpr double log2e = 1.4426950408889634;
// Rows of a register tile. With `wide` vectors each: 6 * 4 accumulators + 4 + 1 of 32 registers, 6 * 2 + 2 + 1 of 16.
static constexpr unsigned blockRows = 6;
// The maximum of a row that has seen nothing: finite, so that differences are never NaN.
static constexpr double emptyMax = -1e38;

static int64_t wholeLines(int64_t floats) { return llvm::alignTo(floats, 16); }

// About 96 rows: the transposition of a page costs as much as 4 rows of products; 48 where rows are long, for L2.
static int64_t chooseTokens(const AttentionSpec &spec, int64_t group) {
  if (spec.blockQ)
    return spec.blockQ;
  int64_t rows = std::max(spec.headDim, spec.valueDim()) <= 128 ? 96 : 48;
  return std::max<int64_t>(1, rows / group);
}

AttentionTile::AttentionTile(RawBuilder &builder, const AttentionSpec &spec, const CpuTarget &target)
    : b(builder), spec(spec), vectorLanes(target.vectorLanes()), pairs(spec.products == Products::Bf16),
      hasPairDot(target.hasAvx512() && target.has("avx512bf16")), wide(target.vectorRegisters() >= 32 ? 4 : 2),
      groupSize(spec.headsOfTile()), queryStride(wholeLines(spec.headDim)),
      valueStride(wholeLines(spec.valueDim())), tileTokens(chooseTokens(spec, groupSize)),
      tileRows(tileTokens * groupSize) {}

void AttentionTile::allocate() {
  int64_t panelFloats = std::max(spec.headDim * pageTokens, spec.kv == KvType::F32 ? 0 : pageTokens * valueStride);
  auto scratch = [&](int64_t floats) { return b.stackScratch(floats * floatBytes); };
  query = scratch(tileRows * queryStride);
  scores = scratch(tileRows * pageTokens);
  panel = scratch(panelFloats);
  accs = scratch(tileRows * valueStride);
  totals = scratch(tileRows * valueStride);
  sums = scratch(tileRows * vectorLanes);
  rowMax = scratch(tileRows);
  factors = scratch(tileRows);
  totalMax = scratch(tileRows);
  totalSum = scratch(tileRows);
}

bool AttentionTile::wholePageInRegisters() const { return registerScores * vectorLanes == pageTokens; }

Value AttentionTile::numRows(const TileValues &tile) { return b.mul(tile.numTokens, groupSize); }

std::pair<Value, Value> AttentionTile::visibleKeys(const SequenceValues &sequence, Value firstToken, Value numTokens) {
  Value first = b.add(sequence.past, firstToken);
  Value last = b.add(first, b.sub(numTokens, b.constant(1)));
  Value begin = b.constant(0), end = sequence.length;
  if (spec.window)
    begin = b.max(begin, b.add(first, 1 - spec.window));
  if (spec.causal)
    end = b.add(last, 1);
  else if (spec.window)
    end = b.min(end, b.add(last, spec.window));
  return {begin, end};
}

void AttentionTile::loadQueries(const TileValues &tile, Value q, Value qStride) {
  // With a softcap the score comes out as 2 log2(e) * score / softcap, what the tanh wants.
  double factor = spec.softcap != 0 ? spec.scale * 2 * log2e / spec.softcap : spec.scale * log2e;
  Value firstRow = b.add(tile.sequence.firstRow, tile.firstToken);
  b.loop(b.constant(0), tile.numTokens, 1, [&](Value token) {
    Value row = b.at(q, b.mul(b.add(firstRow, token), qStride), floatBytes);
    b.loop(0, groupSize, 1, [&](Value head) {
      Value from = b.at(row, b.add(tile.firstHead, head), spec.headDim * floatBytes);
      Value to = b.at(query, b.add(b.mul(token, groupSize), head), queryStride * floatBytes);
      for (ColumnRun run : columnRuns(spec.headDim, vectorLanes)) {
        Value scaled = b.mulF(b.loadFloats(b.at(from, run.begin * floatBytes), run.lanes),
                              b.constantF32(factor, run.lanes));
        b.storeKv(pairs ? KvType::BF16 : KvType::F32, scaled, b.at(to, run.begin * (pairs ? 2 : floatBytes)));
      }
    });
  });
}

void AttentionTile::attendSplit(const TileValues &tile, Value firstKey, Value endKey, Value kOffset, Value vOffset,
                                Value slopes) {
  Value rows = numRows(tile);
  b.loop(b.constant(0), rows, 1, [&](Value row) {
    b.store(b.constantF32(emptyMax), b.at(rowMax, row, floatBytes));
    b.store(b.constantF32(0, vectorLanes), b.at(sums, row, vectorLanes * floatBytes));
    Value acc = b.at(accs, row, valueStride * floatBytes);
    for (ColumnRun run : columnRuns(valueStride, vectorLanes))
      b.store(b.constantF32(0, run.lanes), b.at(acc, run.begin * floatBytes));
  });
  int64_t element = kvBytes(spec.kv);
  Value headKeys = b.add(kOffset, b.mul(tile.kvHead, pageTokens * spec.headDim * element));
  Value headValues = b.add(vOffset, b.mul(tile.kvHead, pageTokens * spec.valueRowDim() * element));
  // Beyond the split the next thread's or this thread's next split begins.
  Value lastPage = b.divide(b.sub(tile.sequence.length, b.constant(1)), pageTokens);
  b.loop(b.divide(firstKey, pageTokens), b.divideUp(endKey, pageTokens), 1, [&](Value pageIndex) {
    Value page = loadPage(b, tile.sequence.pages, pageIndex);
    Value nextPage = loadPage(b, tile.sequence.pages, b.min(b.add(pageIndex, 1), lastPage));
    Value pageBegin = b.mul(pageIndex, pageTokens);
    Value begin = b.max(b.sub(firstKey, pageBegin), b.constant(0));
    Value end = b.min(b.sub(endKey, pageBegin), b.constant(pageTokens));
    transposeKeys(b.at(page, headKeys), b.at(nextPage, headKeys));
    multiplyScores(rows);
    b.loop(b.constant(0), tile.numTokens, 1, [&](Value token) {
      b.loop(0, groupSize, 1, [&](Value head) { softmaxRow(tile, token, head, pageBegin, slopes); });
    });
    Value values = b.at(page, headValues);
    if (pairs)
      pairValues(values, b.at(nextPage, headValues), begin, end);
    else if (spec.kv != KvType::F32)
      widenValues(values, b.at(nextPage, headValues), begin, end);
    if (pairs)
      accumulateValues(rows, panel, b.divide(begin, 2), b.divideUp(end, 2));
    else
      accumulateValues(rows, spec.kv == KvType::F32 ? values : panel, begin, end);
  });
}

void AttentionTile::transposeKeys(Value keys, Value nextKeys) {
  // Two bf16 columns travel as one 32-bit lane: half the loads and shuffles, and widening is a shift or a mask.
  bool inPairs = spec.kv == KvType::BF16 && spec.headDim % 2 == 0;
  int64_t perLane = inPairs ? 2 : 1, lanesPerRow = spec.headDim / perLane, element = kvBytes(spec.kv);
  // Square blocks; the last block of columns overlaps its neighbour where the row is no multiple.
  int64_t side = std::min<int64_t>(vectorLanes, llvm::bit_floor(uint64_t(lanesPerRow)));
  b.loop(0, pageTokens, side, [&](Value key) {
    b.loop(0, lanesPerRow, side, [&](Value lane) {
      if (lanesPerRow % side)
        lane = b.min(lane, b.constant(lanesPerRow - side));
      Value offset = b.mul(b.add(b.mul(key, lanesPerRow), lane), perLane * element);
      Value from = b.at(keys, offset), next = b.at(nextKeys, offset);
      int64_t panelRows = pairs ? 1 : perLane;  // of one lane
      Value to = b.at(panel, b.add(b.mul(lane, panelRows * pageTokens), key), floatBytes);
      SmallVector<Value> block;
      for (int64_t row = 0; row < side; ++row) {
        Value pointer = b.at(from, row * spec.headDim * element);
        block.push_back(inPairs ? b.load(b.ints(side), pointer) : b.loadKv(spec.kv, pointer, side));
        b.prefetch(b.at(next, row * spec.headDim * element));
      }
      b.transpose(block);
      for (int64_t row = 0; row < side; ++row) {
        Value low = block[row], high;
        if (inPairs && !pairs)
          std::tie(low, high) = b.widenPair(block[row]);
        b.store(low, b.at(to, row * panelRows * pageTokens * floatBytes));
        if (high)
          b.store(high, b.at(to, (row * panelRows + 1) * pageTokens * floatBytes));
      }
    });
  });
}

void AttentionTile::widenValues(Value values, Value nextValues, Value firstKey, Value endKey) {
  int64_t element = kvBytes(spec.kv);
  b.loop(firstKey, endKey, 1, [&](Value key) {
    Value offset = b.mul(key, spec.valueRowDim() * element);
    Value from = b.at(values, offset), next = b.at(nextValues, offset), to = b.at(panel, key, valueStride * floatBytes);
    for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
      b.store(b.loadKv(spec.kv, b.at(from, run.begin * element), run.lanes), b.at(to, run.begin * floatBytes));
      if (run.begin * element % cacheLine == 0)
        b.prefetch(b.at(next, run.begin * element));
    }
  });
}

void AttentionTile::pairValues(Value values, Value nextValues, Value firstKey, Value endKey) {
  int64_t rowBytes = spec.valueRowDim() * kvBytes(spec.kv);
  b.loop(b.divide(firstKey, 2), b.divideUp(endKey, 2), 1, [&](Value pair) {
    Value key = b.mul(pair, 2), from = b.at(values, key, rowBytes), next = b.at(nextValues, key, rowBytes);
    Value to = b.at(panel, pair, valueStride * floatBytes);
    // A slot that no row sees may hold anything: its weight of 0 needs a finite partner.
    Value lowSeen = b.lessThan(b.sub(firstKey, b.constant(1)), key), highSeen = b.lessThan(b.add(key, 1), endKey);
    for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
      Value pointer = b.at(from, run.begin * kvBytes(spec.kv)), zero = b.constantI32(0, run.lanes);
      Value low = b.select(lowSeen, b.loadHalves(pointer, run.lanes), zero);
      Value high = b.select(highSeen, b.loadHalves(b.at(pointer, rowBytes), run.lanes), zero);
      b.store(b.joinHalves(low, high), b.at(to, run.begin * floatBytes));
      if (run.begin * kvBytes(spec.kv) % cacheLine == 0) {
        b.prefetch(b.at(next, run.begin * kvBytes(spec.kv)));
        b.prefetch(b.at(next, run.begin * kvBytes(spec.kv) + rowBytes));
      }
    }
  });
}

Type AttentionTile::operandElement() { return pairs ? Type(b.getI32Type()) : Type(b.getF32Type()); }

Value AttentionTile::multiplyAdd(Value x, Value y, Value acc) {
  return pairs ? b.dotPairs(x, y, acc, hasPairDot) : b.fma(x, y, acc);
}

void AttentionTile::rowBlocks(Value rows, llvm::function_ref<void(Value, unsigned)> body) {
  Value whole = b.mul(b.divide(rows, blockRows), blockRows);
  if (tileRows >= blockRows)
    b.loop(b.constant(0), whole, blockRows, [&](Value row) { body(row, blockRows); });
  Value rest = b.sub(rows, whole);
  unsigned step = std::gcd<int64_t>(groupSize, blockRows);
  for (unsigned count = step; count < blockRows && count <= tileRows; count += step)
    b.ifThen(b.equal(rest, b.constant(count)), [&] { body(whole, count); });
}

void AttentionTile::multiplyScores(Value rows) {
  rowBlocks(rows, [&](Value row, unsigned count) { scoreBlock(row, count); });
}

void AttentionTile::scoreBlock(Value row, unsigned rows) {
  int64_t columns = wide * vectorLanes;
  b.loop(0, pageTokens, columns, [&](Value key) {
    Value keys = b.at(panel, key, floatBytes);
    Value queries = b.at(query, row, queryStride * floatBytes);
    SmallVector<Value> zero(rows * wide, b.constantF32(0, vectorLanes));
    Value steps = b.constant(pairs ? spec.headDim / 2 : spec.headDim);
    auto products = b.fold(b.constant(0), steps, zero, [&](Value column, ValueRange acc) {
      Value keyRow = b.at(keys, column, pageTokens * floatBytes), queryColumn = b.at(queries, column, floatBytes);
      SmallVector<Value> keyVectors, next;
      for (unsigned w = 0; w < wide; ++w)
        keyVectors.push_back(
            b.load(VectorType::get({vectorLanes}, operandElement()), b.at(keyRow, w * vectorLanes * floatBytes)));
      for (unsigned r = 0; r < rows; ++r) {
        Value element = b.load(operandElement(), b.at(queryColumn, r * queryStride * floatBytes));
        element = b.broadcast(element, vectorLanes);
        for (unsigned w = 0; w < wide; ++w)
          next.push_back(multiplyAdd(element, keyVectors[w], acc[r * wide + w]));
      }
      return next;
    });
    Value to = b.at(b.at(scores, row, pageTokens * floatBytes), key, floatBytes);
    for (unsigned i = 0; i < rows * wide; ++i)
      b.store(products[i], b.at(to, (i / wide * pageTokens + i % wide * vectorLanes) * floatBytes));
  });
}

// 0, 1, 2 … in all lanes.
static Value laneIndices(RawBuilder &b, unsigned lanes) {
  SmallVector<int32_t> indices(lanes);
  std::iota(indices.begin(), indices.end(), 0);
  return arith::ConstantOp::create(b, DenseElementsAttr::get(b.ints(lanes), ArrayRef(indices)));
}

Value AttentionTile::splatInt(Value index) {
  return b.broadcast(arith::TruncIOp::create(b, b.getI32Type(), index), vectorLanes);
}

Value AttentionTile::finishScores(const TileValues &tile, Value token, Value headInGroup, Value pageBegin,
                                  Value slopes, Value rowScores, Value max,
                                  SmallVectorImpl<Value> &finished) {
  Value tokenIndex = b.add(tile.firstToken, token);
  auto [begin, end] = visibleKeys(tile.sequence, tokenIndex, b.constant(1));
  // Keys [low, high) of the page are visible; low may be negative, high beyond the page.
  Value low = splatInt(b.sub(begin, pageBegin)), high = splatInt(b.sub(end, pageBegin));
  Value position = splatInt(b.sub(b.add(tile.sequence.past, tokenIndex), pageBegin)), slope;
  if (spec.hasAlibiSlopes) {
    Value perHead = b.loadFloat(b.at(slopes, b.add(tile.firstHead, headInGroup), floatBytes));
    slope = b.broadcast(b.mulF(perHead, b.constantF32(log2e)), vectorLanes);
  }
  return forEachScoreVector(max, [&](Value key, Value carried) {
    Value pointer = b.at(rowScores, key, floatBytes), score = b.loadFloats(pointer, vectorLanes);
    Value index = arith::AddIOp::create(b, splatInt(key), laneIndices(b, vectorLanes));
    if (spec.softcap != 0)
      score = b.mulF(emitTanhOfExponent(b, score), b.constantF32(spec.softcap * log2e, vectorLanes));
    if (spec.hasAlibiSlopes) {
      Value distance = arith::SubIOp::create(b, index, position);
      score = b.fma(slope, arith::SIToFPOp::create(b, b.floats(vectorLanes), distance), score);
    }
    Value seen = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, high);
    if (spec.window)
      seen = arith::AndIOp::create(b, seen, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, index, low));
    score = b.select(seen, score, b.constantF32(-INFINITY, vectorLanes));
    if (wholePageInRegisters())
      finished.push_back(score);
    else
      b.store(score, pointer);
    return b.maxF(score, carried);
  });
}

Value AttentionTile::forEachScoreVector(Value init, llvm::function_ref<Value(Value, Value)> body) {
  const int64_t step = registerScores * vectorLanes;
  auto vectorsFrom = [&](Value key, Value carried) {
    for (int64_t vector = 0; vector < registerScores; ++vector)
      carried = body(b.add(key, vector * vectorLanes), carried);
    return carried;
  };
  if (wholePageInRegisters())
    return vectorsFrom(b.constant(0), init);
  return b.fold(b.constant(0), b.constant(pageTokens / step), {init},
                [&](Value round, ValueRange carried) -> SmallVector<Value> {
                  return {vectorsFrom(b.mul(round, step), carried[0])};
                })[0];
}

void AttentionTile::storeWeights(Value weights, Value rowScores, Value key) {
  if (!pairs)
    return b.store(weights, b.at(rowScores, key, floatBytes));
  // Halves trail the scores that are yet to be read.
  Value to = b.at(rowScores, key, 2);
  if (!hasPairDot)
    return b.storeKv(KvType::BF16, weights, to);
  b.store(arith::TruncFOp::create(b, VectorType::get({vectorLanes}, b.getBF16Type()), weights), to);
}

void AttentionTile::softmaxRow(const TileValues &tile, Value token, Value headInGroup, Value pageBegin, Value slopes) {
  Value row = b.add(b.mul(token, groupSize), headInGroup);
  Value rowScores = b.at(scores, row, pageTokens * floatBytes);
  // max' = max(max, s); factor = 2^(max - max'); p = 2^(s - max'); sum' = factor * sum + p
  Value maxPointer = b.at(rowMax, row, floatBytes), sumPointer = b.at(sums, row, vectorLanes * floatBytes);
  Value oldMax = b.loadBroadcast(maxPointer, vectorLanes);
  SmallVector<Value> finished;
  Value laneMax = finishScores(tile, token, headInGroup, pageBegin, slopes, rowScores, oldMax, finished);
  Value newMax = b.maxOfLanes(laneMax);
  Value factor = emitExp2(b, b.subF(oldMax, newMax));
  Value oldSum = b.mulF(b.loadFloats(sumPointer, vectorLanes), factor);
  ArrayRef<Value> kept = finished;
  Value sum = forEachScoreVector(oldSum, [&](Value key, Value carried) {
    Value score;
    if (kept.empty()) {
      score = b.loadFloats(b.at(rowScores, key, floatBytes), vectorLanes);
    } else {
      score = kept.front();
      kept = kept.drop_front();
    }
    Value p = emitExp2(b, b.subF(score, newMax));
    storeWeights(p, rowScores, key);
    return b.addF(carried, p);
  });
  b.store(sum, sumPointer);
  b.storeLane0(newMax, maxPointer);
  b.storeLane0(factor, b.at(factors, row, floatBytes));
}

void AttentionTile::accumulateValues(Value rows, Value values, Value firstKey, Value endKey) {
  rowBlocks(rows, [&](Value row, unsigned count) { valueBlock(row, count, values, firstKey, endKey); });
}

void AttentionTile::valueBlock(Value row, unsigned rows, Value values, Value firstKey, Value endKey) {
  int64_t columns = wide * vectorLanes, whole = spec.valueDim() / columns * columns;
  SmallVector<ColumnRun> full;
  for (unsigned w = 0; w < wide; ++w)
    full.push_back({w * vectorLanes, vectorLanes});
  if (whole)
    b.loop(0, whole, columns,
           [&](Value column) { valueColumns(row, rows, full, column, values, firstKey, endKey); });
  SmallVector<ColumnRun> tail = columnRuns(spec.valueDim() - whole, vectorLanes);
  for (ArrayRef<ColumnRun> rest = tail; !rest.empty(); rest = rest.drop_front(std::min<size_t>(wide, rest.size())))
    valueColumns(row, rows, rest.take_front(wide), b.constant(whole), values, firstKey, endKey);
}

void AttentionTile::valueColumns(Value row, unsigned rows, ArrayRef<ColumnRun> runs, Value column, Value values,
                                 Value firstKey, Value endKey) {
  int64_t stride = spec.kv == KvType::F32 ? spec.valueRowDim() : valueStride;
  Value accRow = b.at(b.at(accs, row, valueStride * floatBytes), column, floatBytes);
  Value weights = b.at(scores, row, pageTokens * floatBytes), valueColumn = b.at(values, column, floatBytes);
  Value rowFactors = b.at(factors, row, floatBytes);
  auto accAt = [&](unsigned r, ColumnRun run) { return b.at(accRow, (r * valueStride + run.begin) * floatBytes); };
  SmallVector<Value> init;
  for (unsigned r = 0; r < rows; ++r)
    for (ColumnRun run : runs)
      init.push_back(b.mulF(b.loadFloats(accAt(r, run), run.lanes),
                            b.loadBroadcast(b.at(rowFactors, r * floatBytes), run.lanes)));
  auto sums = b.fold(firstKey, endKey, init, [&](Value key, ValueRange acc) {
    Value valueRow = b.at(valueColumn, key, stride * floatBytes), weightColumn = b.at(weights, key, floatBytes);
    SmallVector<Value> vectors, next;
    for (ColumnRun run : runs)
      vectors.push_back(
          b.load(VectorType::get({run.lanes}, operandElement()), b.at(valueRow, run.begin * floatBytes)));
    for (unsigned r = 0; r < rows; ++r) {
      Value weight = b.load(operandElement(), b.at(weightColumn, r * pageTokens * floatBytes));
      for (auto [i, run] : llvm::enumerate(runs))
        next.push_back(multiplyAdd(b.broadcast(weight, run.lanes), vectors[i], acc[r * runs.size() + i]));
    }
    return next;
  });
  for (unsigned r = 0; r < rows; ++r)
    for (auto [i, run] : llvm::enumerate(runs))
      b.store(sums[r * runs.size() + i], accAt(r, run));
}

RowState AttentionTile::splitState(Value row) {
  return {b.at(rowMax, row, floatBytes), b.at(sums, row, vectorLanes * floatBytes),
          b.at(accs, row, valueStride * floatBytes)};
}

RowState AttentionTile::totalState(Value row) {
  return {b.at(totalMax, row, floatBytes), b.at(totalSum, row, floatBytes),
          b.at(totals, row, valueStride * floatBytes)};
}

void AttentionTile::reduceSum(Value row) {
  Value sum = b.at(sums, row, vectorLanes * floatBytes);
  b.storeLane0(b.sumOfLanes(b.loadFloats(sum, vectorLanes)), sum);
}

void AttentionTile::copyState(RowState to, RowState from) {
  b.store(b.loadFloat(from.max), to.max);
  b.store(b.loadFloat(from.sum), to.sum);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes))
    b.store(b.loadFloats(b.at(from.acc, run.begin * floatBytes), run.lanes), b.at(to.acc, run.begin * floatBytes));
}

void AttentionTile::beginTotal(RowState total, Value head, Value sinks) {
  Value max = b.constantF32(emptyMax);
  if (spec.hasSinks)
    max = b.mulF(b.loadFloat(b.at(sinks, head, floatBytes)), b.constantF32(log2e));
  b.store(max, total.max);
  b.store(b.constantF32(spec.hasSinks ? 1 : 0), total.sum);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes))
    b.store(b.constantF32(0, run.lanes), b.at(total.acc, run.begin * floatBytes));
}

void AttentionTile::mergeInto(RowState total, RowState part) {
  // max' = max(max, part); x = 2^(max - max') x + 2^(part - max') part for the sum and the output alike.
  Value oldMax = b.loadBroadcast(total.max, vectorLanes), partMax = b.loadBroadcast(part.max, vectorLanes);
  Value newMax = b.maxF(partMax, oldMax);
  Value keep = b.lane0(emitExp2(b, b.subF(oldMax, newMax)));
  Value take = b.lane0(emitExp2(b, b.subF(partMax, newMax)));
  b.storeLane0(newMax, total.max);
  b.store(b.fma(b.loadFloat(part.sum), take, b.mulF(b.loadFloat(total.sum), keep)), total.sum);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
    Value to = b.at(total.acc, run.begin * floatBytes), from = b.at(part.acc, run.begin * floatBytes);
    Value kept = b.mulF(b.loadFloats(to, run.lanes), b.broadcast(keep, run.lanes));
    b.store(b.fma(b.loadFloats(from, run.lanes), b.broadcast(take, run.lanes), kept), to);
  }
}

void AttentionTile::storeOutput(RowState total, Value out) {
  Value inverse = b.divF(b.constantF32(1), b.loadFloat(total.sum));
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
    Value scaled = b.mulF(b.loadFloats(b.at(total.acc, run.begin * floatBytes), run.lanes),
                          b.broadcast(inverse, run.lanes));
    // + 0 turns -0 into 0: the sign of a vanished sum may depend on how many masked keys were added to it.
    b.store(b.addF(scaled, b.constantF32(0, run.lanes)), b.at(out, run.begin * floatBytes));
  }
}
