// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/OnlineAttention.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/GpuMath.h"
#include "compiler/codegen/targets/cuda/SharedTile.h"
#include "compiler/codegen/targets/cuda/SoftmaxStates.h"
#include "runtime/model/ModelAbi.h"

#include "llvm/Support/MathExtras.h"

#include <cstddef>
#include <limits>

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
// Columns of scores that one mma gives, and keys that one consumes.
static constexpr int64_t scoreTiles = pageTokens / 8, keySteps = pageTokens / 16;

// Query rows of a warp: those of a product.
static constexpr int64_t warpRows = 16;

int64_t heddle::gpuAttentionThreads(const AttentionSpec &spec) {
  return spec.tileRows / warpRows * warpSize;
}

AttentionSpec heddle::narrowed(AttentionSpec spec) {
  spec.tileRows = warpRows;
  return spec;
}

// Of a row of keys or values in shared memory.
static int64_t paddedColumns(const AttentionSpec &spec) {
  return llvm::PowerOf2Ceil(llvm::alignTo(spec.headDim, 16));
}

LogicalResult heddle::verifyGpuAttention(const AttentionSpec &spec, std::string &error) {
  auto fail = [&](const Twine &message) {
    error = message.str();
    return failure();
  };
  if (spec.numKvHeads < 1 || spec.numHeads < 1 || spec.numHeads % spec.numKvHeads)
    return fail("num_heads (" + Twine(spec.numHeads) + ") must be a positive multiple of num_kv_heads (" +
                Twine(spec.numKvHeads) + ")");
  if (spec.headDim < 8 || spec.headDim > 128 || spec.headDim % 8)
    return fail("head_dim (" + Twine(spec.headDim) + ") must be a multiple of 8 up to 128");
  if (spec.kv != KvType::BF16 || !spec.causal || spec.valueDim() != spec.headDim || spec.valuesInKeys)
    return fail("attention on tensor cores is causal and reads keys and values of one head_dim from a bf16 cache");
  if (spec.positions.kind)
    return fail("attention on tensor cores has no positions");
  if (spec.chunk)
    return fail("attention on tensor cores has no chunks");
  if (spec.splitKv < 1 || spec.splitKv % pageTokens)
    return fail("splits of " + Twine(spec.splitKv) + " keys must be whole pages of " + Twine(pageTokens));
  // A pass of the threads copies no more rows than a page has (planCopies).
  if (!llvm::isPowerOf2_64(spec.tileRows) || spec.tileRows < warpRows ||
      gpuAttentionThreads(spec) * chunkElements / paddedColumns(spec) > pageTokens)
    return fail("tile_rows (" + Twine(spec.tileRows) + ") must be a power of two that fits head_dim (" +
                Twine(spec.headDim) + ")");
  return success();
}

namespace {

// Registers of a thread: rows lane / 4 and lane / 4 + 8 of the warp's 16, called halves 0 and 1.
class AttentionEmitter {
public:
  AttentionEmitter(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec, bool isSplit)
      : spec(spec), isSplit(isSplit), paddedDim(llvm::alignTo(spec.headDim, 16)),
        slots(std::clamp<int64_t>(staticSharedBytes / planeBytes(), 2, 4)),
        b(module, name, parameters(module.getContext()), gpuAttentionThreads(spec), slots * planeBytes()),
        tile(b, pageTokens, paddedDim, 0) {}
  gpu::GPUFuncOp emit();

private:
  // What a page has of the KV head.
  enum Plane : uint8_t { Keys, Values };
  using Scores = SmallVector<Value>; // [key / 8]: Accumulators
  struct Softmax {
    Value max[2], sum[2]; // of a row; the sum is that of this thread's keys
  };
  struct Pages {
    Value begin, end;
  };

