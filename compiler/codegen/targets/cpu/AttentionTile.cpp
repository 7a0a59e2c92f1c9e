// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/AttentionTile.h"

#include "compiler/codegen/kernel/VectorMath.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// Score vectors that the softmax has in registers at once.
static constexpr int64_t registerScores = 4;
static constexpr double log2e = 1.4426950408889634;

// Heads that a run has room for, and bytes of their queries and results, beyond what a tile of many rows takes: they lie on the stack.
static constexpr int64_t runHeads = 8, runBytes = 256 << 10;

// 0, 1, 2 … in all lanes.
static Value laneIndices(RawBuilder &b, unsigned lanes) {
  SmallVector<int32_t> indices(lanes);
  std::iota(indices.begin(), indices.end(), 0);
  return arith::ConstantOp::create(b, DenseElementsAttr::get(b.ints(lanes), ArrayRef(indices)));
}

static int64_t wholeLines(int64_t floats) {
  return llvm::alignTo(floats, 16);
}

static int64_t chooseTokens(const AttentionSpec &spec, int64_t group) {
  return spec.blockQ ? spec.blockQ : std::max<int64_t>(1, spec.tileRows / group);
}

AttentionTile::AttentionTile(RawBuilder &builder, const AttentionSpec &spec, const CpuTarget &target)
    : b(builder), spec(spec), vectorLanes(target.vectorLanes()), pairs(spec.products == Products::Bf16),
      pairDot(target.pairDot()),
      roundsTwo(pairDot == PairDot::Neon || (pairDot == PairDot::Avx512 && vectorLanes == 16)),
      usesTileUnit(pairs && target.hasBf16Tiles()), pagesArePaired(cpu::hasPairedPages(spec)),
      holdsCodes(spec.kv == KvType::Q8_0),
      readsKeysInPlace(pagesArePaired && pairs && !holdsCodes && !(usesTileUnit && needsUnitPadding(spec.headDim))),
      readsValuesInPlace(pagesArePaired && pairs && !holdsCodes && !usesTileUnit), blockTokens(spec.blockKv),
      wide(std::min(spec.registerColumns, spec.blockKv) / target.vectorLanes()),
      spreadsPrefetch(pairs && !usesTileUnit && !spec.isDense && !holdsCodes &&
                      wide * target.vectorLanes() == spec.blockKv),
      unit(spec.hasBias ? 1 : log2e), emptyMax(spec.hasBias ? -std::numeric_limits<float>::max() : -1e38),
      groupSize(spec.headsOfTile()), queryStride(wholeLines(pairs ? llvm::divideCeil(spec.headDim, 2) : spec.headDim)),
      valueStride(wholeLines(spec.valueDim())), buckets(spec.positions, blockTokens, vectorLanes),
      tileTokens(chooseTokens(spec, groupSize)), tileRows(tileTokens * groupSize) {}

void AttentionTile::allocate(bool forHeadRuns) {
  runRows = scratchRows();
  if (forHeadRuns && takesHeadRuns()) {
    int64_t headBytes = rowAlignment() * (queryStride + 2 * valueStride) * floatBytes;
    runRows = std::max(runRows, std::min({headTiles(), runHeads, runBytes / headBytes}) * rowAlignment());
  }
  int64_t keyFloats = readsKeysInPlace ? 0 : (pairs ? unitPairsOf(spec.headDim) : spec.headDim) * blockTokens;
  // Runs of columns lie in a copy as in a page.
  int64_t valueTokens = pagesArePaired ? HEDDLE_KV_PAGE_SIZE : blockTokens;
  int64_t valueFloats = copiesValues() ? valueTokens / (pairs ? 2 : 1) * valueStride : 0;
  auto scratch = [&](int64_t floats) { return b.stackScratch(floats * floatBytes); };
  query = scratch(runRows * queryStride);
  scores = scratch(blockRows() * blockTokens);
  panel = scratch(usesTileUnit ? keyFloats : std::max(keyFloats, valueFloats));
  // What is never needed at once shares its lines, but for the zeros that tiles read behind either.
  valuePanel = usesTileUnit ? scratch(valueFloats) : panel;
  accs = scratch(runRows * valueStride);
  totals = scratch(runRows * valueStride);
  sums = scratch(runRows * vectorLanes);
  rowMax = scratch(runRows);
  factors = scratch(runRows);
  totalMax = scratch(runRows);
  totalSum = scratch(runRows);
  bool ofTokens = spec.positions.kind == PositionSpec::Tokens;
  if (spec.positions.hasBuckets())
    bucketBiases = scratch((ofTokens ? 1 : groupSize) * buckets.stride);
  if (ofTokens)
    tokenTerms = scratch(blockTokens);
  // The softmax of the last rows takes those behind them along, which need not be anything but must have been written.
  fillZeros(scores, blockRows() * blockTokens);
  fillZeros(rowMax, runRows);
  if (ofTokens)
    fillZeros(tokenTerms, blockTokens);
  if (usesTileUnit)
    beginTileUnit();
}

