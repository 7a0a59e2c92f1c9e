// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with weights of codes on tensor cores: 16 rows of a panel are the left operand, and rows of activations the right one, each as two columns of
// bf16: hi = bf16(x) and lo = bf16(x - hi), whose sum is x within 2^-18 of it. What a block of codes adds up is scaled in f32; its mins meet the
// sums of its columns, which are a product with ones. Warps share out K by places, and their sums are added warp by warp.

#include "compiler/codegen/targets/cuda/CodeFragments.h"
#include "compiler/codegen/targets/cuda/GemvBlock.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t placeColumns = CodeFragments::placeColumns, stepColumns = CodeFragments::stepColumns;
static constexpr int64_t panelRows = PackedLayout::panelRows;
// Rows of activations in the 8 columns of a fragment B.
static constexpr int64_t rowsOfTile = 4;
// What a fragment B reads of a place for a column, 16 bytes for each lane; a row has two.
static constexpr int64_t columnBytes = 2 * placeColumns, rowBytes = 2 * columnBytes;
// Sums of a warp and a row tile: (16, 4).
static constexpr int64_t tileSums = panelRows * rowsOfTile;
// Of rows in shared memory: with sums a block stays below the 99 KiB that it may have on sm_86 and sm_89.
static constexpr int64_t mostStagedBytes = int64_t(64) << 10;
static constexpr int64_t multiprocessors = 132, blocksPerProcessor = 2;
static constexpr int64_t mostLoads = 8;
// Sets of panels that are on their way to the second-level cache: registers alone hold too few bytes.
static constexpr int64_t setsAhead = 2;

bool heddle::hasCodeGemv(const GpuMatmulSpec &spec) {
  return CodeFragments::takes(spec.layout, spec.k);
}

static int64_t stagedBytes(const GpuGemvTile &tile) {
  return tile.rows * tile.slice * 4;
}

// The schedule's `loads` are registers on their way.
GpuGemvTile heddle::codeGemvTile(GpuGemvTile tile, const GpuMatmulSpec &spec) {
  assert(tile.warps == CodeFragments::numWarps && "a step is of so many warps");
  int64_t steps = llvm::divideCeil(spec.k, stepColumns);
  int64_t most = tile.loads / (tile.panels * CodeFragments::registers(spec.layout));
  int64_t rounds = llvm::divideCeil(steps, std::clamp<int64_t>(most, 1, mostLoads));
  tile.loads = llvm::divideCeil(steps, rounds);
  int64_t roundColumns = tile.loads * stepColumns;
  tile.slice = std::clamp<int64_t>(mostStagedBytes / (tile.rows * 4 * roundColumns), 1, rounds) * roundColumns;
  // Rows that are staged once serve all panels of the block. The panels of a head have a block each.
  int64_t panels = llvm::divideCeil(spec.weightPanels(), tile.panels);
  if (!spec.heads && tile.slice >= spec.k)
    tile.sets = llvm::divideCeil(panels, blocksPerProcessor * multiprocessors);
  return tile;
}

static int64_t rowTilesOf(const GpuGemvTile &tile) {
  return llvm::divideCeil(tile.rows, rowsOfTile);
}
static int64_t sumBytes(const GpuGemvTile &tile) {
  return tile.warps * tile.panels * rowTilesOf(tile) * tileSums * 4;
}
// Sets of panels take turns with two copies of the sums.
static int64_t ownBytes(const GpuGemvTile &tile) {
  return stagedBytes(tile) + sumBytes(tile) * (tile.sets > 1 ? 2 : 1);
}

int64_t GpuGemvTile::sharedBytes(const GpuMatmulSpec &spec) const {
  return slice ? launchedSharedBytes(ownBytes(*this) + preparingBytes(spec, *this)) : 0;
}

namespace {

class CodeGemvEmitter : GemvBlock {
public:
  CodeGemvEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuGemvTile &tile)
      : GemvBlock(module, name, spec, tile, ownBytes(tile)), codes(b, spec.layout, spec.k, lane, warp) {}
  gpu::GPUFuncOp emit();

private:
  // Values of a round of steps on their way.
  using Loaded = SmallVector<Value>;
  // Sums of a lane: (panels, row tiles, 2), of rows 2 g and 2 g + 1 of a panel and row t of a tile.
  using Sums = SmallVector<Value>;

  int64_t rowTiles() const { return rowTilesOf(tile); }
  int64_t rounds() const { return codes.steps() / tile.loads + (codes.steps() % tile.loads != 0); }
  int64_t roundsOfSlice() const { return tile.slice / (tile.loads * stepColumns); }
  bool isStagedOnce() const { return tile.slice >= spec.k; }

