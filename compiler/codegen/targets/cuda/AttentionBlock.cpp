// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/AttentionBlock.h"

#include "compiler/codegen/targets/cuda/GpuMath.h"
#include "runtime/model/ModelAbi.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

AttentionBlock::AttentionBlock(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec, Form form,
                               int64_t sharedPlanes)
    : spec(spec), form(form), b(module, name, parameters(module.getContext(), spec, form), gpuAttentionThreads(spec),
                                sharedPlanes * planeBytes()),
      section(b, pageTokens, sectionColumns(), 0) {}

// Behind those of both forms: states of a split, or sinks.
static unsigned ownArguments(const AttentionSpec &spec, bool isSplit) {
  return isSplit ? 2 : spec.hasSinks ? 1 : 0;
}

SmallVector<Type> AttentionBlock::parameters(MLIRContext *context, const AttentionSpec &spec, Form form) {
  SmallVector<Type> types(6, GpuBuilder::globalPointer(context));
  types.append(5, IntegerType::get(context, 64));
  types.push_back(IntegerType::get(context, 32));
  types.append(ownArguments(spec, form == Form::Split) + (spec.given ? 1 : 0), types.front());
  return types;
}

int64_t heddle::paddedColumns(const AttentionSpec &spec) {
  return llvm::PowerOf2Ceil(llvm::alignTo(spec.headDim, 16));
}

int64_t AttentionBlock::planeBytes(const AttentionSpec &spec) {
  return pageTokens * paddedColumns(spec) * 2;
}

int64_t AttentionBlock::sectionBytes() const {
  return pageTokens * sectionColumns() * 2;
}

int64_t AttentionBlock::pagesOfSplit() const {
  return spec.splitKv / pageTokens;
}

int64_t AttentionBlock::rowsPerPass() const {
  return gpuAttentionThreads(spec) * chunkElements / paddedColumns(spec);
}

gpu::GPUFuncOp AttentionBlock::emitWith(llvm::function_ref<void()> walk) {
  setUp();
  b.ifThen(exists, [&] {
    locateRows();
    planCopies();
    seen = visiblePages();
    if (form == Form::Whole)
      return walk();
    // A split that no row of the tile sees has no state.
    seen = pagesOf(split);
    b.ifThen(b.lessThan(seen.begin, seen.end), walk);
  });
  return b.finish();
}

void AttentionBlock::setUp() {
  Value thread = b.threadIndex();
  lane = b.remainder(thread, warpSize), warp = b.divide(thread, warpSize);
  pairColumn = b.mul(b.remainder(lane, 4), 2);
  sequence = b.blockIndex(2);
  Value entry = b.at(b.argument(4), sequence, 8);
  firstRow = b.load(b.getI32Type(), entry);
  numRows = b.mul(b.load(b.getI32Type(), b.at(entry, b.constant(1), 4)), spec.headsOfTile());
  int64_t headBlocks = spec.numHeads / spec.headsOfTile();
  // The grid is that of the sequence with the most rows.
  if (form == Form::Split) {
    split = b.blockIndex(0);
    tileBegin = b.mul(b.divide(b.blockIndex(1), headBlocks), spec.tileRows);
    exists = b.lessThan(tileBegin, numRows);
  } else {
    // Tiles that see the most keys begin first, so that none of them is left at the end.
    Value before = b.mul(b.blockIndex(0), spec.tileRows);
    tileBegin = b.sub(b.mul(b.divideUp(numRows, spec.tileRows), spec.tileRows), b.add(before, spec.tileRows));
    exists = b.lessThan(before, numRows);
  }
  Value headBlock = form == Form::Split ? b.remainder(b.blockIndex(1), headBlocks) : b.blockIndex(1);
  firstHead = b.mul(headBlock, spec.headsOfTile());
}

