// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Few rows are a matter of reading W: every lane reads 16 bytes at a time, every byte of W is read once for all rows of the block, and
// numbers never leave registers. K is divided among the lanes of a warp and the warps of a block in a way that depends on K and the layout
// alone. Their sums are added by pairs of lanes, then warp by warp.

#include "compiler/codegen/targets/cuda/Gemv.h"

#include "compiler/codegen/targets/cuda/GpuMath.h"
#include "compiler/codegen/targets/cuda/HeadRows.h"
#include "compiler/codegen/targets/cuda/LastBlock.h"
#include "compiler/codegen/targets/cuda/PreparedRows.h"
#include "compiler/codegen/targets/cuda/WeightChunks.h"
#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t panelRows = PackedLayout::panelRows;

GpuGemvTile heddle::gemvTileOf(TileAttr tile, const GpuMatmulSpec &spec) {
  int64_t maxRows = tile.getMaxRows() ? tile.getMaxRows() : INT32_MAX, panels = tile.getColumns() / panelRows;
  ArrayRef<int64_t> warps = tile.getWarps();
  // A chunk whose codes have high bits takes twice the registers.
  int64_t loads = spec.layout.highBits ? std::max<int64_t>(1, tile.getStages() / 2) : tile.getStages();
  return {maxRows, tile.getRows().front(), spec.isGated ? std::max<int64_t>(2, panels) : panels, warps[0] * warps[1],
          loads};
}

LogicalResult heddle::verifyGpuGemv(const GpuMatmulSpec &spec, std::string &error) {
  if (failed(verifyGpuMatmul(spec, error)))
    return failure();
  if (error = WeightChunks::missing(spec.layout); !error.empty())
    return failure();
  int64_t columns = WeightChunks::runColumns(spec.layout);
  if (spec.k % columns) {
    error = "of k = " + std::to_string(spec.k) + ", no multiple of " + std::to_string(columns);
    return failure();
  }
  // Plain weights that are rounded to what the activations are have no kernel.
  bool isBf16 = spec.layout.isQuantized() || spec.layout.numbers == PackedNumbers::BF16;
  if (spec.activation != MatmulActivation::F32 && (spec.activation != MatmulActivation::Bf16 || !isBf16)) {
    error = "of rounded activations";
    return failure();
  }
  if (spec.heads && (spec.heads->width() != spec.n || spec.heads->numAllHeads() > HEDDLE_DEVICE_COUNTERS)) {
    error = "of " + std::to_string(spec.heads->numAllHeads()) + " heads of " + std::to_string(spec.heads->headDim) +
            " columns that it has " + std::to_string(spec.n) + " of";
    return failure();
  }
  return success();
}

namespace {

class GemvEmitter {
public:
  GemvEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuGemvTile &tile)
      : spec(spec), tile(tile),
        b(module, name, parameters(module.getContext(), spec), tile.threads(),
          sumBytes(tile) + (spec.prepares ? PreparedRows::sharedBytes(*spec.prepares, tile.rows) : 0)),
        lane(b.remainder(b.threadIndex(), warpSize)), warp(b.divide(b.threadIndex(), warpSize)),
        weights(b, spec.layout, spec.k, lane) {}
  gpu::GPUFuncOp emit();

private:
  using Chunk = WeightChunks::Chunk;

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
  // Sums of a lane: (tile rows, panels, 4), one of each row of its chunks.
  static int64_t numSums(const GpuGemvTile &tile) { return tile.rows * tile.panels * 4; }
  static int64_t sumBytes(const GpuGemvTile &tile) { return tile.warps * numSums(tile) * 4 * 4; }
  bool readsBf16() const { return spec.activation == MatmulActivation::Bf16 && !spec.prepares; }
  int64_t actBytes() const { return readsBf16() ? 2 : 4; }

  void setUp();
  SmallVector<Value> walk();
  SmallVector<Chunk> load(Value place);
  SmallVector<Value> addChunks(ArrayRef<Chunk> chunks, Value place, ValueRange sums);
  SmallVector<Value> loadAct(int64_t row, Value column, ArrayRef<Value> factors);
  void share(SmallVector<Value> sums);
  void finish();
  void finishHeads();
  Value sumOf(Value row, Value panel, Value inPanel);

  const GpuMatmulSpec &spec;
  const GpuGemvTile &tile;
  GpuBuilder b;
  Value lane, warp;
  WeightChunks weights;
  Value blockRow, blockPanel, rows;
  SmallVector<Value> act, panels; // of the block's rows and panels, the first byte
  std::optional<PreparedRows> prepared;
};

} // namespace