  SmallVector<Type> parameters(MLIRContext *context) const {
    SmallVector<Type> types(6, GpuBuilder::globalPointer(context));
    types.append(5, IntegerType::get(context, 64));
    types.push_back(IntegerType::get(context, 32));
    types.append(isSplit ? 2 : spec.hasSinks ? 1 : 0, types.front());
    return types;
  }
  int64_t planeBytes() const { return pageTokens * paddedColumns(spec) * 2; }
  int64_t rowsPerPass() const { return gpuAttentionThreads(spec) * chunkElements / paddedColumns(spec); }
  int64_t dimSteps() const { return paddedDim / 16; }
  int64_t outTiles() const { return spec.headDim / 8; }
  int64_t pagesOfSplit() const { return spec.splitKv / pageTokens; }

  void setUp();
  void locateRows();
  void planCopies();
  void loadQueries();
  void copyPlane(Plane plane, Value page, Value slot);
  void copyAhead(Value page, int64_t planes, Value slot);
  void beginCopies();
  void takePlane(Plane plane, Value page, Value slot);
  Value nextSlot(Value slot);
  Value laneAddress(Value lane, int64_t step, int64_t row, Value slot);
  Pages visiblePages();
  Pages pagesOf(Value split);
  void walkSplits();
  SmallVector<Value> walkPages(Pages pages, Value slot);
  Scores computeScores(Value slot);
  void finishScores(Scores &scores, Value page);
  Scores masked(ArrayRef<Value> scores, Value page);
  SmallVector<FragmentA> weigh(ArrayRef<Value> scores, Softmax &softmax, Value (&shrink)[2]);
  void addValues(ArrayRef<FragmentA> weights, const Value (&shrink)[2], SmallVectorImpl<Value> &out, Value slot);
  SoftmaxState stateOf(ValueRange carried, int64_t half);
  void addSplit(int64_t half, const MergedState &merged, ValueRange carried, Value isBehindOthers, Value isLast);
  void storeState(ValueRange carried);
  Value rowMax(Value value);
  Value rowSum(Value value);

  const AttentionSpec &spec;
  bool isSplit;
  int64_t paddedDim; // columns of Q and K that are multiplied; those from head_dim on are 0
  int64_t slots;     // planes that have room in shared memory
  GpuBuilder b;
  SharedTile tile; // of a slot
  Pages seen;      // by rows of the block, and of a split alone its own
  Value sequence, firstRow, numRows, tileBegin, split, firstHead, lane, warp, pairColumn;
  Value firstPosition, lastPosition; // of the block's query tokens
  Value rows[2], positions[2];       // of this thread
  Value stepRows[2], heads[2];       // likewise
  Value queryAt[2], outAt[2];        // first column of the row; whole attention's
  SmallVector<FragmentA> queries;    // [head_dim / 16]
  Value planes[2]; // first page's of the KV head, by Plane
  Value copyRow, copyBytes, copyFrom;
  SmallVector<Value> copyTo; // of a pass, then again of that 8 rows behind
  Value keyLane, valueLane;  // the lane's offset for ldmatrix in the first 16 columns
};

} // namespace

gpu::GPUFuncOp AttentionEmitter::emit() {
  b.setBlocksPerProcessor(2);
  setUp();
  // The grid is that of the longest sequence.
  b.ifThen(b.lessThan(tileBegin, numRows), [&] {
    locateRows();
    seen = visiblePages();
    auto walk = [&] {
      planCopies();
      beginCopies();
      loadQueries();
      if (isSplit)
        storeState(ValueRange(walkPages(seen, b.constant(0))).drop_back());
      else
        walkSplits();
    };
    if (!isSplit)
      return walk();
    // A split that no row of the tile sees has no state.
    seen = pagesOf(split);
    b.ifThen(b.lessThan(seen.begin, seen.end), walk);
  });
  return b.finish();
}

