// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole attention by wgmma, of which a warpgroup has 64 query rows. Scores of the next page are multiplied while this page's values are, and become weights meanwhile:
// tensor cores seldom wait for exponentials.

#include "compiler/codegen/targets/cuda/AttentionBlock.h"

#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
// What a product multiplies of a row's columns, and of keys.
static constexpr int64_t productDepth = 16;
// Query rows of a warpgroup.
static constexpr int64_t warpgroupRows = 64;

namespace {

class WarpgroupEmitter : AttentionBlock {
public:
  WarpgroupEmitter(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec)
      : AttentionBlock(module, name, spec, Form::Whole, 2 * slotsFor(spec)), slots(slotsFor(spec)) {}
  gpu::GPUFuncOp emit();

  // Of shared memory.
  static int64_t bytes(const AttentionSpec &spec) { return 2 * slotsFor(spec) * AttentionBlock::planeBytes(spec); }

private:
  // A slot has the values of a page and the keys of the next one: what is multiplied at once. Two blocks fit a multiprocessor.
  static int64_t slotsFor(const AttentionSpec &spec) { return spec.headDim > 64 ? 3 : 4; }

  int64_t slotBytes() const { return 2 * AttentionBlock::planeBytes(); }
  Value nextSlot(Value slot);
  void copySlot(Value page, bool hasValues, Value slot);
  void takeSlot(Value page, Value slot);
  SmallVector<Value> startScores(Value slot);
  SmallVector<Value> addValues(ArrayRef<FragmentA> weights, ValueRange out, Value slot);
  void store(ValueRange out, const Softmax &softmax);

  int64_t slots;
};

} // namespace

int64_t heddle::warpgroupRowsOf(ScheduleAttr schedule) {
  for (TileAttr tile : schedule.getTiles())
    if (tile.getRole() == TileRole::Warpgroups)
      return tile.getRows().front();
  return 0;
}

AttentionSpec heddle::ofWarpgroups(AttentionSpec spec, int64_t rows) {
  spec.tileRows = spec.window ? warpgroupRows : rows;
  return spec;
}

int64_t heddle::warpgroupAttentionBytes(const AttentionSpec &spec) {
  return WarpgroupEmitter::bytes(spec);
}

Value WarpgroupEmitter::nextSlot(Value slot) {
  Value next = b.add(slot, slotBytes());
  return b.select(b.equal(next, b.constant(slots * slotBytes())), b.constant(0), next);
}

// Values of `page`, and keys of the next one.
void WarpgroupEmitter::copySlot(Value page, bool hasValues, Value slot) {
  Value next = b.add(page, 1);
  b.ifThen(b.lessThan(next, seen.end), [&] { copyPlane(Keys, next, slot); });
  if (hasValues)
    b.ifThen(b.lessThan(page, seen.end), [&] { copyPlane(Values, page, b.add(slot, AttentionBlock::planeBytes())); });
  b.commitCopies();
}

// Returns once the slot is there, of which the values are those of `page`. The slot before it is free then: everyone has waited for the products that read it.
void WarpgroupEmitter::takeSlot(Value page, Value slot) {
  b.waitCopies(slots - 2);
  b.fenceForWarpgroups();
  b.barrier();
  Value isFirst = b.equal(slot, b.constant(0));
  Value before = b.select(isFirst, b.constant((slots - 1) * slotBytes()), b.sub(slot, b.constant(slotBytes())));
  copySlot(b.add(page, slots - 1), /*hasValues=*/true, before);
}

// Q @ K^T
SmallVector<Value> WarpgroupEmitter::startScores(Value slot) {
  SmallVector<Value> keys;
  Value rows = b.describeRows(slot);
  for (int64_t step = 0; step < dimSteps(); ++step) {
    int64_t column = productDepth * step, ofSection = column / sectionColumns() * sectionBytes();
    keys.push_back(b.advance(rows, ofSection + column % sectionColumns() * 2));
  }
  return b.startProducts(queries, keys, pageTokens);
}