gpu::GPUFuncOp GemvEmitter::emit() {
  // Two blocks are 128 registers a thread, with which codes of 2, 3 and 5 bits spill, and those of 6 in many rows that end with heads.
  int64_t codeBits = spec.layout.isQuantized() ? spec.layout.codeBits() : 0;
  bool isLarge = codeBits == 2 || codeBits == 3 || codeBits == 5 || (codeBits == 6 && spec.heads && tile.rows > 2);
  b.setBlocksPerProcessor(isLarge ? 1 : 2);
  setUp();
  share(walk());
  b.barrier(); // the sums of all warps are there
  finish();
  if (spec.heads)
    finishHeads();
  return b.finish();
}

// Rows and panels behind the last one compute what the last one does, and are not stored.
void GemvEmitter::setUp() {
  rows = b.argument(4);
  blockPanel = b.mul(b.blockIndex(0), tile.panels);
  blockRow = b.mul(b.blockIndex(1), tile.rows);
  Value lastRow = b.sub(rows, b.constant(1)), lastPanel = b.constant(spec.weightPanels() - 1);
  for (int64_t i = 0; i < tile.rows; ++i) {
    Value row = b.min(b.add(blockRow, i), lastRow);
    act.push_back(b.at(b.argument(0), b.mul(b.wide(row), b.argument(5)), actBytes()));
  }
  for (int64_t i = 0; i < tile.panels; ++i)
    panels.push_back(b.at(b.argument(1), b.min(b.add(blockPanel, i), lastPanel), spec.panelBytes()));
  if (!spec.prepares)
    return;
  assert(tile.threads() == preparingThreads && "the order of sums is that of so many threads");
  // Rows are rounded for tensor cores alone where weights are codes: as f32 they cost nothing here.
  bool rounds = spec.activation == MatmulActivation::Bf16 && !spec.layout.isQuantized();
  prepared.emplace(b, *spec.prepares, rounds, spec.k, b.argument(7));
  prepared->begin(act, sumBytes(tile));
}

// Step s of K belongs to warp s mod warps. Rounds of `loads` steps a warp have a place for every lane; what is left over is guarded.
SmallVector<Value> GemvEmitter::walk() {
  int64_t perRound = tile.warps * tile.loads;
  int64_t rounds = weights.places() / weights.placesPerStep() / perRound;
  SmallVector<Value> sums(numSums(tile), b.constantF32(0));
  if (rounds)
    sums = b.fold(b.constant(0), b.constant(rounds), sums, [&](Value round, ValueRange carried) {
      Value first = b.add(b.mul(round, perRound), warp);
      SmallVector<Value> places, next(carried);
      SmallVector<SmallVector<Chunk>> chunks;
      for (int64_t i = 0; i < tile.loads; ++i) {
        places.push_back(weights.placeOf(b.add(first, i * tile.warps)));
        chunks.push_back(load(places[i]));
      }
      for (int64_t i = 0; i < tile.loads; ++i)
        next = addChunks(chunks[i], places[i], next);
      return next;
    });
  for (int64_t step = rounds * perRound; step < weights.steps(); step += tile.warps) {
    Value place = weights.placeOf(b.add(warp, step));
    sums = b.ifElse(b.lessThan(place, b.constant(weights.places())), sums,
                    [&] { return addChunks(load(place), place, sums); });
  }
  return sums;
}

SmallVector<WeightChunks::Chunk> GemvEmitter::load(Value place) {
  SmallVector<Chunk> chunks;
  for (Value panel : panels)
    chunks.push_back(weights.load(panel, place));
  return chunks;
}

// sums += act @ chunks^T
SmallVector<Value> GemvEmitter::addChunks(ArrayRef<Chunk> chunks, Value place, ValueRange before) {
  SmallVector<Value> sums(before);
  for (int64_t run = 0; run < weights.runs(); ++run) {
    Value column = weights.columnOf(place, run);
    SmallVector<Value> factors = prepared ? prepared->factors(column, weights.runColumns()) : SmallVector<Value>();
    SmallVector<SmallVector<Value>> numbers;
    for (int64_t row = 0; row < tile.rows; ++row)
      numbers.push_back(loadAct(row, column, factors));
    for (auto [panel, chunk] : llvm::enumerate(chunks))
      for (int64_t ofChunk = 0; ofChunk < 4; ++ofChunk)
        for (int64_t i = 0; i < weights.runColumns(); ++i) {
          Value weight = weights.number(chunk, ofChunk, run, i);
          for (int64_t row = 0; row < tile.rows; ++row) {
            Value &sum = sums[(row * tile.panels + panel) * 4 + ofChunk];
            sum = b.fma(numbers[row][i], weight, sum);
          }
        }
  }
  return sums;
}

