// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/PackedMatmul.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/GpuMath.h"
#include "compiler/codegen/targets/cuda/MatmulBlock.h"
#include "compiler/codegen/targets/cuda/MatmulHost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static GpuMatmulTile tileOf(TileAttr tile) {
  ArrayRef<int64_t> warps = tile.getWarps();
  int64_t maxRows = tile.getMaxRows() ? tile.getMaxRows() : INT32_MAX;
  return {maxRows,           tile.getRows().front(),
          tile.getColumns(), tile.getK(),
          warps[0],          warps[1],
          tile.getStages(),  tile.getRole() == TileRole::Warpgroups};
}

GpuMatmulSpec heddle::gpuSpecOf(const MatmulSpec &spec) {
  return {spec.n,          spec.k,        spec.layout,  spec.activation, spec.hasBias,
          spec.accumulate, spec.epilogue, spec.isGated, spec.prepares};
}

// Blocks that keep three of four multiprocessors of 132 at work.
static constexpr int64_t enoughBlocks = 99;

// The most rows for which the tile has too few blocks.
static int64_t fewRowsOf(const GpuMatmulTile &tile, const GpuMatmulSpec &spec) {
  int64_t blocksOfRow = llvm::divideCeil(spec.weightPanels() * 16, tile.blockN) * tile.splits;
  return (llvm::divideCeil(enoughBlocks, blocksOfRow) - 1) * tile.blockM;
}

// A tile is taken for more rows than its own where the larger one has too few blocks, but W is not read more than eight times.
static int64_t mostRowsOf(const GpuMatmulTile &tile, const GpuMatmulTile &larger, const GpuMatmulSpec &spec) {
  constexpr int64_t mostReads = 8;
  return std::max(tile.maxRows, std::min(fewRowsOf(larger, spec), mostReads * tile.blockM));
}

// Tiles whose blocks share out K, for as many rows as leave multiprocessors idle, and one row of blocks. Of more rows, smaller tiles of all of K are faster on an H200 (512 rows, 2,048
// by 2,048: 15.6 us beside 27.5; by 8,192 49 beside 61), so the largest tile has none.
static void addSplits(SmallVectorImpl<GpuMatmulTile> &tiles, const GpuMatmulSpec &spec) {
  constexpr int64_t mostSplits = 4, leastSlices = 4;
  for (size_t i = 1, numWhole = tiles.size(); i < numWhole; ++i) {
    GpuMatmulTile tile = tiles[i];
    int64_t slices = llvm::divideCeil(spec.k, tile.blockK);
    for (int64_t splits = 2; splits <= mostSplits; splits *= 2) {
      tile.splits = splits / 2; // whose blocks are too few
      tile.maxRows = std::min(fewRowsOf(tile, spec), tile.blockM);
      tile.splits = splits;
      if (tile.maxRows > 0 && tile.finishesRows(spec.isGated) && slices % splits == 0 && slices / splits >= leastSlices)
        tiles.push_back(tile);
    }
  }
}

SmallVector<GpuMatmulTile> heddle::tensorCoreTiles(ScheduleAttr schedule, const GpuMatmulSpec &spec) {
  bool isTaken =
      spec.layout.isQuantized() ? spec.layout.book == CodeBook::None : spec.layout.numbers == PackedNumbers::BF16;
  SmallVector<GpuMatmulTile> tiles;
  // cp.async takes rows that begin at 16 bytes.
  if (spec.activation != MatmulActivation::Bf16 || !isTaken || spec.k % 8)
    return tiles;
  for (TileAttr scheduled : schedule.getTiles()) {
    if (scheduled.getRole() != TileRole::Rows && scheduled.getRole() != TileRole::Warpgroups)
      continue;
    GpuMatmulTile tile = tileOf(scheduled);
    if (tile.isOfWarpgroups && !tiles.empty())
      tile.maxRows = mostRowsOf(tile, tiles.back(), spec);
    tiles.push_back(tile);
  }
  if (tiles.front().isOfWarpgroups)
    addSplits(tiles, spec);
  return tiles;
}

LogicalResult heddle::verifyGpuMatmul(const GpuMatmulSpec &spec, std::string &error) {
  auto fail = [&](const Twine &message) {
    error = message.str();
    return failure();
  };
  // Byte offsets inside a row and rows of a matrix are i32.
  if (spec.n < 1 || spec.k < 1 || spec.weightRows() > (1 << 24) || spec.k > (1 << 24))
    return fail("a product of n (" + Twine(spec.n) + ") by k (" + Twine(spec.k) + ") must lie between 1 and 2^24");
  if (spec.isGated && spec.n % 16)
    return fail("a gated product needs n (" + Twine(spec.n) + ") to be a multiple of 16");
  if (spec.isGated && spec.hasBias)
    return fail("a gated product takes no bias");
  return success();
}

Value heddle::biasOf(GpuBuilder &b, const GpuMatmulSpec &spec, Value bias, Value column) {
  return spec.hasBias ? b.load(b.getF32Type(), b.at(bias, column, 4)) : Value();
}