void AttentionEmitter::setUp() {
  Value thread = b.threadIndex();
  lane = b.remainder(thread, warpSize), warp = b.divide(thread, warpSize);
  pairColumn = b.mul(b.remainder(lane, 4), 2);
  sequence = b.blockIndex(2);
  Value entry = b.at(b.argument(4), sequence, 8);
  firstRow = b.load(b.getI32Type(), entry);
  numRows = b.mul(b.load(b.getI32Type(), b.at(entry, b.constant(1), 4)), spec.headsOfTile());
  int64_t headBlocks = spec.numHeads / spec.headsOfTile();
  Value tile = isSplit ? b.divide(b.blockIndex(1), headBlocks) : b.blockIndex(0);
  Value headBlock = isSplit ? b.remainder(b.blockIndex(1), headBlocks) : b.blockIndex(1);
  split = b.blockIndex(0); // of a split kernel
  tileBegin = b.mul(tile, spec.tileRows);
  firstHead = b.mul(headBlock, spec.headsOfTile());
}

// Rows behind the last one compute what the last one does, and are not stored.
void AttentionEmitter::locateRows() {
  Value last = b.sub(numRows, b.constant(1)), past = b.load(b.getI32Type(), b.at(b.argument(5), firstRow, 4));
  auto tokenOf = [&](Value row) { return b.divide(b.min(row, last), spec.headsOfTile()); };
  firstPosition = b.add(past, tokenOf(tileBegin));
  lastPosition = b.add(past, tokenOf(b.add(tileBegin, spec.tileRows - 1)));
  for (int64_t half = 0; half < 2; ++half) {
    rows[half] = b.add(b.add(tileBegin, b.mul(warp, 16)), b.add(b.divide(lane, 4), 8 * half));
    Value token = tokenOf(rows[half]);
    heads[half] = b.add(firstHead, b.remainder(b.min(rows[half], last), spec.headsOfTile()));
    positions[half] = b.add(past, token);
    stepRows[half] = b.add(firstRow, token);
    Value column = b.add(b.mul(heads[half], spec.headDim), pairColumn), row = b.wide(stepRows[half]);
    queryAt[half] = b.at(b.at(b.argument(0), b.mul(row, b.argument(9)), 4), column, 4);
    if (!isSplit)
      outAt[half] = b.at(b.at(b.argument(1), b.mul(row, b.argument(10)), 4), column, 4);
  }
}

// A thread copies one chunk column of a page, every rowsPerPass-th row of it.
void AttentionEmitter::planCopies() {
  Value kvHead = b.divide(firstHead, spec.group());
  for (unsigned plane : {Keys, Values})
    planes[plane] =
        b.at(b.at(b.argument(2), b.argument(6 + plane), 1), kvHead, pageTokens * spec.headDim * 2);
  int64_t chunks = tile.chunksPerRow();
  copyRow = b.divide(b.threadIndex(), chunks);
  Value chunk = b.remainder(b.threadIndex(), chunks);
  for (int64_t row = 0; row == 0 || row < SharedTile::swizzleRows; row += rowsPerPass())
    copyTo.push_back(tile.offsetOf(b.add(copyRow, row), chunk));
  copyFrom = b.add(b.mul(copyRow, spec.headDim * 2), b.mul(chunk, chunkBytes));
  copyBytes =
      b.select(b.lessThan(chunk, b.constant(spec.headDim / chunkElements)), b.constant(chunkBytes), b.constant(0));
  keyLane = tile.laneOffset(lane, 0, SharedTile::Order::ByChunks);
  valueLane = tile.laneOffset(lane, 0, SharedTile::Order::ByRows);
}

// Of columns 16 step and on, `row` rows, a multiple of 8, behind the lane's: the swizzle changes bits of chunks alone.
Value AttentionEmitter::laneAddress(Value lane, int64_t step, int64_t row, Value slot) {
  Value place = b.bitXor(lane, b.constant(step * 2 * chunkBytes));
  return tile.address(b.add(place, row * tile.rowBytes()), slot);
}