// Rows behind the last one compute what the last one does, and are not stored.
void AttentionBlock::locateRows() {
  Value last = b.sub(numRows, b.constant(1));
  past = b.load(b.getI32Type(), b.at(b.argument(5), firstRow, 4));
  auto tokenOf = [&](Value row) { return b.divide(b.min(row, last), spec.headsOfTile()); };
  firstPosition = b.add(past, tokenOf(tileBegin));
  lastPosition = b.add(past, tokenOf(b.add(tileBegin, spec.tileRows - 1)));
  if (spec.given) {
    Value flag = b.at(b.argument(12 + ownArguments(spec, form == Form::Split)), sequence, 4);
    seesAhead = b.lessThan(b.constant(0), b.load(b.getI32Type(), flag));
    lastOfSequence = b.add(past, tokenOf(last));
  }
  lastSeen = lastSeenFrom(lastPosition);
  for (int64_t half = 0; half < 2; ++half) {
    rows[half] = b.add(b.add(tileBegin, b.mul(warp, warpRows)), b.add(b.divide(lane, 4), 8 * half));
    Value token = tokenOf(rows[half]);
    heads[half] = b.add(firstHead, b.remainder(b.min(rows[half], last), spec.headsOfTile()));
    positions[half] = b.add(past, token);
    stepRows[half] = b.add(firstRow, token);
    Value column = b.add(b.mul(heads[half], spec.headDim), pairColumn), row = b.wide(stepRows[half]);
    queryAt[half] = b.at(b.at(b.argument(0), b.mul(row, b.argument(9)), 4), column, 4);
    if (form == Form::Whole)
      outAt[half] = b.at(b.at(b.argument(1), b.mul(row, b.argument(10)), 4), column, 4);
  }
}

Value AttentionBlock::lastSeenFrom(Value position) {
  return spec.given ? b.select(seesAhead, lastOfSequence, position) : position;
}

Value AttentionBlock::firstSeenFrom(Value position) {
  Value first = b.sub(position, b.constant(spec.window - 1));
  return spec.given ? b.select(seesAhead, b.min(first, past), first) : first;
}

// A thread copies one chunk column of a page, every rowsPerPass-th row of it.
void AttentionBlock::planCopies() {
  Value kvHead = b.divide(firstHead, spec.group());
  for (unsigned plane : {Keys, Values})
    planes[plane] = b.at(b.at(b.argument(2), b.argument(6 + plane), 1), kvHead, pageTokens * spec.headDim * 2);
  int64_t chunks = paddedColumns(spec) / chunkElements, ofSection = section.chunksPerRow();
  copyRow = b.divide(b.threadIndex(), chunks);
  Value chunk = b.remainder(b.threadIndex(), chunks);
  for (int64_t row = 0; row == 0 || row < SharedTile::swizzleRows; row += rowsPerPass())
    copyTo.push_back(b.add(b.mul(b.divide(chunk, ofSection), sectionBytes()),
                           section.offsetOf(b.add(copyRow, row), b.remainder(chunk, ofSection))));
  copyFrom = b.add(b.mul(copyRow, spec.headDim * 2), b.mul(chunk, chunkBytes));
  copyBytes =
      b.select(b.lessThan(chunk, b.constant(spec.headDim / chunkElements)), b.constant(chunkBytes), b.constant(0));
}