// `floats`: whole vectors.
void AttentionTile::fillZeros(Value base, int64_t floats) {
  b.loop(0, floats, vectorLanes, [&](Value at) { b.store(b.constantI32(0, vectorLanes), b.at(base, at, floatBytes)); });
}

int64_t AttentionTile::rowAlignment() const {
  return std::max<int64_t>(vectorLanes, usesTileUnit ? TileUnit::maxRows : 1);
}

int64_t AttentionTile::scratchRows() const {
  return llvm::alignTo(tileRows, rowAlignment());
}

int64_t AttentionTile::blockRows() const {
  return usesTileUnit ? std::min(2 * TileUnit::maxRows, scratchRows()) : scratchRows();
}

Value AttentionTile::numRows(const TileValues &tile) {
  return b.mul(tile.numTokens, groupSize);
}

std::pair<Value, Value> AttentionTile::visibleKeys(const SequenceValues &sequence, Value firstToken, Value numTokens) {
  Value first = b.add(sequence.past, firstToken);
  Value last = b.add(first, b.sub(numTokens, b.constant(1)));
  Value begin = b.constant(0), end = sequence.length;
  if (spec.window)
    begin = b.max(begin, b.add(first, 1 - spec.window));
  if (spec.chunk) // the first token's begins first
    begin = b.max(begin, b.mul(b.divide(b.max(first, b.constant(0)), spec.chunk), spec.chunk));
  // Queries of tensors may outnumber the keys: the first then stand before all of them.
  if (spec.causal)
    end = spec.isDense ? b.max(b.add(last, 1), b.constant(0)) : b.add(last, 1);
  else if (spec.ahead)
    end = b.min(end, b.max(b.add(last, spec.ahead), b.constant(0)));
  if (spec.given) {
    Value isPlain = b.equal(sequence.seesAhead, b.constant(0));
    end = b.select(isPlain, end, sequence.length);
    begin = b.select(isPlain, begin, b.min(begin, sequence.past));
  }
  return {begin, end};
}

RowPlaces AttentionTile::stepQueries(const TileValues &tile, Value q, Value qStride) {
  Value first = b.mul(b.add(tile.sequence.firstRow, tile.firstToken), qStride);
  Value head = b.mul(tile.firstHead, spec.headDim);
  return {b.at(q, b.add(first, head), floatBytes), b.mul(qStride, floatBytes), b.constant(spec.headDim * floatBytes)};
}

void AttentionTile::loadQueries(const TileValues &tile, const RowPlaces &rows) {
  // With a softcap the score comes out as 2 log2(e) * score / softcap, what the tanh wants.
  double factor = spec.softcap != 0 ? spec.scale * 2 * log2e / spec.softcap : spec.scale * unit;
  b.loop(b.constant(0), tile.numTokens, 1, [&](Value token) {
    Value row = b.at(rows.base, b.mul(token, rows.tokenBytes));
    b.loop(0, groupSize, 1, [&](Value head) {
      Value from = b.at(row, b.mul(head, rows.headBytes));
      Value to = b.at(query, b.add(b.mul(token, groupSize), head), queryStride * floatBytes);
      for (ColumnRun run : columnRuns(spec.headDim, vectorLanes)) {
        Value element = b.loadKv(spec.rows, b.at(from, run.begin * kvBytes(spec.rows)), run.lanes);
        Value scaled = b.mulF(element, b.constantF32(factor, run.lanes));
        b.storeKv(pairs ? KvType::BF16 : KvType::F32, scaled, b.at(to, run.begin * (pairs ? 2 : floatBytes)));
      }
    });
  });
}