void AttentionEmitter::loadQueries() {
  auto pairType = VectorType::get({2}, b.getF32Type());
  for (int64_t step = 0; step < dimSteps(); ++step) {
    FragmentA fragment;
    for (int64_t i = 0; i < 4; ++i) {
      int64_t half = i % 2, column = 16 * step + 8 * (i / 2);
      if (column >= spec.headDim) {
        fragment[i] = b.constant(0);
        continue;
      }
      Value pair = b.load(pairType, b.at(queryAt[half], b.constant(column), 4));
      fragment[i] = b.packBf16(b.element(pair, 0), b.element(pair, 1));
    }
    queries.push_back(fragment);
  }
}

// What no query of the block sees becomes 0: weights of 0 meet no NaN.
void AttentionEmitter::copyPlane(Plane plane, Value page, Value slot) {
  Value table = b.at(b.argument(3), b.mul(b.wide(sequence), b.wide(b.argument(11))), 4);
  Value index = b.load(b.getI32Type(), b.at(table, page, 4));
  Value from = b.at(b.at(planes[plane], b.mul(b.wide(index), b.argument(8)), 1), copyFrom, 1);
  Value tokens = b.sub(b.add(lastPosition, 1), b.mul(page, pageTokens));
  for (int64_t pass = 0; pass < pageTokens / rowsPerPass(); ++pass) {
    int64_t row = pass * rowsPerPass(), known = pass % int64_t(copyTo.size());
    Value bytes = b.select(b.lessThan(b.add(copyRow, row), tokens), copyBytes, b.constant(0));
    Value to = b.add(copyTo[known], (row - known * rowsPerPass()) * tile.rowBytes());
    b.copyAsync(tile.address(to, slot), b.at(from, b.constant(row * spec.headDim * 2), 1), bytes);
  }
}

// So many planes behind the keys of `page`, where there is such a page.
void AttentionEmitter::copyAhead(Value page, int64_t planes, Value slot) {
  Value of = b.add(page, planes / 2);
  b.ifThen(b.lessThan(of, seen.end), [&] { copyPlane(Plane(planes % 2), of, slot); });
  b.commitCopies();
}

void AttentionEmitter::beginCopies() {
  for (int64_t i = 0; i < slots - 1; ++i)
    copyAhead(seen.begin, i, b.constant(i * planeBytes()));
}

// Returns once the plane is in its slot. The slot before it is free then: everyone has done with what it held.
void AttentionEmitter::takePlane(Plane plane, Value page, Value slot) {
  b.waitCopies(slots - 2);
  b.barrier();
  Value first = b.equal(slot, b.constant(0));
  copyAhead(page, plane + slots - 1,
            b.select(first, b.constant((slots - 1) * planeBytes()), b.sub(slot, b.constant(planeBytes()))));
}

Value AttentionEmitter::nextSlot(Value slot) {
  Value next = b.add(slot, planeBytes());
  return b.select(b.equal(next, b.constant(slots * planeBytes())), b.constant(0), next);
}

AttentionEmitter::Pages AttentionEmitter::visiblePages() {
  Value begin = b.constant(0), end = b.add(b.divide(lastPosition, pageTokens), 1);
  if (spec.window)
    begin = b.divide(b.max(b.sub(firstPosition, b.constant(spec.window - 1)), b.constant(0)), pageTokens);
  return {begin, end};
}

AttentionEmitter::Pages AttentionEmitter::pagesOf(Value split) {
  Value first = b.mul(split, pagesOfSplit());
  return {b.max(seen.begin, first), b.min(seen.end, b.add(first, pagesOfSplit()))};
}