void AttentionBlock::loadQueries() {
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

void AttentionBlock::copyPlane(Plane plane, Value page, Value to) {
  Value table = b.at(b.argument(3), b.mul(b.wide(sequence), b.wide(b.argument(11))), 4);
  Value index = b.load(b.getI32Type(), b.at(table, page, 4));
  Value from = b.at(b.at(planes[plane], b.mul(b.wide(index), b.argument(8)), 1), copyFrom, 1);
  // What is known at once is added last: it is part of the instruction then, and takes no register outside of the loop.
  Value rows = b.sub(b.sub(b.add(lastSeen, 1), b.mul(page, pageTokens)), copyRow);
  SmallVector<Value> places;
  for (Value place : copyTo)
    places.push_back(section.address(b.add(place, to)));
  for (int64_t pass = 0; pass < pageTokens / rowsPerPass(); ++pass) {
    int64_t row = pass * rowsPerPass(), known = pass % int64_t(copyTo.size());
    Value bytes = b.select(b.lessThan(b.constant(row), rows), copyBytes, b.constant(0));
    b.copyAsync(b.at(places[known], b.constant((row - known * rowsPerPass()) * section.rowBytes()), 1),
                b.at(from, b.constant(row * spec.headDim * 2), 1), bytes);
  }
}

AttentionBlock::Pages AttentionBlock::visiblePages() {
  Value begin = b.constant(0), end = b.add(b.divide(lastSeen, pageTokens), 1);
  if (spec.window)
    begin = b.divide(b.max(firstSeenFrom(firstPosition), b.constant(0)), pageTokens);
  return {begin, end};
}

AttentionBlock::Pages AttentionBlock::pagesOf(Value split) {
  Value first = b.mul(split, pagesOfSplit());
  return {b.max(seen.begin, first), b.min(seen.end, b.add(first, pagesOfSplit()))};
}

double AttentionBlock::scoreFactor() const {
  return spec.softcap == 0 && spec.scale > 0 ? spec.scale * llvm::numbers::log2e : 1;
}

// Only pages at the edge of what is seen have something to mask.
void AttentionBlock::finishScores(SmallVector<Value> &scores, Value page) {
  for (Value &score : scores) {
    if (spec.softcap != 0) {
      Value capped = emitTanh(b, b.mulF(score, b.constantF32(spec.scale / spec.softcap)));
      score = b.mulF(capped, b.constantF32(spec.softcap * llvm::numbers::log2e));
    } else if (scoreFactor() == 1) {
      score = b.mulF(score, b.constantF32(spec.scale * llvm::numbers::log2e));
    }
  }
  Value begin = b.mul(page, pageTokens);
  Value isEdge = b.lessThan(lastSeenFrom(firstPosition), b.add(begin, pageTokens - 1));
  if (spec.window)
    isEdge = b.bitOr(isEdge, b.lessThan(begin, firstSeenFrom(lastPosition)));
  scores = b.ifElse(isEdge, scores, [&] { return masked(scores, page); });
}

SmallVector<Value> AttentionBlock::masked(ArrayRef<Value> scores, Value page) {
  SmallVector<Value> result(scores);
  Value hidden = b.constantF32(-std::numeric_limits<double>::infinity());
  for (int64_t half = 0; half < 2; ++half) {
    // Key `offset` of the page's, counted from this thread's first one, is seen from `first` up to `last`.
    Value begin = b.add(b.mul(page, pageTokens), pairColumn);
    Value first = spec.window ? b.sub(firstSeenFrom(positions[half]), begin) : Value();
    Value last = b.sub(lastSeenFrom(positions[half]), begin);
    for (int64_t i = 0; i < int64_t(scores.size()) / 2; ++i) {
      Value offset = b.constant(8 * (i / 2) + i % 2), isHidden = b.lessThan(last, offset);
      if (spec.window)
        isHidden = b.bitOr(isHidden, b.lessThan(offset, first));
      Value &score = result[4 * (i / 2) + 2 * half + i % 2];
      score = b.select(isHidden, hidden, score);
    }
  }
  return result;
}

Value AttentionBlock::rowMax(Value value) {
  for (int64_t mask : {1, 2})
    value = b.maxF(value, b.shuffleXor(value, mask));
  return value;
}
Value AttentionBlock::rowSum(Value value) {
  for (int64_t mask : {1, 2})
    value = b.addF(value, b.shuffleXor(value, mask));
  return value;
}

SmallVector<Value> AttentionBlock::weigh(ArrayRef<Value> scores, Softmax &softmax, Value (&shrink)[2]) {
  SmallVector<Value> weights(scores);
  int64_t ofHalf = int64_t(scores.size()) / 2;
  Value factor = b.constantF32(scoreFactor()), minusOne = b.constantF32(-1);
  for (int64_t half = 0; half < 2; ++half) {
    auto at = [&](int64_t i) -> Value & { return weights[4 * (i / 2) + 2 * half + i % 2]; };
    Value largest = at(0);
    for (int64_t i = 1; i < ofHalf; ++i)
      largest = b.maxF(largest, at(i));
    Value max = b.maxF(softmax.max[half], b.mulF(rowMax(largest), factor)), below = b.mulF(max, minusOne);
    shrink[half] = b.exp2(b.subF(softmax.max[half], max));
    softmax.max[half] = max;
    // Four sums, that additions need not wait for each other.
    SmallVector<Value> sums;
    for (int64_t i = 0; i < ofHalf; ++i) {
      at(i) = b.exp2(b.fma(at(i), factor, below));
      if (i < 4)
        sums.push_back(at(i));
      else
        sums[i % 4] = b.addF(sums[i % 4], at(i));
    }
    Value sum = b.addF(b.addF(sums[0], sums[1]), b.addF(sums[2], sums[3]));
    softmax.sum[half] = b.fma(softmax.sum[half], shrink[half], sum);
  }
  return weights;
}

void AttentionBlock::rescale(MutableArrayRef<Value> out, const Value (&shrink)[2]) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = b.mulF(out[i], shrink[i % 4 / 2]);
}

// Two neighbouring tiles of 8 keys are 16 columns of the left operand.
SmallVector<FragmentA> AttentionBlock::roundWeights(ArrayRef<Value> weights) {
  SmallVector<FragmentA> fragments(weights.size() / 8);
  for (size_t step = 0; step < fragments.size(); ++step)
    for (size_t i = 0; i < 4; ++i)
      fragments[step][i] = b.packBf16(weights[8 * step + 2 * i], weights[8 * step + 2 * i + 1]);
  return fragments;
}
