// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Few rows are a matter of reading W: every lane reads 16 bytes at a time, every byte of W is read once for all rows of the block, and
// numbers never leave registers. K is divided among the lanes of a warp and the warps of a block in a way that depends on K and the layout
// alone. Their sums are added by pairs of lanes, then warp by warp.

#include "compiler/codegen/targets/cuda/Gemv.h"

#include "compiler/codegen/targets/cuda/GemvBlock.h"
#include "compiler/codegen/targets/cuda/WeightChunks.h"
#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t panelRows = PackedLayout::panelRows;

TileRole heddle::gemvRole(const GpuMatmulSpec &spec) {
  return hasCodeGemv(spec) ? TileRole::Codes : TileRole::FewRows;
}

GpuGemvTile heddle::gemvTileOf(TileAttr tile, const GpuMatmulSpec &spec) {
  int64_t maxRows = tile.getMaxRows() ? tile.getMaxRows() : INT32_MAX, panels = tile.getColumns() / panelRows;
  ArrayRef<int64_t> warps = tile.getWarps();
  GpuGemvTile gemv{maxRows, tile.getRows().front(), spec.isGated ? std::max<int64_t>(2, panels) : panels,
                   warps[0] * warps[1], tile.getStages()};
  if (tile.getRole() == TileRole::Codes)
    return codeGemvTile(gemv, spec);
  // A chunk whose codes have high bits takes twice the registers.
  if (spec.layout.highBits)
    gemv.loads = std::max<int64_t>(1, gemv.loads / 2);
  return gemv;
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

class GemvEmitter : GemvBlock {
public:
  GemvEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuGemvTile &tile)
      : GemvBlock(module, name, spec, tile, sumBytes(tile)), weights(b, spec.layout, spec.k, lane) {}
  gpu::GPUFuncOp emit();

private:
  using Chunk = WeightChunks::Chunk;

  // Sums of a lane: (tile rows, panels, 4), one of each row of its chunks.
  static int64_t numSums(const GpuGemvTile &tile) { return tile.rows * tile.panels * 4; }
  static int64_t sumBytes(const GpuGemvTile &tile) { return tile.warps * numSums(tile) * 4 * 4; }

  SmallVector<Value> walk();
  SmallVector<Chunk> load(Value place);
  SmallVector<Value> addChunks(ArrayRef<Chunk> chunks, Value place, ValueRange sums);
  SmallVector<Value> loadAct(int64_t row, Value column, ArrayRef<Value> factors);
  void share(SmallVector<Value> sums);
  Value sumOf(Value row, Value panel, Value inPanel);

  WeightChunks weights;
  SmallVector<Value> panels; // of the block's, the first byte
};

} // namespace

gpu::GPUFuncOp GemvEmitter::emit() {
  // Two blocks are 128 registers a thread, with which codes of 2, 3 and 5 bits spill, and those of 6 in many rows that end with heads.
  int64_t codeBits = spec.layout.isQuantized() ? spec.layout.lowBits() + spec.layout.highBits : 0;
  bool isLarge = codeBits == 2 || codeBits == 3 || codeBits == 5 || (codeBits == 6 && spec.heads && tile.rows > 2);
  b.setBlocksPerProcessor(isLarge ? 1 : 2);
  for (int64_t i = 0; i < tile.panels; ++i)
    panels.push_back(panelAt(b.add(blockPanel, i)));
  beginRows();
  share(walk());
  b.barrier(); // the sums of all warps are there
  finish(blockPanel, [&](Value row, Value panel, Value inPanel) { return sumOf(row, panel, inPanel); });
  if (spec.heads)
    finishHeads();
  return b.finish();
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

gpu::GPUFuncOp heddle::buildGpuGemv(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                    const GpuGemvTile &tile) {
  return tile.slice ? buildCodeGemv(module, name, spec, tile) : GemvEmitter(module, name, spec, tile).emit();
}