// Whole attention merges the same splits in the same order as combine_splits. What was added up lies in `out` meanwhile: registers hold
// one split's.
void AttentionEmitter::walkSplits() {
  Value first = b.divide(seen.begin, pagesOfSplit()), end = b.divideUp(seen.end, pagesOfSplit());
  SmallVector<Value> totals;
  for (Value head : heads) {
    SoftmaxState begun = beginState(b, spec, spec.hasSinks ? b.argument(12) : Value(), head);
    totals.append({begun.max, begun.sum});
  }
  totals.push_back(b.constant(0));
  b.fold(first, end, totals, [&](Value split, ValueRange before) {
    SmallVector<Value> carried = walkPages(pagesOf(split), before.back()), next;
    Value slot = carried.pop_back_val();
    for (int64_t half = 0; half < 2; ++half) {
      MergedState merged = mergeStates(b, {before[2 * half], before[2 * half + 1]}, stateOf(carried, half));
      addSplit(half, merged, carried, b.lessThan(first, split), b.equal(b.add(split, 1), end));
      next.append({merged.state.max, merged.state.sum});
    }
    next.push_back(slot);
    return next;
  });
}

// Keys and values of a page in turn, from `slot` on, in a ring of slots: all but one of them are on their way or there. Behind the outputs, maxima and sums that it returns
// lies the slot of the page behind.
SmallVector<Value> AttentionEmitter::walkPages(Pages pages, Value slot) {
  SmallVector<Value> carried(4 * outTiles(), b.constantF32(0));
  carried.append({b.constantF32(lowestScore), b.constantF32(lowestScore), b.constantF32(0), b.constantF32(0), slot});
  return b.fold(pages.begin, pages.end, carried, [&](Value page, ValueRange state) {
    Value keys = state.back();
    state = state.drop_back();
    SmallVector<Value> out(state.drop_back(4));
    ValueRange rest = state.take_back(4);
    Softmax softmax = {{rest[0], rest[1]}, {rest[2], rest[3]}};
    takePlane(Keys, page, keys);
    Scores scores = computeScores(keys);
    finishScores(scores, page);
    Value shrink[2];
    SmallVector<FragmentA> weights = weigh(scores, softmax, shrink);
    Value values = nextSlot(keys);
    takePlane(Values, page, values);
    addValues(weights, shrink, out, values);
    out.append({softmax.max[0], softmax.max[1], softmax.sum[0], softmax.sum[1], nextSlot(values)});
    return out;
  });
}

// S = Q @ K^T
AttentionEmitter::Scores AttentionEmitter::computeScores(Value slot) {
  Scores scores(4 * scoreTiles, b.constantF32(0));
  for (int64_t step = 0; step < dimSteps(); ++step)
    for (int64_t pair = 0; pair < scoreTiles / 2; ++pair) {
      FragmentA keys = b.loadMatrices(laneAddress(keyLane, step, 16 * pair, slot), /*transposed=*/false);
      for (int64_t i = 0; i < 2; ++i) {
        Value *at = &scores[4 * (2 * pair + i)];
        Accumulators sum = b.multiply(queries[step], {keys[2 * i], keys[2 * i + 1]}, {at[0], at[1], at[2], at[3]});
        std::copy(sum.begin(), sum.end(), at);
      }
    }
  return scores;
}

// Scaled and capped, in base 2, and masked: only pages at the edge of what is seen have something to mask.
void AttentionEmitter::finishScores(Scores &scores, Value page) {
  for (Value &score : scores) {
    if (spec.softcap == 0) {
      score = b.mulF(score, b.constantF32(spec.scale * llvm::numbers::log2e));
      continue;
    }
    Value capped = emitTanh(b, b.mulF(score, b.constantF32(spec.scale / spec.softcap)));
    score = b.mulF(capped, b.constantF32(spec.softcap * llvm::numbers::log2e));
  }
  Value begin = b.mul(page, pageTokens);
  Value isEdge = b.lessThan(firstPosition, b.add(begin, pageTokens - 1));
  if (spec.window)
    isEdge = b.bitOr(isEdge, b.lessThan(begin, b.sub(lastPosition, b.constant(spec.window - 1))));
  scores = b.ifElse(isEdge, scores, [&] { return masked(scores, page); });
}