Value heddle::emitEpilogue(GpuBuilder &b, const GpuMatmulSpec &spec, Value biasOfColumn, Value sum) {
  return emitActivation(b, spec.epilogue, biasOfColumn ? b.addF(sum, biasOfColumn) : sum);
}

namespace {

// By mma.sync: a warp has warpM x warpN outputs.
class MatmulEmitter : MatmulBlock {
public:
  MatmulEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuMatmulTile &tile);
  gpu::GPUFuncOp emit();

private:
  int64_t rowTiles() const { return tile.warpM() / 16; }
  int64_t columnTiles() const { return tile.warpN() / 8; }

  SmallVector<Value> compute(Value stage, ValueRange sums);
  void finish(ValueRange sums);
  void finishRow(ArrayRef<Value> values, Value row);
  void storePair(Value low, Value high, Value row, Value column);
  Value finishValue(Value sum, Value column);

  Value warpRow, warpColumn;
  SmallVector<Value> actLane; // [k / 16]: the lane's offset in the warp's first 16 rows
  Value weightLane[2];        // in rows 0-7 and 8-15 of the warp's first panel
};

} // namespace

MatmulEmitter::MatmulEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                             const GpuMatmulTile &tile)
    : MatmulBlock(module, name, spec, tile) {
  warpRow = b.mul(b.divide(warp, tile.warpsN), tile.warpM());
  warpColumn = b.mul(b.remainder(warp, tile.warpsN), tile.warpN());
  for (int64_t k = 0; k < tile.blockK; k += 16)
    actLane.push_back(b.add(actTile.laneOffset(lane, k / chunkElements, SharedTile::Order::ByRows),
                            b.mul(warpRow, actTile.rowBytes())));
  for (int64_t half : {0, 1})
    weightLane[half] = b.add(panels.laneOffset(lane, half), b.mul(b.divide(warpColumn, 16), panels.panelBytes()));
}

gpu::GPUFuncOp MatmulEmitter::emit() {
  loadFirst(tile.stages - 1);
  // sums += act slice @ weights slice^T, while the slices ahead are on their way.
  SmallVector<Value> carried(rowTiles() * columnTiles() * 4, b.constantF32(0));
  carried.push_back(b.constant(0));
  carried.push_back(b.constant((tile.stages - 1) * tile.stageBytes()));
  carried = b.fold(b.constant(0), b.constant(slices()), carried, [&](Value slice, ValueRange values) {
    Value read = values[values.size() - 2], write = values.back(), nextRead = nextStage(read);
    SmallVector<WeightChunks::Chunk> codes = loadCodes(b.add(slice, 1)); // on their way meanwhile
    b.waitCopies(tile.stages - 2);
    // Everyone's copies have landed, and everyone has done with the slice that is overwritten now.
    b.barrier();
    loadNext(b.add(slice, tile.stages - 1), write);
    SmallVector<Value> next = compute(read, values.drop_back(2));
    storeCodes(codes, nextRead);
    next.push_back(nextRead);
    next.push_back(nextStage(write));
    return next;
  });
  finish(ValueRange(carried).drop_back(2));
  return b.finish();
}

SmallVector<Value> MatmulEmitter::compute(Value stage, ValueRange values) {
  SmallVector<Value> sums(values);
  for (int64_t k = 0; k < tile.blockK / 16; ++k) {
    SmallVector<FragmentA> a;
    SmallVector<FragmentB> w;
    for (int64_t i = 0; i < rowTiles(); ++i)
      a.push_back(b.loadMatrices(actTile.address(b.add(actLane[k], i * 16 * actTile.rowBytes()), stage), false));
    for (int64_t j = 0; j < columnTiles(); ++j)
      w.push_back(panels.load(weightLane[j % 2], j / 2 * panels.panelBytes() + k * 8 * SharedPanels::pairBytes, stage));
    for (int64_t i = 0; i < rowTiles(); ++i)
      for (int64_t j = 0; j < columnTiles(); ++j) {
        int64_t at = (i * columnTiles() + j) * 4;
        Accumulators sum = b.multiply(a[i], w[j], {sums[at], sums[at + 1], sums[at + 2], sums[at + 3]});
        std::copy(sum.begin(), sum.end(), sums.begin() + at);
      }
  }
  return sums;
}

void MatmulEmitter::finish(ValueRange sums) {
  for (int64_t i = 0; i < rowTiles(); ++i)
    for (int64_t half = 0; half < 2; ++half) {
      Value row = b.add(b.add(blockRow, warpRow), b.add(b.divide(lane, 4), i * 16 + half * 8));
      SmallVector<Value> values;
      for (int64_t j = 0; j < columnTiles(); ++j) {
        int64_t at = (i * columnTiles() + j) * 4 + half * 2;
        values.append({sums[at], sums[at + 1]});
      }
      b.ifThen(b.lessThan(row, rows), [&] { finishRow(values, row); });
    }
}