void AttentionTile::beginRows(Value rows) {
  b.loop(b.constant(0), rows, 1, [&](Value row) {
    b.store(b.constantF32(emptyMax), b.at(rowMax, row, floatBytes));
    b.store(b.constantF32(0, vectorLanes), b.at(sums, row, vectorLanes * floatBytes));
    Value acc = b.at(accs, row, valueStride * floatBytes);
    for (ColumnRun run : columnRuns(valueStride, vectorLanes))
      b.store(b.constantF32(0, run.lanes), b.at(acc, run.begin * floatBytes));
  });
}

Value AttentionTile::globalKeys(const TileValues &tile, const PageValues &page, Value key) {
  Value index = arith::AddIOp::create(b, splatInt(key), laneIndices(b, vectorLanes));
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, splatInt(page.endKey));
  Value flags = b.loadMasked(b.ints(vectorLanes), b.at(tile.globals, b.add(page.begin, key), sizeof(int32_t)), isThere);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, flags, b.constantI32(0, vectorLanes));
}

Value AttentionTile::hasGlobals(const TileValues &tile, const PageValues &page) {
  Value found;
  for (int64_t key = 0; key < blockTokens; key += vectorLanes) {
    Value keys = globalKeys(tile, page, b.constant(key));
    found = found ? arith::OrIOp::create(b, found, keys) : keys;
  }
  return vector::ReductionOp::create(b, vector::CombiningKind::OR, found);
}

Value AttentionTile::tokensOf(const PageValues &page, int64_t step) {
  return spec.isDense ? b.mul(b.divideUp(page.endKey, step), step) : b.constant(blockTokens);
}

void AttentionTile::forEachRow(const TileValues &tile, llvm::function_ref<void(Value, Value, Value)> body) {
  b.loop(b.constant(0), tile.numTokens, 1, [&](Value token) {
    b.loop(0, groupSize, 1, [&](Value head) { body(token, head, b.add(b.mul(token, groupSize), head)); });
  });
}

void AttentionTile::forEachRowBlock(Value rows, llvm::function_ref<void(const RowBlock &)> body) {
  if (tileRows <= blockRows())
    return body({b.constant(0), rows});
  b.loop(b.constant(0), rows, blockRows(),
         [&](Value first) { body({first, b.min(b.sub(rows, first), b.constant(blockRows()))}); });
}

void AttentionTile::forEachRowOf(const RowBlock &block, llvm::function_ref<void(Value, Value, Value)> body) {
  b.loop(b.constant(0), block.count, 1, [&](Value blockRow) {
    Value row = b.add(block.first, blockRow);
    body(blockRow, b.divide(row, groupSize), b.remainder(row, b.constant(groupSize)));
  });
}

Value AttentionTile::scoresOf(Value blockRow) {
  return b.at(scores, blockRow, blockTokens * floatBytes);
}

void AttentionTile::attendSplit(const TileValues &run, const KeyRange &keys, const ScoreTerms &terms) {
  Value rows = numRows(run); // of each head
  forEachHead(run, [&](const TileValues &) { beginRows(rows); });
  forEachPage(run, keys, [&](const TileValues &tile, const PageValues &page) {
    Panel keysOfPage = keysOf(page), values;
    if (usesTileUnit)
      values = valuesOf({b.constant(0), rows}, page);
    forEachRowBlock(rows, [&](const RowBlock &block) {
      multiplyScores(block, page, keysOfPage);
      finishScores(tile, block, page, terms);
      softmaxRows(block, page);
      if (!usesTileUnit) // its panel was that of the keys
        values = valuesOf(block, page);
      weighValues(block, page, values);
    });
  });
}