AttentionEmitter::Scores AttentionEmitter::masked(ArrayRef<Value> scores, Value page) {
  Scores result(scores);
  Value hidden = b.constantF32(-std::numeric_limits<double>::infinity());
  for (int64_t half = 0; half < 2; ++half) {
    // Key `offset` of the page's, counted from this thread's first one, is seen up to `last`.
    Value last = b.sub(positions[half], b.add(b.mul(page, pageTokens), pairColumn));
    for (int64_t i = 0; i < 2 * scoreTiles; ++i) {
      Value offset = b.constant(8 * (i / 2) + i % 2), isHidden = b.lessThan(last, offset);
      if (spec.window)
        isHidden = b.bitOr(isHidden, b.lessThan(offset, b.sub(last, b.constant(spec.window - 1))));
      Value &score = result[4 * (i / 2) + 2 * half + i % 2];
      score = b.select(isHidden, hidden, score);
    }
  }
  return result;
}

// Of the four lanes that hold a row.
Value AttentionEmitter::rowMax(Value value) {
  for (int64_t mask : {1, 2})
    value = b.maxF(value, b.shuffleXor(value, mask));
  return value;
}
Value AttentionEmitter::rowSum(Value value) {
  for (int64_t mask : {1, 2})
    value = b.addF(value, b.shuffleXor(value, mask));
  return value;
}

// P = 2^(S - max), in the registers of a left operand; `shrink` takes earlier sums to the new maximum.
SmallVector<FragmentA> AttentionEmitter::weigh(ArrayRef<Value> scores, Softmax &softmax, Value (&shrink)[2]) {
  SmallVector<Value> weights(scores);
  for (int64_t half = 0; half < 2; ++half) {
    auto at = [&](int64_t i) -> Value & { return weights[4 * (i / 2) + 2 * half + i % 2]; };
    Value largest = at(0);
    for (int64_t i = 1; i < 2 * scoreTiles; ++i)
      largest = b.maxF(largest, at(i));
    Value max = b.maxF(softmax.max[half], rowMax(largest));
    shrink[half] = b.exp2(b.subF(softmax.max[half], max));
    softmax.max[half] = max;
    softmax.sum[half] = b.mulF(softmax.sum[half], shrink[half]);
    for (int64_t i = 0; i < 2 * scoreTiles; ++i) {
      at(i) = b.exp2(b.subF(at(i), max));
      softmax.sum[half] = b.addF(softmax.sum[half], at(i));
    }
  }
  // Two neighbouring tiles of 8 keys are 16 columns of the left operand.
  SmallVector<FragmentA> fragments(keySteps);
  for (int64_t step = 0; step < keySteps; ++step)
    for (int64_t i = 0; i < 4; ++i)
      fragments[step][i] = b.packBf16(weights[8 * step + 2 * i], weights[8 * step + 2 * i + 1]);
  return fragments;
}

// O = shrink O + P @ V
void AttentionEmitter::addValues(ArrayRef<FragmentA> weights, const Value (&shrink)[2], SmallVectorImpl<Value> &out,
                                 Value slot) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = b.mulF(out[i], shrink[i % 4 / 2]);
  for (int64_t step = 0; step < keySteps; ++step)
    for (int64_t pair = 0; pair < dimSteps(); ++pair) {
      FragmentA values = b.loadMatrices(laneAddress(valueLane, pair, 16 * step, slot), /*transposed=*/true);
      for (int64_t i = 0; i < 2 && 2 * pair + i < outTiles(); ++i) {
        Value *at = &out[4 * (2 * pair + i)];
        Accumulators sum = b.multiply(weights[step], {values[2 * i], values[2 * i + 1]}, {at[0], at[1], at[2], at[3]});
        std::copy(sum.begin(), sum.end(), at);
      }
    }
}

