// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/GemvBlock.h"

#include "compiler/codegen/targets/cuda/HeadRows.h"
#include "compiler/codegen/targets/cuda/LastBlock.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t panelRows = PackedLayout::panelRows;

static SmallVector<Type> parameters(MLIRContext *context, const GpuMatmulSpec &spec) {
  SmallVector<Type> types(4, GpuBuilder::globalPointer(context));
  types.push_back(IntegerType::get(context, 32));
  types.append(2, IntegerType::get(context, 64));
  if (spec.prepares)
    types.push_back(types.front());
  if (spec.heads) {
    types.push_back(types.front());
    HeadRows::addParameters(context, types);
  }
  return types;
}

GemvBlock::GemvBlock(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuGemvTile &tile,
                     int64_t sharedBytes)
    : spec(spec), tile(tile),
      b(module, name, parameters(module.getContext(), spec), tile.threads(), sharedBytes + preparingBytes(spec, tile)),
      lane(b.remainder(b.threadIndex(), warpSize)), warp(b.divide(b.threadIndex(), warpSize)),
      preparingAt(sharedBytes) {
  rows = b.argument(4);
  blockPanel = b.mul(b.blockIndex(0), tile.blockPanels());
  blockRow = b.mul(b.blockIndex(1), tile.rows);
  Value lastRow = b.sub(rows, b.constant(1));
  for (int64_t i = 0; i < tile.rows; ++i) {
    Value row = b.min(b.add(blockRow, i), lastRow);
    act.push_back(b.at(b.argument(0), b.mul(b.wide(row), b.argument(5)), actBytes()));
  }
}

int64_t heddle::preparingBytes(const GpuMatmulSpec &spec, const GpuGemvTile &tile) {
  return spec.prepares ? PreparedRows::sharedBytes(*spec.prepares, tile.rows) : 0;
}

Value GemvBlock::panelAt(Value panel) {
  return b.at(b.argument(1), b.min(panel, b.constant(spec.weightPanels() - 1)), spec.panelBytes());
}

void GemvBlock::beginRows() {
  if (!spec.prepares)
    return;
  assert(tile.threads() == preparingThreads && "the order of sums is that of so many threads");
  // Rows are rounded for products of many alone where weights are codes: as f32 they cost nothing here.
  bool rounds = spec.activation == MatmulActivation::Bf16 && !spec.layout.isQuantized();
  prepared.emplace(b, *spec.prepares, rounds, spec.k, b.argument(7));
  prepared->begin(act, preparingAt);
}

// A thread finishes one number of the block.
void GemvBlock::finish(Value firstPanel, llvm::function_ref<Value(Value, Value, Value)> sumOf) {
  int64_t matrices = spec.isGated ? 2 : 1, columns = tile.panels / matrices * panelRows;
  for (int64_t begin = 0; begin < tile.rows * columns; begin += tile.threads()) {
    Value index = b.add(b.threadIndex(), begin), inBlock = b.divide(index, columns);
    Value inRow = b.remainder(index, columns), inPanel = b.remainder(inRow, panelRows);
    Value panel = b.mul(b.divide(inRow, panelRows), matrices);
    Value row = b.add(blockRow, inBlock);
    Value column = b.add(b.mul(b.divide(firstPanel, matrices), panelRows), inRow);
    // The block has threads to spare where it has few rows.
    Value isThere = b.bitAnd(b.lessThan(row, rows), b.lessThan(column, b.constant(spec.n)));
    if (tile.rows * columns % tile.threads())
      isThere = b.bitAnd(isThere, b.lessThan(inBlock, b.constant(tile.rows)));
    b.ifThen(isThere, [&] {
      Value value = emitEpilogue(b, spec, biasOf(b, spec, b.argument(2), column), sumOf(inBlock, panel, inPanel));
      if (spec.isGated)
        value = b.mulF(value, sumOf(inBlock, b.add(panel, 1), inPanel));
      Value to = b.at(b.at(b.argument(3), b.mul(b.wide(row), b.argument(6)), 4), column, 4);
      b.store(spec.accumulate ? b.addF(value, b.load(b.getF32Type(), to)) : value, to);
    });
  }
}

// The last block that has stored columns of a head makes what HeadRows does of it, a warp for each row at a time.
void GemvBlock::finishHeads() {
  int64_t width = spec.heads->headDim, columns = tile.panels * panelRows;
  // Heads that columns of a block may be of.
  int64_t most = columns % width == 0 ? columns / width : width % columns == 0 ? 1 : (columns - 2) / width + 2;
  unsigned counters = spec.prepares ? 8 : 7;
  Value firstColumn = b.mul(blockPanel, panelRows);
  Value lastColumn = b.sub(b.min(b.add(firstColumn, columns), b.constant(spec.n)), b.constant(1));
  Value first = b.divide(firstColumn, width), last = b.divide(lastColumn, width);
  LastBlock blocks(
      b, b.argument(counters), first, last, most,
      [&](Value head) {
        Value begin = b.mul(head, width);
        return b.add(b.sub(b.divide(b.add(begin, width - 1), columns), b.divide(begin, columns)), 1);
      },
      /*shared=*/0);
  HeadRows heads(b, *spec.heads, counters + 1);
  for (int64_t begin = 0; begin < tile.rows; begin += tile.warps) {
    Value inBlock = b.add(warp, begin), row = b.add(blockRow, inBlock);
    Value isRow = b.bitAnd(b.lessThan(inBlock, b.constant(tile.rows)), b.lessThan(row, rows));
    for (int64_t i = 0; i < most; ++i)
      b.ifThen(b.bitAnd(blocks.isLastOf(i), isRow), [&] {
        Value head = b.add(first, i), from = b.at(b.argument(3), b.mul(b.wide(row), b.argument(6)), 4);
        heads.store(head, row, b.at(from, b.mul(head, width), 4));
      });
  }
}