void AttentionTile::attendStored(const TileValues &tile, const KeyRange &keys, const ScoreTerms &terms,
                                 const StoredScores &stored) {
  Value rows = numRows(tile);
  auto vectorsOf = [&](Value token, Value head, Value pageBegin) {
    Value stepRow = b.add(b.add(tile.sequence.firstRow, tile.firstToken), token);
    Value scoresRow = b.add(b.mul(stepRow, spec.numHeads), b.add(tile.firstHead, head));
    return b.at(stored.scores, b.add(b.mul(scoresRow, stored.keys), pageBegin), floatBytes);
  };
  beginRows(rows);
  forEachPage(tile, keys, [&](const TileValues &, const PageValues &page) {
    Panel keysOfPage = keysOf(page);
    forEachRowBlock(rows, [&](const RowBlock &block) {
      multiplyScores(block, page, keysOfPage);
      finishScores(tile, block, page, terms);
      forEachRowOf(block, [&](Value blockRow, Value token, Value head) {
        Value rowScores = scoresOf(blockRow), to = vectorsOf(token, head, page.begin);
        Value max = b.at(rowMax, b.add(block.first, blockRow), floatBytes);
        Value laneMax = maxOfScores(page, rowScores, b.loadBroadcast(max, vectorLanes));
        b.storeLane0(b.maxOfLanes(laneMax), max);
        forEachScoreVector(page, laneMax, [&](Value key, Value carried) {
          b.store(b.loadFloats(b.at(rowScores, key, floatBytes), vectorLanes), b.at(to, key, floatBytes));
          return carried;
        });
      });
    });
  });
  forEachPage(tile, keys, [&](const TileValues &, const PageValues &page) {
    Panel values = valuesOf({b.constant(0), rows}, page);
    forEachRowBlock(rows, [&](const RowBlock &block) {
      forEachRowOf(block, [&](Value blockRow, Value token, Value head) {
        Value row = b.add(block.first, blockRow), sum = b.at(sums, row, vectorLanes * floatBytes);
        Value max = b.loadBroadcast(b.at(rowMax, row, floatBytes), vectorLanes);
        Value from = vectorsOf(token, head, page.begin);
        b.store(weighScores(page, max, b.loadFloats(sum, vectorLanes), from, scoresOf(blockRow)), sum);
        b.store(b.constantF32(1), b.at(factors, row, floatBytes));
      });
      weighValues(block, page, values);
    });
  });
}

Value AttentionTile::splatInt(Value index) {
  return b.broadcast(arith::TruncIOp::create(b, b.getI32Type(), index), vectorLanes);
}

Value AttentionTile::isPartlyMasked(const TileValues &tile, const PageValues &page) {
  // The first token sees the fewest keys ahead, the last the fewest behind.
  Value last = b.sub(b.add(tile.firstToken, tile.numTokens), b.constant(1));
  Value end = visibleKeys(tile.sequence, tile.firstToken, b.constant(1)).second;
  Value begin = visibleKeys(tile.sequence, last, b.constant(1)).first;
  Value ahead = b.sub(end, b.add(page.begin, blockTokens)), behind = b.sub(page.begin, begin);
  return b.lessThan(b.min(ahead, behind), b.constant(0));
}

void AttentionTile::finishScores(const TileValues &tile, const RowBlock &block, const PageValues &page,
                                 const ScoreTerms &terms) {
  auto finishRows = [&] {
    forEachRowOf(block, [&](Value blockRow, Value token, Value head) {
      finishRow(tile, token, head, page, terms, scoresOf(blockRow));
    });
  };
  if (spec.softcap != 0 || spec.positions.kind || spec.hasBias)
    finishRows();
  else
    b.ifThen(isPartlyMasked(tile, page), finishRows);
}