// O + P @ V
SmallVector<Value> WarpgroupEmitter::addValues(ArrayRef<FragmentA> weights, ValueRange out, Value slot) {
  SmallVector<Value> values;
  Value rows = b.describeRows(b.add(slot, AttentionBlock::planeBytes()), sectionBytes());
  for (size_t step = 0; step < weights.size(); ++step)
    values.push_back(b.advance(rows, int64_t(step) * productDepth * section.rowBytes()));
  return b.addProducts(weights, values, out);
}

gpu::GPUFuncOp WarpgroupEmitter::emit() {
  b.setBlocksPerProcessor(2);
  return emitWith([&] {
    Value begin = seen.begin, first = b.sub(begin, b.constant(1));
    for (int64_t i = 0; i < slots - 1; ++i)
      copySlot(b.add(first, i), /*hasValues=*/i > 0, b.constant(i * slotBytes()));
    loadQueries();
    Value slot = b.constant(0), shrink[2];
    takeSlot(first, slot);
    SmallVector<Value> scores = b.waitProducts(0, startScores(slot));
    finishScores(scores, begin);
    Value lowest = b.constantF32(lowestScore), zero = b.constantF32(0);
    Softmax softmax = {{lowest, lowest}, {zero, zero}};
    SmallVector<Value> weights = weigh(scores, softmax, shrink);
    size_t outs = 4 * outTiles(), numWeights = weights.size();
    SmallVector<Value> carried(outs, zero);
    llvm::append_range(carried, weights);
    carried.append({softmax.max[0], softmax.max[1], softmax.sum[0], softmax.sum[1], nextSlot(slot)});
    auto readSoftmax = [&](ValueRange values) -> Softmax {
      ValueRange rest = values.drop_front(outs + numWeights);
      return {{rest[0], rest[1]}, {rest[2], rest[3]}};
    };
    carried = b.fold(b.add(begin, 1), seen.end, carried, [&](Value page, ValueRange before) {
      Value slot = before.back(), shrink[2];
      Softmax softmax = readSoftmax(before);
      takeSlot(b.sub(page, b.constant(1)), slot);
      SmallVector<FragmentA> rounded = roundWeights(SmallVector<Value>(before.slice(outs, numWeights)));
      SmallVector<Value> scores = startScores(slot);
      SmallVector<Value> out = addValues(rounded, before.take_front(outs), slot);
      scores = b.waitProducts(1, scores);
      finishScores(scores, page);
      SmallVector<Value> weights = weigh(scores, softmax, shrink);
      out = b.waitProducts(0, out);
      rescale(out, shrink);
      llvm::append_range(out, weights);
      out.append({softmax.max[0], softmax.max[1], softmax.sum[0], softmax.sum[1], nextSlot(slot)});
      return out;
    });
    slot = carried.back();
    takeSlot(b.sub(seen.end, b.constant(1)), slot);
    ValueRange last(carried);
    SmallVector<FragmentA> rounded = roundWeights(SmallVector<Value>(last.slice(outs, numWeights)));
    store(b.waitProducts(0, addValues(rounded, last.take_front(outs), slot)), readSoftmax(last));
  });
}

void WarpgroupEmitter::store(ValueRange out, const Softmax &softmax) {
  for (int64_t half = 0; half < 2; ++half) {
    SoftmaxState begun = beginState(b, spec, spec.hasSinks ? b.argument(12) : Value(), heads[half]);
    MergedState merged = mergeStates(b, begun, {softmax.max[half], rowSum(softmax.sum[half])});
    Value factor = b.divF(merged.take, merged.state.sum);
    b.ifThen(b.lessThan(rows[half], numRows), [&] {
      for (int64_t tile = 0; tile < outTiles(); ++tile) {
        Value low = b.mulF(out[4 * tile + 2 * half], factor), high = b.mulF(out[4 * tile + 2 * half + 1], factor);
        b.store(b.vector({low, high}), b.at(outAt[half], b.constant(8 * tile), 4));
      }
    });
  }
}

gpu::GPUFuncOp heddle::buildWarpgroupAttention(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return WarpgroupEmitter(module, name, spec).emit();
}