  void stage(Value slice);
  void stageQuad(Value firstColumn, Value quad);
  SmallVector<Value> panelsOf(Value set);
  void fetch(Value set);
  Loaded load(ValueRange panels, Value round);
  Sums multiply(ArrayRef<Value> loaded, Value round, ValueRange before);
  void addBlock(const CodeFragments::Block &block, ArrayRef<SmallVector<FragmentB>> act, ArrayRef<Value> columnSums,
                int64_t panel, Sums &sums);
  std::array<Value, 2> sumOfPair(ArrayRef<FragmentA> a, ArrayRef<FragmentB> act);
  Loaded computeSet(Value set, Loaded loaded);
  void share(ValueRange sums, Value firstByte);

  CodeFragments codes;
};

} // namespace

gpu::GPUFuncOp CodeGemvEmitter::emit() {
  // The scales of 16 rows take registers as well as what mins do.
  bool isLarge = tile.rows > rowsOfTile && codes.hasMins() && spec.prepares;
  b.setBlocksPerProcessor(isLarge ? 1 : blocksPerProcessor);
  Value first = b.constant(0);
  for (int64_t set = rounds() > 1 ? 0 : 1; set < std::min(setsAhead, tile.sets); ++set)
    fetch(b.constant(set));
  // W is on its way while rows are prepared.
  Loaded loaded = load(panelsOf(first), first);
  beginRows();
  if (isStagedOnce())
    stage(first);
  if (tile.sets == 1)
    computeSet(first, loaded);
  else
    b.fold(first, b.constant(tile.sets), loaded,
           [&](Value set, ValueRange values) { return computeSet(set, Loaded(values)); });
  if (spec.heads)
    finishHeads();
  return b.finish();
}

// By all threads: the rows' columns from slice * tile.slice on, zeros behind the last one. (places, rows, hi and lo, 4 quads t, quads t and t + 4, 4) of bf16,
// of a quad columns 0, 2, 1 and 3: a lane reads its two registers of a fragment B for both halves of a place at once.
void CodeGemvEmitter::stage(Value slice) {
  Value firstColumn = b.mul(slice, tile.slice);
  int64_t quads = tile.slice / 4, threads = tile.threads();
  if (quads / threads)
    b.fold(b.constant(0), b.constant(quads / threads), {}, [&](Value round, ValueRange) {
      stageQuad(firstColumn, b.add(b.mul(round, threads), b.threadIndex()));
      return SmallVector<Value>();
    });
  if (quads % threads)
    b.ifThen(b.lessThan(b.threadIndex(), b.constant(quads % threads)),
             [&] { stageQuad(firstColumn, b.add(b.threadIndex(), quads / threads * threads)); });
  b.barrier(); // the slice is there
}

void CodeGemvEmitter::stageQuad(Value firstColumn, Value quad) {
  bool mayEnd = spec.k % tile.slice;
  Value column = b.add(firstColumn, b.mul(quad, 4)), isThere;
  if (mayEnd) {
    isThere = b.lessThan(column, b.constant(spec.k));
    column = b.min(column, b.constant(spec.k - 4));
  }
  SmallVector<Value> factors = prepared ? prepared->factors(column, 4) : SmallVector<Value>();
  Value inPlace = b.remainder(quad, 8);
  Value to = b.add(b.mul(b.divide(quad, 8), tile.rows * rowBytes),
                   b.add(b.mul(b.remainder(inPlace, 4), 16), b.mul(b.divide(inPlace, 4), 8)));
  for (int64_t row = 0; row < tile.rows; ++row) {
    Type type = readsBf16() ? VectorType::get({2}, b.getI32Type()) : VectorType::get({4}, b.getF32Type());
    Value loaded = b.load(type, b.at(act[row], column, actBytes()));
    SmallVector<Value> x;
    for (int64_t i = 0; i < (readsBf16() ? 2 : 4); ++i)
      if (readsBf16())
        llvm::append_range(x, b.unpackBf16(b.element(loaded, i)));
      else
        x.push_back(b.element(loaded, i));
    if (prepared)
      x = prepared->prepare(row, x, factors);
    Value hi[2], lo[2];
    for (int64_t i = 0; i < 2; ++i) {
      Value even = x[i], odd = x[i + 2];
      if (isThere) {
        even = b.select(isThere, even, b.constantF32(0));
        odd = b.select(isThere, odd, b.constantF32(0));
      }
      hi[i] = b.packBf16(even, odd);
      std::array<Value, 2> rounded = b.unpackBf16(hi[i]);
      lo[i] = b.packBf16(b.subF(even, rounded[0]), b.subF(odd, rounded[1]));
    }
    b.store(b.vector({hi[0], hi[1]}), b.shared(b.add(to, row * rowBytes)));
    b.store(b.vector({lo[0], lo[1]}), b.shared(b.add(to, row * rowBytes + columnBytes)));
  }
}