void AttentionTile::finishRow(const TileValues &tile, Value token, Value headInGroup, const PageValues &page,
                              const ScoreTerms &terms, Value rowScores) {
  Value tokenIndex = b.add(tile.firstToken, token);
  auto [begin, end] = visibleKeys(tile.sequence, tokenIndex, b.constant(1));
  // Keys [low, high) of the page are visible, none where high is negative.
  Value low = splatInt(b.max(b.sub(begin, page.begin), b.constant(0)));
  Value high = splatInt(b.min(b.sub(end, page.begin), b.constant(blockTokens)));
  // The query's place among the page's keys.
  Value place = b.sub(b.add(tile.sequence.past, tokenIndex), page.begin), position = splatInt(place), slope, biases;
  if (spec.positions.kind == PositionSpec::Buckets)
    biases = bucketsOf(headInGroup, place);
  if (spec.positions.kind == PositionSpec::Tokens)
    sumTokenTerms(tile, tokenIndex, headInGroup, page, terms, place);
  if (spec.positions.kind == PositionSpec::Slopes) {
    Value perHead = b.loadFloat(b.at(terms.slopes, b.add(tile.firstHead, headInGroup), floatBytes));
    slope = b.broadcast(b.mulF(perHead, b.constantF32(unit)), vectorLanes);
  }
  RowBias bias;
  if (spec.hasBias)
    bias = biasOf(terms, token, headInGroup, page.begin);
  forEachScoreVector(page, low, [&](Value key, Value carried) {
    Value pointer = b.at(rowScores, key, floatBytes), score = b.loadFloats(pointer, vectorLanes);
    Value index = arith::AddIOp::create(b, splatInt(key), laneIndices(b, vectorLanes));
    if (spec.softcap != 0)
      score = b.mulF(emitTanhOfExponent(b, score), b.constantF32(spec.softcap * unit, vectorLanes));
    if (spec.positions.kind == PositionSpec::Buckets)
      score = b.addF(score, b.loadFloats(b.at(biases, key, floatBytes), vectorLanes));
    if (spec.positions.kind == PositionSpec::Tokens)
      score = b.addF(score, b.loadFloats(b.at(tokenTerms, key, floatBytes), vectorLanes));
    if (spec.positions.kind == PositionSpec::Slopes) {
      Value distance = arith::SubIOp::create(b, index, position);
      score = b.fma(slope, arith::SIToFPOp::create(b, b.floats(vectorLanes), distance), score);
    }
    Value seen = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, high);
    if (spec.window || spec.chunk)
      seen = arith::AndIOp::create(b, seen, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, index, low));
    if (spec.globals == GlobalTokens::Keys)
      seen = arith::OrIOp::create(b, seen, globalKeys(tile, page, key));
    if (spec.hasBias)
      score = addBias(score, bias, key, seen);
    b.store(b.select(seen, score, b.constantF32(-INFINITY, vectorLanes)), pointer);
    return carried;
  });
}

// Where a bias is the same for all keys, no lane is loaded, and the number is added instead of the zeros that a lane then has.
AttentionTile::RowBias AttentionTile::biasOf(const ScoreTerms &terms, Value token, Value headInGroup, Value pageBegin) {
  const RowPlaces &places = terms.bias;
  Value row = b.at(places.base, b.add(b.mul(token, places.tokenBytes), b.mul(headInGroup, places.headBytes)));
  Value isShared = b.equal(terms.biasKeyBytes, b.constant(0));
  Value shared = b.select(isShared, b.loadFloat(row), b.constantF32(0));
  Value perKey = b.lessThan(b.constant(0), terms.biasKeyBytes);
  return {b.at(row, b.mul(pageBegin, terms.biasKeyBytes)), b.broadcast(shared, vectorLanes),
          b.broadcast(perKey, vectorLanes)};
}

Value AttentionTile::addBias(Value score, const RowBias &bias, Value key, Value seen) {
  Value mask = arith::AndIOp::create(b, seen, bias.perKey);
  score = b.addF(score, b.loadMasked(b.floats(vectorLanes), b.at(bias.keys, key, floatBytes), mask));
  return b.addF(score, bias.shared);
}

Value AttentionTile::emitWeight(Value difference) {
  if (spec.hasBias)
    difference = b.mulF(difference, b.constantF32(log2e, vectorLanes));
  return emitExp2(b, difference);
}

