// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products by wgmma, of which a warpgroup has 64 rows of W and all rows of the block: out^T = W act^T, since panels of W are no matrix in shared memory that wgmma
// knows, but lie there as its left operand's registers, and rows of activations are its right one.

#include "compiler/codegen/targets/cuda/MatmulBlock.h"

using namespace mlir;
using namespace heddle;

namespace {

class WarpgroupEmitter : MatmulBlock {
public:
  WarpgroupEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuMatmulTile &tile)
      : MatmulBlock(module, name, spec, tile) {
    assert((tile.splits == 1 || tile.finishesRows(spec.isGated)) && "a block has sums of whole rows");
    for (int64_t half : {0, 1})
      weightLane[half] = b.add(panels.laneOffset(lane, half), b.mul(warp, panels.panelBytes()));
  }
  gpu::GPUFuncOp emit();

private:
  // Products of a slice that may be in flight while the next one begins: a block that is alone would else wait for itself.
  int64_t pending() const { return tile.isAlone() ? 1 : 0; }
  // Slices on their way beside those that are multiplied.
  int64_t ahead() const { return tile.stages - 1 - pending(); }
  SmallVector<Value> step(Value slice, ValueRange values);
  SmallVector<Value> addSplits(ArrayRef<Value> sums);
  void finishGated(ArrayRef<Value> sums, Value firstRow);
  void finish(ArrayRef<Value> sums, ArrayRef<Value> ups, Value firstRow, Value firstColumn);

  Value weightLane[2]; // in rows 0-7 and 8-15 of the warp's panel
};

} // namespace

gpu::GPUFuncOp WarpgroupEmitter::emit() {
  if (tile.splits > 1)
    b.setCluster(tile.splits);
  b.setBlocksPerProcessor(tile.isAlone() ? 1 : 2);
  loadFirst(ahead());
  SmallVector<Value> carried(tile.blockM / 2, b.constantF32(0));
  carried.push_back(b.constant(0));
  carried.push_back(b.constant(ahead() * tile.stageBytes()));
  // With two slices in turn, a product reads its registers of W while the other ones are loaded.
  int64_t inTurn = 1 + pending();
  carried = b.fold(b.constant(0), b.constant(slices() / inTurn), carried, [&](Value turn, ValueRange values) {
    SmallVector<Value> next(values);
    for (int64_t i = 0; i < inTurn; ++i)
      next = step(b.add(b.mul(turn, inTurn), i), next);
    return next;
  });
  if (slices() % inTurn) {
    b.waitProducts(0); // registers of another step, for which the assembler would make all wait
    carried = step(b.constant(slices() - 1), carried);
  }
  SmallVector<Value> sums = b.waitProducts(0, ValueRange(carried).drop_back(2));
  Value firstRow = blockRow;
  if (tile.splits > 1) {
    sums = addSplits(sums);
    firstRow = b.add(blockRow, b.mul(b.blockIndex(2), tile.blockM / tile.splits));
  }
  if (spec.isGated)
    finishGated(sums, firstRow);
  else
    finish(sums, {}, firstRow, b.add(blockColumn, b.mul(warp, 16)));
  if (tile.splits > 1)
    b.clusterBarrier(); // nobody reads this block's memory any more
  return b.finish();
}

SmallVector<Value> WarpgroupEmitter::step(Value slice, ValueRange values) {
  Value read = values[values.size() - 2], write = values.back(), nextRead = nextStage(read);
  SmallVector<WeightChunks::Chunk> codes = loadCodes(b.add(slice, 1)); // on their way meanwhile
  b.waitCopies(ahead() - 1);
  b.fenceForWarpgroups();
  // Everyone's copies have landed, and nobody multiplies the slice that is overwritten now.
  b.barrier();
  SmallVector<FragmentA> w;
  SmallVector<Value> descriptors;
  Value rowsOfSlice = b.describeRows(read);
  for (int64_t k = 0; k < tile.blockK / 16; ++k) {
    FragmentB low = panels.load(weightLane[0], k * 8 * SharedPanels::pairBytes, read);
    FragmentB high = panels.load(weightLane[1], k * 8 * SharedPanels::pairBytes, read);
    w.push_back({low[0], high[0], low[1], high[1]});
    descriptors.push_back(b.advance(rowsOfSlice, k * 2 * chunkBytes));
  }
  SmallVector<Value> next = b.multiplyAsync(w, descriptors, values.drop_back(2));
  loadNext(b.add(slice, ahead()), write);
  storeCodes(codes, nextRead);
  b.waitProducts(pending());
  next.push_back(nextRead);
  next.push_back(nextStage(write));
  return next;
}