SmallVector<Value> CodeGemvEmitter::panelsOf(Value set) {
  SmallVector<Value> panels;
  for (int64_t i = 0; i < tile.panels; ++i)
    panels.push_back(panelAt(b.add(b.add(blockPanel, b.mul(set, tile.panels)), i)));
  return panels;
}

// A line of 128 bytes for each thread at once.
void CodeGemvEmitter::fetch(Value set) {
  constexpr int64_t lineBytes = 128;
  int64_t lines = llvm::divideCeil(spec.panelBytes(), lineBytes);
  for (Value panel : panelsOf(set))
    for (int64_t first = 0; first < lines; first += tile.threads()) {
      Value line = b.min(b.add(b.threadIndex(), first), b.constant(lines - 1));
      b.prefetch(b.at(panel, line, lineBytes));
    }
}

CodeGemvEmitter::Loaded CodeGemvEmitter::load(ValueRange panels, Value round) {
  Loaded loaded;
  for (Value panel : panels)
    codes.load(panel, b.mul(round, tile.loads), tile.loads, loaded);
  return loaded;
}

// The sums of a set of panels, finished; returns the first round of the next set on its way.
CodeGemvEmitter::Loaded CodeGemvEmitter::computeSet(Value set, Loaded loaded) {
  Value nextSet = b.add(set, 1), hasNext = b.lessThan(nextSet, b.constant(tile.sets));
  SmallVector<Value> panels = panelsOf(set), nextPanels = tile.sets > 1 ? panelsOf(nextSet) : panels;
  if (tile.sets > setsAhead)
    fetch(b.add(set, setsAhead));
  Sums sums(tile.panels * rowTiles() * 2, b.constantF32(0));
  size_t numSums = sums.size();
  SmallVector<Value> carried(sums);
  llvm::append_range(carried, loaded);
  carried = b.fold(b.constant(0), b.constant(rounds()), carried, [&](Value round, ValueRange values) {
    if (!isStagedOnce())
      b.ifThen(b.equal(b.remainder(round, roundsOfSlice()), b.constant(0)), [&] {
        b.barrier(); // nobody reads the slice before
        stage(b.divide(round, roundsOfSlice()));
      });
    Value nextRound = b.add(round, 1), isLast = b.equal(nextRound, b.constant(rounds()));
    Value isNext = b.select(isLast, hasNext, b.constantBool(true));
    SmallVector<Value> from;
    for (auto [panel, next] : llvm::zip(panels, nextPanels))
      from.push_back(tile.sets > 1 ? b.select(isLast, next, panel) : panel);
    Loaded present(values.drop_front(numSums));
    Loaded ahead = b.ifElse(isNext, present, [&] { return load(from, b.select(isLast, b.constant(0), nextRound)); });
    SmallVector<Value> next = multiply(present, round, values.take_front(numSums));
    llvm::append_range(next, ahead);
    return next;
  });
  int64_t sumsBegin = stagedBytes(tile);
  Value firstByte = b.add(b.mul(b.remainder(set, 2), sumBytes(tile)), sumsBegin);
  share(ValueRange(carried).take_front(numSums), firstByte);
  b.barrier(); // the sums of all warps are there
  finish(b.add(blockPanel, b.mul(set, tile.panels)), [&](Value row, Value panel, Value inPanel) {
    Value index = b.add(b.mul(panel, rowTiles()), b.divide(row, rowsOfTile));
    Value place = b.add(b.mul(index, tileSums), b.add(b.mul(inPanel, rowsOfTile), b.remainder(row, rowsOfTile))), sum;
    for (int64_t i = 0; i < tile.warps; ++i) {
      Value at = b.add(b.mul(b.add(place, i * tile.panels * rowTiles() * tileSums), 4), firstByte);
      Value ofWarp = b.load(b.getF32Type(), b.shared(at));
      sum = sum ? b.addF(sum, ofWarp) : ofWarp;
    }
    return sum;
  });
  return Loaded(ValueRange(carried).drop_front(numSums));
}