Value AttentionTile::forEachScoreVector(const PageValues &page, Value init,
                                        llvm::function_ref<Value(Value, Value)> body) {
  const int64_t step = registerScores * vectorLanes;
  auto vectorsFrom = [&](Value key, Value carried) {
    for (int64_t vector = 0; vector < registerScores; ++vector)
      carried = body(b.add(key, vector * vectorLanes), carried);
    return carried;
  };
  if (step == blockTokens)
    return vectorsFrom(b.constant(0), init);
  return b.fold(b.constant(0), b.divide(tokensOf(page, step), step), {init},
                [&](Value round, ValueRange carried) -> SmallVector<Value> {
                  return {vectorsFrom(b.mul(round, step), carried[0])};
                })[0];
}

Value AttentionTile::maxOfScores(const PageValues &page, Value rowScores, Value init) {
  return forEachScoreVector(page, init, [&](Value key, Value carried) {
    return b.maxF(b.loadFloats(b.at(rowScores, key, floatBytes), vectorLanes), carried);
  });
}

// As pairs, halves trail the scores that are yet to be read. A whole line is stored at once: what loads it next need not wait for two.
void AttentionTile::storeWeights(ArrayRef<Value> weights, Value rowScores, Value key) {
  bool fillLine = pairs && roundsTwo;
  for (size_t i = 0; i < weights.size(); i += fillLine ? 2 : 1) {
    Value to = b.at(rowScores, b.add(key, i * vectorLanes), pairs ? 2 : floatBytes);
    if (!fillLine)
      b.storeKv(pairs ? KvType::BF16 : KvType::F32, weights[i], to);
    else
      b.store(b.roundTwo(weights[i], weights[i + 1], pairDot), to);
  }
}

Value AttentionTile::weighScores(const PageValues &page, Value max, Value sum, Value from, Value weights) {
  SmallVector<Value> found;
  return forEachScoreVector(page, sum, [&](Value key, Value carried) {
    found.push_back(emitWeight(b.subF(b.loadFloats(b.at(from, key, floatBytes), vectorLanes), max)));
    carried = b.addF(carried, found.back());
    if (found.size() == registerScores) {
      storeWeights(found, weights, b.sub(key, b.constant((registerScores - 1) * vectorLanes)));
      found.clear();
    }
    return carried;
  });
}

// Maxima and factors of as many rows as a vector has lanes are found together: rows behind the last take part, and nobody reads theirs.
void AttentionTile::moveMaxima(const RowBlock &block, const PageValues &page, Value blockRow, int64_t count) {
  // max' = max(max, s); factor = 2^(max - max')
  SmallVector<Value> maxima;
  for (int64_t row = 0; row < count; ++row)
    maxima.push_back(maxOfScores(page, scoresOf(b.add(blockRow, row)), b.constantF32(emptyMax, vectorLanes)));
  Value row = b.add(block.first, blockRow), maxPointer = b.at(rowMax, row, floatBytes);
  Value oldMax = b.loadFloats(maxPointer, vectorLanes), newMax = b.maxF(b.maxOfEach(maxima), oldMax);
  b.store(newMax, maxPointer);
  b.store(emitWeight(b.subF(oldMax, newMax)), b.at(factors, row, floatBytes));
}

void AttentionTile::softmaxRows(const RowBlock &block, const PageValues &page) {
  int64_t few = llvm::bit_ceil(uint64_t(groupSize)); // rows of one token
  Value hasFew = b.lessThan(block.count, b.constant(few + 1));
  if (few < vectorLanes)
    b.ifThen(hasFew, [&] { moveMaxima(block, page, b.constant(0), few); });
  Value rest = few < vectorLanes ? b.select(hasFew, b.constant(0), block.count) : block.count;
  b.loop(b.constant(0), rest, vectorLanes, [&](Value blockRow) { moveMaxima(block, page, blockRow, vectorLanes); });
  // p = 2^(s - max'); sum' = factor * sum + p
  b.loop(b.constant(0), block.count, 1, [&](Value blockRow) {
    Value row = b.add(block.first, blockRow), sumPointer = b.at(sums, row, vectorLanes * floatBytes);
    Value max = b.loadBroadcast(b.at(rowMax, row, floatBytes), vectorLanes);
    Value factor = b.loadBroadcast(b.at(factors, row, floatBytes), vectorLanes);
    Value oldSum = b.mulF(b.loadFloats(sumPointer, vectorLanes), factor);
    b.store(weighScores(page, max, oldSum, scoresOf(blockRow), scoresOf(blockRow)), sumPointer);
    if (usesTileUnit)
      rescaleRow(row);
  });
}

