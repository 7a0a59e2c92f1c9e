// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/PackedMatmul.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/GpuMath.h"
#include "compiler/codegen/targets/cuda/MatmulHost.h"
#include "compiler/codegen/targets/cuda/SharedTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

GpuMatmulTile heddle::tileOf(TileAttr tile) {
  ArrayRef<int64_t> warps = tile.getWarps();
  int64_t maxRows = tile.getMaxRows() ? tile.getMaxRows() : INT32_MAX;
  return {maxRows, tile.getRows().front(), tile.getColumns(), tile.getK(), warps[0], warps[1], tile.getStages()};
}

GpuMatmulSpec heddle::gpuSpecOf(const MatmulSpec &spec) {
  return {spec.n,          spec.k,        spec.layout,  spec.activation, spec.hasBias,
          spec.accumulate, spec.epilogue, spec.isGated, spec.prepares};
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

Value heddle::emitEpilogue(GpuBuilder &b, const GpuMatmulSpec &spec, Value bias, Value sum, Value column) {
  if (spec.hasBias)
    sum = b.addF(sum, b.load(b.getF32Type(), b.at(bias, column, 4)));
  return emitActivation(b, spec.epilogue, sum);
}

namespace {

// A slice of blockK columns of the block's rows on its way to shared memory: what each thread copies.
struct SliceCopies {
  SmallVector<Value> shared; // byte offsets in the tile
  SmallVector<Value> global; // first byte to copy in the matrix' first slice
  SmallVector<Value> column; // first column in the slice, i32
  SmallVector<Value> inside; // the row or panel exists, i1; null: it does always
};

class MatmulEmitter {
public:
  MatmulEmitter(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec, const GpuMatmulTile &tile)
      : spec(spec), tile(tile),
        b(module, name, parameters(module.getContext()), tile.threads(), tile.stages * stageBytes(tile)),
        actTile(b, tile.blockM, tile.blockK, 0), panels(b, tile.blockK, actTile.bytes()) {}
  gpu::GPUFuncOp emit();

private:
  static SmallVector<Type> parameters(MLIRContext *context) {
    SmallVector<Type> types(4, GpuBuilder::globalPointer(context));
    types.push_back(IntegerType::get(context, 32));
    types.append(2, IntegerType::get(context, 64));
    return types;
  }
  static int64_t stageBytes(const GpuMatmulTile &tile) { return (tile.blockM + tile.blockN) * tile.blockK * 2; }
  int64_t slices() const { return llvm::divideCeil(spec.k, tile.blockK); }
  int64_t rowTiles() const { return tile.warpM() / 16; }
  int64_t columnTiles() const { return tile.warpN() / 8; }

  void setUp();
  void planActCopies();
  void planWeightCopies();
  template <typename Tile>
  void copySlice(Tile &to, const SliceCopies &copies, int64_t end, int64_t sliceBytes, int64_t columns, Value slice,
                 Value stage);
  void load(Value slice, Value stage);
  SmallVector<Value> compute(Value stage, ValueRange sums);
  void finish(ValueRange sums);
  void finishRow(ArrayRef<Value> values, Value row);
  void storePair(Value low, Value high, Value row, Value column);
  Value finishValue(Value sum, Value column);
  Value nextStage(Value stage);

  const GpuMatmulSpec &spec;
  const GpuMatmulTile &tile;
  GpuBuilder b;
  SharedTile actTile;
  SharedPanels panels;
  Value act, weights, bias, out, rows, actStride, outStride;
  Value lane, warpRow, warpColumn, blockRow, blockColumn;
  SliceCopies actCopies, weightCopies;
  SmallVector<Value> actLane; // [k / 16]: the lane's offset in the warp's first 16 rows
  Value weightLane[2];        // in rows 0-7 and 8-15 of the warp's first panel
};

} // namespace

gpu::GPUFuncOp MatmulEmitter::emit() {
  // Setup.
  setUp();
  Value stage = b.constant(0);
  for (int64_t slice = 0; slice + 1 < tile.stages; ++slice) {
    if (slice < slices())
      load(b.constant(slice), b.constant(slice * stageBytes(tile)));
    b.commitCopies();
  }
  // sums += act slice @ weights slice^T, while the slices ahead are on their way.
  SmallVector<Value> carried(rowTiles() * columnTiles() * 4, b.constantF32(0));
  carried.push_back(stage);
  carried.push_back(b.constant((tile.stages - 1) * stageBytes(tile)));
  carried = b.fold(b.constant(0), b.constant(slices()), carried, [&](Value slice, ValueRange values) {
    Value read = values[values.size() - 2], write = values.back();
    b.waitCopies(tile.stages - 2);
    // Everyone's copies have landed, and everyone has done with the slice that is overwritten now.
    b.barrier();
    Value ahead = b.add(slice, tile.stages - 1);
    b.ifThen(b.lessThan(ahead, b.constant(slices())), [&] { load(ahead, write); });
    b.commitCopies();
    SmallVector<Value> next = compute(read, values.drop_back(2));
    next.push_back(nextStage(read));
    next.push_back(nextStage(write));
    return next;
  });
  // Finish.
  finish(ValueRange(carried).drop_back(2));
  return b.finish();
}

void MatmulEmitter::setUp() {
  act = b.argument(0), weights = b.argument(1), bias = b.argument(2), out = b.argument(3);
  rows = b.argument(4), actStride = b.argument(5), outStride = b.argument(6);
  Value thread = b.threadIndex(), warp = b.divide(thread, warpSize);
  lane = b.remainder(thread, warpSize);
  warpRow = b.mul(b.divide(warp, tile.warpsN), tile.warpM());
  warpColumn = b.mul(b.remainder(warp, tile.warpsN), tile.warpN());
  blockColumn = b.mul(b.blockIndex(0), tile.blockN);
  blockRow = b.mul(b.blockIndex(1), tile.blockM);
  planActCopies();
  planWeightCopies();
  for (int64_t k = 0; k < tile.blockK; k += 16)
    actLane.push_back(b.add(actTile.laneOffset(lane, k / chunkElements, SharedTile::Order::ByRows),
                            b.mul(warpRow, actTile.rowBytes())));
  for (int64_t half : {0, 1})
    weightLane[half] = b.add(panels.laneOffset(lane, half), b.mul(b.divide(warpColumn, 16), panels.panelBytes()));
}

void MatmulEmitter::planActCopies() {
  int64_t chunksPerRow = tile.blockK / chunkElements;
  for (int64_t first = 0; first < tile.blockM * chunksPerRow; first += tile.threads()) {
    Value index = b.add(b.threadIndex(), first);
    Value row = b.divide(index, chunksPerRow), chunk = b.remainder(index, chunksPerRow), actRow = b.add(blockRow, row);
    actCopies.shared.push_back(actTile.offsetOf(row, chunk));
    Value rowBegin = b.at(act, b.mul(b.wide(actRow), actStride), 2);
    actCopies.global.push_back(b.at(rowBegin, chunk, chunkBytes));
    actCopies.column.push_back(b.mul(chunk, chunkElements));
    actCopies.inside.push_back(b.lessThan(actRow, rows));
  }
}

// A panel's slice is one stretch of memory.
void MatmulEmitter::planWeightCopies() {
  int64_t chunksPerPanel = panels.panelBytes() / chunkBytes, panelsOfBlock = tile.blockN / 16;
  for (int64_t first = 0; first < panelsOfBlock * chunksPerPanel; first += tile.threads()) {
    Value index = b.add(b.threadIndex(), first), inPanel = b.remainder(index, chunksPerPanel);
    Value panel = b.divide(index, chunksPerPanel), pair = b.divide(inPanel, 4), chunk = b.remainder(inPanel, 4);
    weightCopies.shared.push_back(b.add(panels.offsetOf(pair, chunk), b.mul(panel, panels.panelBytes())));
    Value weightPanel = b.add(b.divide(blockColumn, 16), panel);
    weightCopies.global.push_back(b.at(b.at(weights, weightPanel, spec.panelBytes()), inPanel, chunkBytes));
    weightCopies.column.push_back(b.mul(pair, 2));
    bool mayEnd = spec.weightPanels() % panelsOfBlock;
    weightCopies.inside.push_back(mayEnd ? b.lessThan(weightPanel, b.constant(spec.weightPanels())) : Value());
  }
}

// A chunk holds `columns` columns, of which those from `end` on become 0; slices are `sliceBytes` apart.
template <typename Tile>
void MatmulEmitter::copySlice(Tile &to, const SliceCopies &copies, int64_t end, int64_t sliceBytes, int64_t columns,
                              Value slice, Value stage) {
  bool hasTail = spec.k % tile.blockK;
  for (size_t i = 0; i < copies.shared.size(); ++i) {
    Value bytes;
    if (hasTail) {
      Value left = b.sub(b.constant(end), b.add(b.mul(slice, tile.blockK), copies.column[i]));
      bytes = b.mul(b.max(b.constant(0), b.min(left, b.constant(columns))), chunkBytes / columns);
    }
    if (copies.inside[i])
      bytes = b.select(copies.inside[i], bytes ? bytes : b.constant(chunkBytes), b.constant(0));
    b.copyAsync(to.address(copies.shared[i], stage), b.at(copies.global[i], b.mul(slice, sliceBytes), 1), bytes);
  }
}

void MatmulEmitter::load(Value slice, Value stage) {
  copySlice(actTile, actCopies, spec.k, tile.blockK * 2, chunkElements, slice, stage);
  // A pair is there as a whole: what stands behind an odd K is 0.
  copySlice(panels, weightCopies, llvm::alignTo(spec.k, 2), panels.panelBytes(), 2, slice, stage);
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

Value MatmulEmitter::nextStage(Value stage) {
  Value next = b.add(stage, stageBytes(tile));
  return b.select(b.equal(next, b.constant(tile.stages * stageBytes(tile))), b.constant(0), next);
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
  return spec.isGated ? value : emitEpilogue(b, spec, bias, value, column);
}

void MatmulEmitter::storePair(Value low, Value high, Value row, Value column) {
  Value to = b.at(b.at(out, b.mul(b.wide(row), outStride), 4), column, 4);
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
    b.ifThen(b.lessThan(at, end), [&, value = value] {
      Value finished = finishValue(value, at);
      b.store(spec.accumulate ? b.addF(finished, b.load(b.getF32Type(), address)) : finished, address);
    });
  }
}

gpu::GPUFuncOp heddle::buildGpuMatmul(gpu::GPUModuleOp module, StringRef name, const GpuMatmulSpec &spec,
                                      const GpuMatmulTile &tile) {
  return MatmulEmitter(module, name, spec, tile).emit();
}

//===- host code ----------------------------------------------------------===//

using MatmulFunction = HostKernelOf<MatmulCall, LaunchBuilder>;

namespace {

class PackedMatmul : public KernelEmitterOf<PackedMatmulOp> {
public:
  PackedMatmul(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable)
      : gpu(gpu), portable(std::move(portable)) {}

  // What any device has a kernel for, and rows that are prepared.
  bool canEmit(Operation *op, std::string &missing) const override {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    return (matmul && matmul.getRoom()) || portable->canEmit(op, missing);
  }

protected:
  FailureOr<std::string> nameOf(PackedMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  // To the kernel of any device.
  FailureOr<Kernels> leave(PackedMatmulOp op, const GpuMatmulSpec &spec, ScheduleAttr schedule, StringRef name,
                           KernelModule &module, StringRef missing) const;

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
    return leave(op, product, schedule, name, module, missing);
  bool readsInput = readsRowsOf(op.getInput(), product.k);
  if (!readsInput && !product.prepares)
    return leave(op, product, schedule, (name + "_slice").str(), module, "of a part of wider rows");
  std::string kernel = (name + (readsInput ? "" : "_slice")).str();
  return oneKernel(module.once(kernel, [&] {
    MatmulFunction l(op.getLoc(), module.code, kernel, product.prepares ? MatmulCall::Prepared : MatmulCall::Dense);
    MatmulHost(l, *gpu, kernel, product, l.call).run(schedule, product.prepares && readsInput);
    return l.finish();
  }));
}

FailureOr<Kernels> PackedMatmul::leave(PackedMatmulOp op, const GpuMatmulSpec &spec, ScheduleAttr schedule,
                                       StringRef name, KernelModule &module, StringRef missing) const {
  if (!module.code.lookupSymbol(name))
    op.emitRemark("'") << name << "' is a kernel of any device: CUDA has none " << missing;
  if (!spec.prepares)
    return portable->emit(op, schedule, name, module);
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    FailureOr<Kernels> product = portable->emit(op, schedule, (name + "_of_room").str(), module);
    if (failed(product))
      return failure();
    MatmulFunction l(op.getLoc(), module.code, name, MatmulCall::Prepared);
    MatmulHost(l, *gpu, name, spec, l.call).runBefore(product->front());
    return l.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::cuda::packedMatmul(std::optional<GpuKernels> &gpu,
                                                          std::unique_ptr<KernelEmitter> portable) {
  return std::make_unique<PackedMatmul>(gpu, std::move(portable));
}