SoftmaxState AttentionEmitter::stateOf(ValueRange carried, int64_t half) {
  ValueRange rest = carried.take_back(4);
  return {rest[half], rowSum(rest[2 + half])};
}

// out = keep out + take O, behind the last split divided by the sum of weights.
void AttentionEmitter::addSplit(int64_t half, const MergedState &merged, ValueRange carried, Value isBehindOthers,
                                Value isLast) {
  auto pairType = VectorType::get({2}, b.getF32Type());
  Value one = b.constantF32(1), factor = b.select(isLast, b.divF(one, merged.state.sum), one);
  auto at = [&](int64_t tile) { return b.at(outAt[half], b.constant(8 * tile), 4); };
  b.ifThen(b.lessThan(rows[half], numRows), [&] {
    SmallVector<Value> total(2 * outTiles(), b.constantF32(0));
    total = b.ifElse(isBehindOthers, total, [&] {
      SmallVector<Value> loaded;
      for (int64_t tile = 0; tile < outTiles(); ++tile) {
        Value pair = b.load(pairType, at(tile));
        loaded.append({b.element(pair, 0), b.element(pair, 1)});
      }
      return loaded;
    });
    for (int64_t tile = 0; tile < outTiles(); ++tile) {
      Value low = merged.value(b, total[2 * tile], carried[4 * tile + 2 * half]);
      Value high = merged.value(b, total[2 * tile + 1], carried[4 * tile + 2 * half + 1]);
      b.store(b.vector({b.mulF(low, factor), b.mulF(high, factor)}), at(tile));
    }
  });
}

// Outputs, maximum and sum of a split, (rows, maxSplits, heads) each.
void AttentionEmitter::storeState(ValueRange carried) {
  for (int64_t half = 0; half < 2; ++half) {
    SoftmaxState state = stateOf(carried, half);
    Value slot = b.add(b.mul(b.wide(stepRows[half]), b.argument(10)), b.wide(split));
    b.ifThen(b.lessThan(rows[half], numRows), [&] {
      auto ofHead = [&](unsigned argument, int64_t bytes) {
        return b.at(b.at(b.argument(argument), slot, spec.numHeads * bytes), heads[half], bytes);
      };
      Value outputs = b.at(ofHead(1, spec.headDim * 4), pairColumn, 4);
      for (int64_t tile = 0; tile < outTiles(); ++tile)
        b.store(b.vector({carried[4 * tile + 2 * half], carried[4 * tile + 2 * half + 1]}),
                b.at(outputs, b.constant(8 * tile), 4));
      b.ifThen(b.equal(pairColumn, b.constant(0)), [&] {
        b.store(state.max, ofHead(12, 4));
        b.store(state.sum, ofHead(13, 4));
      });
    });
  }
}

gpu::GPUFuncOp heddle::buildGpuAttention(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return AttentionEmitter(module, name, spec, /*isSplit=*/false).emit();
}

gpu::GPUFuncOp heddle::buildGpuAttentionSplit(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return AttentionEmitter(module, name, spec, /*isSplit=*/true).emit();
}

//===- host code ----------------------------------------------------------===//

// What whole attention and a split of it are called with alike, but for what they write.
template <typename Call> static void addOperands(LaunchBuilder &l, const Call &call, Value out, Value outStride) {
  l.add(call.q);
  l.add(out);
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, sequence_rows), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  l.add(call.kOffset);
  l.add(call.vOffset);
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(call.qStride);
  l.add(outStride);
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
}

// The grid has blocks for the sequence with the most rows, and for the longest: (query rows of the first, length of the other).
template <typename Call>
static std::pair<Value, Value> largestOf(RawBuilder &b, const Call &call, const AttentionSpec &spec) {
  SmallVector<Value> largest =
      b.fold(b.constant(0), call.numSequences, {b.constant(1), b.constant(0)}, [&](Value index, ValueRange carried) {
        SequenceValues sequence = loadSequence(b, call.sequences, index);
        return SmallVector<Value>{b.max(carried[0], sequence.numRows), b.max(carried[1], sequence.length)};
      });
  return {b.mul(largest[0], spec.headsOfTile()), largest[1]};
}