// A maximum seldom moves once a row has seen some keys, and a factor of 1 changes no bit.
void AttentionTile::rescaleRow(Value row) {
  Value factor = b.loadFloat(b.at(factors, row, floatBytes));
  Value moved = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, factor, b.constantF32(1));
  b.ifThen(moved, [&] {
    Value acc = b.at(accs, row, valueStride * floatBytes);
    for (ColumnRun run : columnRuns(valueStride, vectorLanes)) {
      Value to = b.at(acc, run.begin * floatBytes);
      b.store(b.mulF(b.loadFloats(to, run.lanes), b.broadcast(factor, run.lanes)), to);
    }
  });
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
    max = b.mulF(b.loadFloat(b.at(sinks, head, floatBytes)), b.constantF32(unit));
  b.store(max, total.max);
  b.store(b.constantF32(spec.hasSinks ? 1 : 0), total.sum);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes))
    b.store(b.constantF32(0, run.lanes), b.at(total.acc, run.begin * floatBytes));
}

void AttentionTile::mergeInto(RowState total, RowState part) {
  // max' = max(max, part); x = 2^(max - max') x + 2^(part - max') part for the sum and the output alike.
  Value oldMax = b.loadBroadcast(total.max, vectorLanes), partMax = b.loadBroadcast(part.max, vectorLanes);
  Value newMax = b.maxF(partMax, oldMax);
  Value keep = b.lane0(emitWeight(b.subF(oldMax, newMax)));
  Value take = b.lane0(emitWeight(b.subF(partMax, newMax)));
  b.storeLane0(newMax, total.max);
  b.store(b.fma(b.loadFloat(part.sum), take, b.mulF(b.loadFloat(total.sum), keep)), total.sum);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
    Value to = b.at(total.acc, run.begin * floatBytes), from = b.at(part.acc, run.begin * floatBytes);
    Value kept = b.mulF(b.loadFloats(to, run.lanes), b.broadcast(keep, run.lanes));
    b.store(b.fma(b.loadFloats(from, run.lanes), b.broadcast(take, run.lanes), kept), to);
  }
}

void AttentionTile::storeOutput(RowState total, Value out) {
  Value sum = b.loadFloat(total.sum), inverse = b.divF(b.constantF32(1), sum);
  if (spec.isDense)
    inverse = b.select(b.equalF(sum, b.constantF32(0)), b.constantF32(0), inverse);
  for (ColumnRun run : columnRuns(spec.valueDim(), vectorLanes)) {
    Value scaled =
        b.mulF(b.loadFloats(b.at(total.acc, run.begin * floatBytes), run.lanes), b.broadcast(inverse, run.lanes));
    // + 0 turns -0 into 0: the sign of a vanished sum may depend on how many masked keys were added to it.
    b.storeKv(spec.rows, b.addF(scaled, b.constantF32(0, run.lanes)), b.at(out, run.begin * kvBytes(spec.rows)));
  }
}

RowState heddle::splitStateOf(RawBuilder &b, const AttentionSpec &spec, const SplitStates &states, Value stepRow,
                              Value split, Value head) {
  Value index = b.add(b.mul(b.add(b.mul(stepRow, states.maxSplits), split), spec.numHeads), head);
  return {b.at(states.maxima, index, floatBytes), b.at(states.sums, index, floatBytes),
          b.at(states.outputs, index, spec.valueDim() * floatBytes)};
}

Value heddle::outputRow(RawBuilder &b, const AttentionSpec &spec, Value out, Value outStride, Value row, Value head) {
  return b.at(out, b.add(b.mul(row, outStride), b.mul(head, spec.valueDim())), floatBytes);
}