// The pairs of adjacent columns that this thread holds of a row, 8 columns apart from pair to pair.
void MatmulEmitter::finishRow(ArrayRef<Value> values, Value row) {
  Value pairColumn = b.mul(b.remainder(lane, 4), 2);
  if (!spec.isGated) {
    for (int64_t j = 0; j < columnTiles(); ++j)
      storePair(values[2 * j], values[2 * j + 1], row, b.add(b.add(blockColumn, warpColumn), b.add(pairColumn, 8 * j)));
    return;
  }
  // 16 rows of the gate's, then the same 16 of the up projection's.
  Value firstColumn = b.divide(b.add(blockColumn, warpColumn), 2);
  for (int64_t panel = 0; panel < columnTiles() / 4; ++panel)
    for (int64_t j = 0; j < 2; ++j) {
      Value pair[2];
      for (int64_t i = 0; i < 2; ++i) {
        int64_t gate = 2 * (4 * panel + j) + i;
        pair[i] = b.mulF(emitActivation(b, spec.epilogue, values[gate]), values[gate + 4]);
      }
      storePair(pair[0], pair[1], row, b.add(b.add(firstColumn, pairColumn), 16 * panel + 8 * j));
    }
}

Value MatmulEmitter::finishValue(Value value, Value column) {
  return spec.isGated ? value : emitEpilogue(b, spec, biasOf(b, spec, bias, column), value);
}

void MatmulEmitter::storePair(Value low, Value high, Value row, Value column) {
  Value to = place(row, column);
  auto pairType = VectorType::get({2}, b.getF32Type());
  Value end = b.constant(spec.n);
  if (spec.n % 2 == 0) {
    b.ifThen(b.lessThan(column, end), [&] {
      Value first = finishValue(low, column), second = finishValue(high, b.add(column, 1));
      if (spec.accumulate) {
        Value before = b.load(pairType, to);
        first = b.addF(first, b.element(before, 0));
        second = b.addF(second, b.element(before, 1));
      }
      b.store(b.vector({first, second}), to);
    });
    return;
  }
  for (auto [i, value] : {std::pair(0, low), std::pair(1, high)}) {
    Value at = b.add(column, i), address = b.at(to, b.constant(i), 4);
    b.ifThen(b.lessThan(at, end), [&, value = value] { put(finishValue(value, at), address); });
  }
}

gpu::GPUFuncOp heddle::buildGpuMatmul(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                      const GpuMatmulTile &tile) {
  return tile.isOfWarpgroups ? buildWarpgroupMatmul(module, name, spec, tile)
                             : MatmulEmitter(module, name, spec, tile).emit();
}

//===- host code ----------------------------------------------------------===//

using MatmulFunction = HostKernelOf<MatmulCall, LaunchBuilder>;

namespace {

class PackedMatmul : public KernelEmitterOf<PackedMatmulOp> {
public:
  PackedMatmul(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable)
      : gpu(gpu), portable(std::move(portable)) {}

  bool canEmit(Operation *op, std::string &missing) const override { return portable->canEmit(op, missing); }

protected:
  FailureOr<std::string> nameOf(PackedMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  // To the kernel of any device.
  FailureOr<Kernels> leave(PackedMatmulOp op, ScheduleAttr schedule, StringRef name, KernelModule &module,
                           StringRef missing) const;

  std::optional<GpuKernels> &gpu;
  std::unique_ptr<KernelEmitter> portable;
};

} // namespace

FailureOr<Kernels> PackedMatmul::build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  FailureOr<MatmulSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  GpuMatmulSpec product = gpuSpecOf(*spec);
  std::string missing;
  if (failed(verifyGpuGemv(product, missing)))
    return leave(op, schedule, name, module, missing);
  bool readsInput = readsRowsOf(op.getInput(), product.k);
  if (!readsInput && !product.prepares)
    return leave(op, schedule, (name + "_slice").str(), module, "of a part of wider rows");
  std::string kernel = (name + (readsInput ? "" : "_slice")).str();
  return oneKernel(module.once(kernel, [&] {
    MatmulFunction l(op.getLoc(), module.code, kernel, product.prepares ? MatmulCall::Prepared : MatmulCall::Dense);
    MatmulHost(l, *gpu, kernel, product, l.call).run(schedule, product.prepares && readsInput);
    return l.finish();
  }));
}

FailureOr<Kernels> PackedMatmul::leave(PackedMatmulOp op, ScheduleAttr schedule, StringRef name, KernelModule &module,
                                       StringRef missing) const {
  if (!module.code.lookupSymbol(name))
    op.emitRemark("'") << name << "' is a kernel of any device: CUDA has none " << missing;
  return portable->emit(op, schedule, name, module);
}

std::unique_ptr<KernelEmitter> heddle::cuda::packedMatmul(std::optional<GpuKernels> &gpu,
                                                          std::unique_ptr<KernelEmitter> portable) {
  return std::make_unique<PackedMatmul>(gpu, std::move(portable));
}