// The sums of this block's part of the rows, of all blocks of the cluster in their order: each leaves its own in shared memory.
SmallVector<Value> WarpgroupEmitter::addSplits(ArrayRef<Value> sums) {
  int64_t count = sums.size(), part = count / tile.splits;
  Value ofWarp = b.add(b.mul(warp, count * warpSize * 4), b.mul(lane, 4));
  b.barrier(); // nobody reads slices any more
  for (auto [i, sum] : llvm::enumerate(sums))
    b.store(sum, b.shared(b.add(ofWarp, int64_t(i) * warpSize * 4)));
  b.clusterBarrier();
  Value first = b.add(ofWarp, b.mul(b.blockIndex(2), part * warpSize * 4));
  SmallVector<Value> added;
  for (int64_t rank = 0; rank < tile.splits; ++rank) {
    Value from = b.sharedOf(first, rank);
    for (int64_t i = 0; i < part; ++i) {
      Value sum = b.load(b.getF32Type(), b.at(from, b.constant(i), warpSize * 4));
      if (rank)
        added[i] = b.addF(added[i], sum);
      else
        added.push_back(sum);
    }
  }
  return added;
}

// Of two neighbouring warps, one has the gate's sums and the other the same columns of the up projection: each gives away those of half of the rows.
void WarpgroupEmitter::finishGated(ArrayRef<Value> sums, Value firstRow) {
  size_t half = sums.size() / 2;
  int64_t behindSums =
      tile.splits > 1 ? tile.warpsN * warpSize * tile.blockM / 2 * 4 : 0; // which others may still read
  Value isUp = b.equal(b.remainder(warp, 2), b.constant(1)), laneBytes = b.mul(lane, 4);
  auto placeOf = [&](Value ofWarp, size_t i) {
    return b.shared(
        b.add(b.mul(ofWarp, int64_t(half) * warpSize * 4), b.add(laneBytes, behindSums + int64_t(i) * warpSize * 4)));
  };
  b.barrier(); // nobody reads slices any more
  for (size_t i = 0; i < half; ++i)
    b.store(b.select(isUp, sums[i], sums[half + i]), placeOf(warp, i));
  b.barrier();
  SmallVector<Value> gate, up;
  for (size_t i = 0; i < half; ++i) {
    Value kept = b.select(isUp, sums[half + i], sums[i]);
    Value given = b.load(b.getF32Type(), placeOf(b.bitXor(warp, b.constant(1)), i));
    gate.push_back(b.select(isUp, given, kept));
    up.push_back(b.select(isUp, kept, given));
  }
  Value ofHalf = b.add(firstRow, b.select(isUp, b.constant(tile.blockM / tile.splits / 2), b.constant(0)));
  finish(gate, up, ofHalf, b.add(b.divide(blockColumn, 2), b.mul(b.divide(warp, 2), 16)));
}

// Of each 8 rows, rows 2 t and 2 t + 1 of columns g and g + 8 for lane 4 g + t.
void WarpgroupEmitter::finish(ArrayRef<Value> sums, ArrayRef<Value> ups, Value firstRow, Value firstColumn) {
  Value laneRow = b.add(firstRow, b.mul(b.remainder(lane, 4), 2)), laneColumn = b.add(firstColumn, b.divide(lane, 4));
  for (int64_t half = 0; half < 2; ++half) {
    Value column = b.add(laneColumn, 8 * half);
    b.ifThen(b.lessThan(column, b.constant(spec.n)), [&] {
      Value ofColumn = biasOf(b, spec, bias, column), first = place(laneRow, column);
      for (int64_t i = 0; i < int64_t(sums.size()) / 2; ++i) {
        int64_t row = i / 2 * 8 + i % 2, at = i / 2 * 4 + half * 2 + i % 2;
        b.ifThen(b.lessThan(b.add(laneRow, row), rows), [&] {
          Value value = emitEpilogue(b, spec, ofColumn, sums[at]);
          put(ups.empty() ? value : b.mulF(value, ups[at]), b.at(first, outStride, 4 * row));
        });
      }
    });
  }
}

gpu::GPUFuncOp heddle::buildWarpgroupMatmul(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                            const GpuMatmulTile &tile) {
  return WarpgroupEmitter(module, name, spec, tile).emit();
}