// A run of a row of the block, as f32.
SmallVector<Value> GemvEmitter::loadAct(int64_t row, Value column, ArrayRef<Value> factors) {
  Value from = b.at(act[row], column, actBytes());
  bool isBf16 = readsBf16();
  int64_t count = isBf16 ? weights.runColumns() / 2 : weights.runColumns(); // registers
  Type element = isBf16 ? Type(b.getI32Type()) : Type(b.getF32Type());
  Value loaded = b.load(count == 1 ? element : VectorType::get({count}, element), from);
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < count; ++i) {
    Value number = count == 1 ? loaded : b.element(loaded, i);
    if (isBf16)
      llvm::append_range(numbers, b.unpackBf16(number));
    else
      numbers.push_back(number);
  }
  return prepared ? prepared->prepare(row, numbers, factors) : numbers;
}

// Adds up what the lanes of a warp have of each sum, by pairs that are 4, 8 and 16 apart, and puts it into shared memory: (warps, sums, 4)
// of f32, row 4 c + r of a panel at [.., r, c]. Each time a lane keeps half of its sums and gives the other half away, while it has two.
void GemvEmitter::share(SmallVector<Value> sums) {
  Value first = b.constant(0), isKept;
  for (int64_t mask : {4, 8, 16}) {
    int64_t half = sums.size() / 2;
    Value isUpper = b.equal(b.bitAnd(lane, b.constant(mask)), b.constant(mask));
    if (half == 0) {
      sums[0] = b.addF(sums[0], b.shuffleXor(sums[0], mask));
      isKept = b.equal(b.bitAnd(lane, b.constant(mask)), b.constant(0));
      continue;
    }
    for (int64_t i = 0; i < half; ++i) {
      Value kept = b.select(isUpper, sums[i + half], sums[i]), given = b.select(isUpper, sums[i], sums[i + half]);
      sums[i] = b.addF(kept, b.shuffleXor(given, mask));
    }
    sums.truncate(half);
    first = b.add(first, b.select(isUpper, b.constant(half), b.constant(0)));
  }
  Value ofWarp = b.add(b.mul(warp, numSums(tile)), first), inChunk = b.remainder(lane, 4);
  auto store = [&] {
    for (auto [i, sum] : llvm::enumerate(sums))
      b.store(sum, b.shared(b.mul(b.add(b.mul(b.add(ofWarp, int64_t(i)), 4), inChunk), 4)));
  };
  if (isKept)
    b.ifThen(isKept, store);
  else
    store();
}

// One sum of the block's, warp by warp.
Value GemvEmitter::sumOf(Value row, Value panel, Value inPanel) {
  Value index = b.add(b.mul(b.add(b.mul(row, tile.panels), panel), 4), b.remainder(inPanel, 4));
  Value place = b.mul(b.add(b.mul(index, 4), b.divide(inPanel, 4)), 4), sum;
  for (int64_t i = 0; i < tile.warps; ++i) {
    Value ofWarp = b.load(b.getF32Type(), b.shared(b.add(place, i * numSums(tile) * 16)));
    sum = sum ? b.addF(sum, ofWarp) : ofWarp;
  }
  return sum;
}

// A thread finishes one number of the block.
void GemvEmitter::finish() {
  int64_t matrices = spec.isGated ? 2 : 1, columns = tile.panels / matrices * panelRows;
  for (int64_t begin = 0; begin < tile.rows * columns; begin += tile.threads()) {
    Value index = b.add(b.threadIndex(), begin), inBlock = b.divide(index, columns);
    Value inRow = b.remainder(index, columns), inPanel = b.remainder(inRow, panelRows);
    Value panel = b.mul(b.divide(inRow, panelRows), matrices);
    Value row = b.add(blockRow, inBlock);
    Value column = b.add(b.mul(b.divide(blockPanel, matrices), panelRows), inRow);
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

// The last block that has stored columns of a head makes what HeadRows does of it, a warp for each row.
void GemvEmitter::finishHeads() {
  int64_t width = spec.heads->headDim, columns = tile.panels * panelRows;
  // Heads that columns of a block may be of.
  int64_t most = columns % width == 0 ? columns / width : width % columns == 0 ? 1 : (columns - 2) / width + 2;
  assert(tile.rows <= tile.warps && "a warp for each row");
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
  Value row = b.add(blockRow, warp);
  Value isRow = b.bitAnd(b.lessThan(warp, b.constant(tile.rows)), b.lessThan(row, rows));
  for (int64_t i = 0; i < most; ++i)
    b.ifThen(b.bitAnd(blocks.isLastOf(i), isRow), [&] {
      Value head = b.add(first, i), from = b.at(b.argument(3), b.mul(b.wide(row), b.argument(6)), 4);
      heads.store(head, row, b.at(from, b.mul(head, width), 4));
    });
}

gpu::GPUFuncOp heddle::buildGpuGemv(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                    const GpuGemvTile &tile) {
  return GemvEmitter(module, name, spec, tile).emit();
}