CodeGemvEmitter::Sums CodeGemvEmitter::multiply(ArrayRef<Value> loaded, Value round, ValueRange before) {
  static constexpr int64_t ones = 0x3f803f80;
  Sums sums(before);
  // Columns that no row has are another's again, which nobody reads.
  int64_t columns = 2 * std::min(tile.rows, rowsOfTile), placeBytes = tile.rows * rowBytes;
  Value column = b.min(b.divide(lane, 4), b.constant(columns - 1));
  Value inSlice = isStagedOnce() ? round : b.remainder(round, roundsOfSlice());
  Value place = b.add(b.mul(inSlice, tile.loads * CodeFragments::numWarps), warp);
  Value from = b.add(b.mul(place, placeBytes), b.add(b.mul(column, columnBytes), b.mul(b.remainder(lane, 4), 16)));
  size_t ofPanel = loaded.size() / tile.panels;
  SmallVector<ArrayRef<Value>> left;
  for (int64_t panel = 0; panel < tile.panels; ++panel)
    left.push_back(loaded.slice(panel * ofPanel, ofPanel));
  int64_t blocks = codes.blocks(), halves = 2 / blocks;
  for (int64_t step = 0; step < tile.loads; ++step) {
    // [block][row tile]: for each 16 columns
    SmallVector<SmallVector<SmallVector<FragmentB>>> act(blocks, SmallVector<SmallVector<FragmentB>>(rowTiles()));
    for (int64_t rowTile = 0; rowTile < rowTiles(); ++rowTile) {
      int64_t offset = step * CodeFragments::numWarps * placeBytes + rowTile * rowsOfTile * rowBytes;
      Value words = b.load(VectorType::get({4}, b.getI32Type()), b.shared(b.add(from, offset)));
      for (int64_t half = 0; half < 2; ++half)
        act[half / halves][rowTile].push_back({b.element(words, 2 * half), b.element(words, 2 * half + 1)});
    }
    SmallVector<SmallVector<Value>> columnSums(blocks);
    for (int64_t block = 0; codes.hasMins() && block < blocks; ++block)
      for (int64_t rowTile = 0; rowTile < rowTiles(); ++rowTile) {
        FragmentA a;
        a.fill(b.constant(ones));
        columnSums[block].push_back(sumOfPair(SmallVector<FragmentA>(halves, a), act[block][rowTile])[0]);
      }
    for (int64_t panel = 0; panel < tile.panels; ++panel)
      for (auto [block, unpacked] : llvm::enumerate(codes.unpack(left[panel])))
        addBlock(unpacked, act[block], columnSums[block], panel, sums);
  }
  return sums;
}

// a @ act of both rows of the panel, hi and lo together.
std::array<Value, 2> CodeGemvEmitter::sumOfPair(ArrayRef<FragmentA> a, ArrayRef<FragmentB> act) {
  Accumulators sums;
  sums.fill(b.constantF32(0));
  for (auto [left, right] : llvm::zip_equal(a, act))
    sums = b.multiply(left, right, sums);
  return {b.addF(sums[0], sums[1]), b.addF(sums[2], sums[3])};
}

void CodeGemvEmitter::addBlock(const CodeFragments::Block &block, ArrayRef<SmallVector<FragmentB>> act,
                               ArrayRef<Value> columnSums, int64_t panel, Sums &sums) {
  for (int64_t rowTile = 0; rowTile < rowTiles(); ++rowTile) {
    std::array<Value, 2> ofBlock = sumOfPair(block.fragments, act[rowTile]);
    for (int64_t row = 0; row < 2; ++row) {
      Value &sum = sums[(panel * rowTiles() + rowTile) * 2 + row];
      sum = b.fma(block.scale[row], ofBlock[row], sum);
      if (block.min[row])
        sum = b.fma(block.min[row], columnSums[rowTile], sum);
    }
  }
}

// Into shared memory: (warps, panels, row tiles, 16, 4) of f32.
void CodeGemvEmitter::share(ValueRange sums, Value firstByte) {
  Value inTile = b.add(b.mul(b.divide(lane, 4), 2 * rowsOfTile), b.remainder(lane, 4));
  Value first = b.add(b.mul(b.add(b.mul(warp, tile.panels * rowTiles() * tileSums), inTile), 4), firstByte);
  for (auto [i, sum] : llvm::enumerate(sums))
    b.store(sum, b.shared(b.add(first, (int64_t(i) / 2 * tileSums + int64_t(i) % 2 * rowsOfTile) * 4)));
}

gpu::GPUFuncOp heddle::buildCodeGemv(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                     const GpuGemvTile &tile) {
  return CodeGemvEmitter(module, name, spec, tile).emit();
}
