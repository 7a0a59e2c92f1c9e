// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/MatmulBlock.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static SmallVector<Type> parameters(MLIRContext *context) {
  SmallVector<Type> types(4, GpuBuilder::globalPointer(context));
  types.push_back(IntegerType::get(context, 32));
  types.append(2, IntegerType::get(context, 64));
  return types;
}

MatmulBlock::MatmulBlock(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuMatmulTile &tile)
    : spec(spec), tile(tile), b(module, name, parameters(module.getContext()), tile.threads(), tile.sharedBytes(),
                                tile.isOfWarpgroups ? swizzleBytes : 128),
      actTile(b, tile.blockM, tile.blockK, 0), panels(b, tile.blockK, actTile.bytes()) {
  act = b.argument(0), weights = b.argument(1), bias = b.argument(2), out = b.argument(3);
  rows = b.argument(4), actStride = b.argument(5), outStride = b.argument(6);
  thread = b.threadIndex(), warp = b.divide(thread, warpSize), lane = b.remainder(thread, warpSize);
  blockColumn = b.mul(b.blockIndex(0), tile.blockN);
  blockRow = b.mul(b.blockIndex(1), tile.blockM);
  if (tile.splits > 1)
    firstSlice = b.mul(b.blockIndex(2), slices());
  planActCopies();
  if (spec.layout.isQuantized())
    codes.emplace(b, spec.layout, spec.k, tile.blockK, tile.blockN / 16, spec.weightPanels(), tile.threads(), weights,
                  b.divide(blockColumn, 16));
  else
    planWeightCopies();
}

int64_t MatmulBlock::slices() const {
  return llvm::divideCeil(spec.k, tile.blockK) / tile.splits;
}

// Threads are as many as the chunks of 8 rows at least, after which the swizzle begins again: passes lie as many chunks apart.
void MatmulBlock::planActCopies() {
  int64_t chunksPerRow = tile.blockK / chunkElements;
  Value firstRow = b.divide(thread, chunksPerRow), chunk = b.remainder(thread, chunksPerRow);
  actCopies.shared = actTile.offsetOf(firstRow, chunk);
  for (int64_t first = 0; first < tile.blockM * chunksPerRow; first += tile.threads()) {
    Value row = b.add(blockRow, b.add(firstRow, first / chunksPerRow));
    Value rowBegin = b.at(act, b.mul(b.wide(row), actStride), 2);
    actCopies.global.push_back(b.at(rowBegin, chunk, chunkBytes));
    actCopies.column.push_back(b.mul(chunk, chunkElements));
    actCopies.inside.push_back(b.lessThan(row, rows));
  }
}

// A panel's slice is one stretch of memory. A pass has whole panels, or is part of one.
void MatmulBlock::planWeightCopies() {
  int64_t chunksPerPanel = panels.panelBytes() / chunkBytes, panelsOfBlock = tile.blockN / 16;
  Value ofThread = b.divide(thread, chunksPerPanel), inFirst = b.remainder(thread, chunksPerPanel);
  auto pairOf = [](GpuBuilder &b, Value inPanel) { return b.divide(inPanel, 4); };
  weightCopies.shared =
      b.add(panels.offsetOf(pairOf(b, inFirst), b.remainder(inFirst, 4)), b.mul(ofThread, panels.panelBytes()));
  Value firstPanel = b.add(b.divide(blockColumn, 16), ofThread);
  Value firstBegin = b.at(weights, firstPanel, spec.panelBytes());
  for (int64_t first = 0; first < panelsOfBlock * chunksPerPanel; first += tile.threads()) {
    Value inPanel = b.add(inFirst, first % chunksPerPanel);
    Value panelBegin = b.at(firstBegin, b.constant(first / chunksPerPanel), spec.panelBytes());
    weightCopies.global.push_back(b.at(panelBegin, inPanel, chunkBytes));
    weightCopies.column.push_back(b.mul(pairOf(b, inPanel), 2));
    Value panel = b.add(firstPanel, first / chunksPerPanel);
    bool mayEnd = spec.weightPanels() % panelsOfBlock;
    weightCopies.inside.push_back(mayEnd ? b.lessThan(panel, b.constant(spec.weightPanels())) : Value());
  }
}

// A chunk holds `columns` columns, of which those from `end` on become 0; slices are `sliceBytes` apart.
template <typename Tile>
void MatmulBlock::copySlice(Tile &to, const SliceCopies &copies, int64_t end, int64_t sliceBytes, int64_t columns,
                            Value slice, Value stage) {
  bool hasTail = spec.k % tile.blockK;
  for (size_t i = 0; i < copies.global.size(); ++i) {
    Value bytes;
    if (hasTail) {
      Value left = b.sub(b.constant(end), b.add(b.mul(slice, tile.blockK), copies.column[i]));
      bytes = b.mul(b.max(b.constant(0), b.min(left, b.constant(columns))), chunkBytes / columns);
    }
    if (copies.inside[i])
      bytes = b.select(copies.inside[i], bytes ? bytes : b.constant(chunkBytes), b.constant(0));
    Value place = b.add(copies.shared, int64_t(i) * tile.threads() * chunkBytes);
    b.copyAsync(to.address(place, stage), b.at(copies.global[i], b.mul(slice, sliceBytes), 1), bytes);
  }
}

void MatmulBlock::load(Value slice, Value stage) {
  if (firstSlice)
    slice = b.add(slice, firstSlice);
  copySlice(actTile, actCopies, spec.k, tile.blockK * 2, chunkElements, slice, stage);
  // A pair is there as a whole: what stands behind an odd K is 0.
  if (!codes)
    copySlice(panels, weightCopies, llvm::alignTo(spec.k, 2), panels.panelBytes(), 2, slice, stage);
}

void MatmulBlock::loadFirst(int64_t ahead) {
  for (int64_t slice = 0; slice < ahead; ++slice) {
    if (slice < slices())
      load(b.constant(slice), b.constant(slice * tile.stageBytes()));
    b.commitCopies();
  }
  storeCodes(loadCodes(b.constant(0)), b.constant(0));
}

SmallVector<WeightChunks::Chunk> MatmulBlock::loadCodes(Value slice) {
  if (!codes)
    return {};
  slice = b.min(slice, b.constant(slices() - 1));
  return codes->load(firstSlice ? b.add(slice, firstSlice) : slice);
}

void MatmulBlock::storeCodes(ArrayRef<WeightChunks::Chunk> chunks, Value stage) {
  if (codes)
    codes->store(chunks, panels, stage);
}

void MatmulBlock::loadNext(Value slice, Value stage) {
  b.ifThen(b.lessThan(slice, b.constant(slices())), [&] { load(slice, stage); });
  b.commitCopies();
}

Value MatmulBlock::nextStage(Value stage) {
  Value next = b.add(stage, tile.stageBytes());
  return b.select(b.equal(next, b.constant(tile.sharedBytes())), b.constant(0), next);
}

Value MatmulBlock::place(Value row, Value column) {
  return b.at(b.at(out, b.mul(b.wide(row), outStride), 4), column, 4);
}

void MatmulBlock::put(Value value, Value to) {
  b.store(spec.accumulate ? b.addF(value, b.load(b.getF32Type(), to)) : value, to);
}