static func::FuncOp launchAttention(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                    const AttentionSpec &spec) {
  std::string kernel = (name + "_gpu").str();
  buildGpuAttention(gpu.kernels, kernel, spec);
  HostKernelOf<AttentionCall, LaunchBuilder> l(loc, code, name);
  const AttentionCall &call = l.call;
  RawBuilder &b = l.builder();
  addOperands(l, call, call.out, call.outStride);
  if (spec.hasSinks)
    l.add(call.sinks);
  Value tiles = b.divideUp(largestOf(b, call, spec).first, spec.tileRows);
  l.launch(l.entry(kernel), {tiles, b.constant(spec.numHeads / spec.headsOfTile()), call.numSequences},
           b.constant(gpuAttentionThreads(spec)));
  return l.finish();
}

static func::FuncOp launchSplits(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                 const AttentionSpec &spec) {
  AttentionSpec few = narrowed(spec);
  std::string kernel = (name + "_gpu").str(), ofFew = (name + "_few_gpu").str();
  buildGpuAttentionSplit(gpu.kernels, kernel, spec);
  buildGpuAttentionSplit(gpu.kernels, ofFew, few);
  HostKernelOf<AttentionSplitCall, LaunchBuilder> l(loc, code, name);
  const AttentionSplitCall &call = l.call;
  RawBuilder &b = l.builder();
  addOperands(l, call, call.outputs, call.maxSplits);
  l.add(call.maxima);
  l.add(call.sums);
  auto [rows, length] = largestOf(b, call, spec);
  Value isFew = b.lessThan(rows, b.constant(few.tileRows + 1));
  Value tiles = b.select(isFew, b.constant(1), b.divideUp(rows, spec.tileRows));
  l.launch(b.select(isFew, l.entry(ofFew), l.entry(kernel)),
           {b.divideUp(length, spec.splitKv), b.mul(tiles, spec.numHeads / spec.headsOfTile()), call.numSequences},
           b.select(isFew, b.constant(gpuAttentionThreads(few)), b.constant(gpuAttentionThreads(spec))));
  return l.finish();
}

namespace {

class OnlineAttention : public KernelEmitterOf<OnlineAttentionOp> {
public:
  OnlineAttention(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable)
      : gpu(gpu), portable(std::move(portable)) {}

  // Only what tensor cores take is split (hasSplits of compiler/schedule/ScheduleTable.h).
  bool canEmit(Operation *op, std::string &missing) const override {
    auto attention = dyn_cast<OnlineAttentionOp>(op);
    return (attention && attention.getSplitKv()) || portable->canEmit(op, missing);
  }

protected:
  FailureOr<std::string> nameOf(OnlineAttentionOp op) const override {
    // What only the portable kernel takes, that one names.
    return op.getPositions() || op.getCache().getType().getCross() ? portable->signature(op) : signatureOf(op);
  }
  FailureOr<Kernels> build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    if (std::string reason; failed(verifyGpuAttention(spec, reason))) {
      if (op.getSplitKv())
        return op.emitError(reason);
      if (!module.code.lookupSymbol(name))
        op.emitRemark("'") << name << "' is a kernel of any device: " << reason;
      return portable->emit(op, schedule, name, module);
    }
    auto launch = op.getSplitKv() ? launchSplits : launchAttention;
    return oneKernel(module.once(name, [&] { return launch(op.getLoc(), module.code, *gpu, name, spec); }));
  }

private:
  std::optional<GpuKernels> &gpu;
  std::unique_ptr<KernelEmitter> portable;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::onlineAttention(std::optional<GpuKernels> &gpu,
                                                             std::unique_ptr<KernelEmitter> portable) {
  return std::make_unique<OnlineAttention>(gpu, std::move(portable));
}
