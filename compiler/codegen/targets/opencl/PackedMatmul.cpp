// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with packed weights, by Halide: the portable form of `packed_matmul` on devices. Steps of many rows are a matter of arithmetic and
// share what is staged; those of few are a matter of reading W.

#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/MatmulOperands.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

static std::vector<Expr> valuesOf(const Halide::FuncRef &ref, size_t count) {
  std::vector<Expr> values;
  values.reserve(count);
  for (size_t r = 0; r < count; ++r)
    values.push_back(opencl::valueOf(ref, r, count));
  return values;
}

static std::vector<Expr> zeros(size_t count) {
  return std::vector<Expr>(count, 0.0f);
}

static void bindOutput(Func out, const Var &column, int64_t n) {
  out.output_buffer().dim(0).set_bounds(0, int(n));
  out.output_buffer().dim(1).set_min(0);
  out.bound(column, 0, int(n)).never_partition_all();
}

namespace {
// How a block computes a tile: threads are counted along rows and along columns.
struct ThreadTile {
  int rows, columns, k, rowThreads, columnThreads;

  static ThreadTile of(TileAttr tile) {
    return {int(tile.getRows().front()), int(tile.getColumns()), int(tile.getK()), int(tile.getWarps()[0]),
            int(tile.getWarps()[1])};
  }
  int threadRows() const { return rows / rowThreads; }
  int threadColumns() const { return columns / columnThreads; }
};
} // namespace

// Many rows: (MatmulOperands) -> (n, rows). A block stages `k` columns of K of its rows and, dequantised, of its rows of W in local memory,
// from where each thread adds up threadRows x threadColumns sums in registers, in ascending order of K.
static FailureOr<std::string> emitTiled(Location loc, const Target &target, StringRef symbol, const MatmulSpec &spec,
                                        ThreadTile tile) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    assert(tile.rows == tile.columns && "one Func stages both operands, between one pair of barriers");
    PipelineBuilder b(symbol);
    opencl::MatmulOperands operands(b, spec, tile.k, tile.rows);
    size_t count = operands.numSums();
    int side = tile.rows, n = int(spec.n);
    Var column("column"), row("row"), blockX("block_x"), blockY("block_y"), threadX("thread_x"), threadY("thread_y");

    // slice[k][i] of the block = (act[its row i][k], W[its column i][k]...), for a slice of K
    Func slice = b.func("slice"), sum = b.func("sum"), out = b.func("out");
    Var i("i"), inSlice("in_slice"), number("number");
    Expr k = number * tile.k + inSlice, its = Halide::min(blockX * side + i, n - 1);
    std::vector<Expr> staged = operands.weights(its, k);
    staged.insert(staged.begin(), operands.activation(k, blockY * side + i));
    slice(i, inSlice, number, blockX, blockY) = Halide::Tuple(staged);

    // sum[row][column] += slice's act[row] slice's W[column], of the rows and columns of a thread, threads apart
    Var ofRow("of_row"), ofColumn("of_column");
    RDom r(0, tile.k, 0, int(llvm::divideCeil(spec.k, tile.k)), "r");
    sum(ofColumn, ofRow, threadX, threadY, blockX, blockY) = Halide::Tuple(zeros(count));
    Halide::FuncRef held = sum(ofColumn, ofRow, threadX, threadY, blockX, blockY);
    Expr value = slice(ofRow * tile.rowThreads + threadY, r.x, r.y, blockX, blockY)[0];
    std::vector<Expr> sums = valuesOf(held, count);
    for (size_t w = 0; w < count; ++w)
      sums[w] += value * slice(ofColumn * tile.columnThreads + threadX, r.x, r.y, blockX, blockY)[int(w) + 1];
    sum(ofColumn, ofRow, threadX, threadY, blockX, blockY) = Halide::Tuple(sums);

    out(column, row) =
        operands.finished(valuesOf(sum(column % side / tile.columnThreads, row % side / tile.rowThreads,
                                       column % tile.columnThreads, row % tile.rowThreads, column / side, row / side),
                                   count),
                          column, row);

    bindOutput(out, column, n);
    out.split(column, blockX, ofColumn, side, TailStrategy::GuardWithIf)
        .split(ofColumn, ofColumn, threadX, tile.columnThreads)
        .split(row, blockY, ofRow, side, TailStrategy::GuardWithIf)
        .split(ofRow, ofRow, threadY, tile.rowThreads)
        .reorder(ofColumn, ofRow, threadX, threadY, blockX, blockY)
        .gpu_blocks(blockX, blockY)
        .gpu_threads(threadX, threadY)
        .unroll(ofColumn)
        .unroll(ofRow);
    sum.compute_at(out, blockX)
        .store_in(Halide::MemoryType::Register)
        .bound(ofColumn, 0, tile.threadColumns())
        .bound(ofRow, 0, tile.threadRows())
        .bound(threadX, 0, tile.columnThreads)
        .bound(threadY, 0, tile.rowThreads)
        .bound_extent(blockX, 1)
        .bound_extent(blockY, 1)
        .gpu_threads(threadX, threadY)
        .unroll(ofColumn)
        .unroll(ofRow);
    sum.update()
        .reorder(ofColumn, ofRow, r.x, threadX, threadY, r.y)
        .gpu_threads(threadX, threadY)
        .unroll(ofColumn)
        .unroll(ofRow);
    b.keepInRegisters(sum, tile.threadRows() * tile.threadColumns());
    // Neighbouring threads stage neighbouring rows, each four columns of K at once.
    Var quad("quad"), inQuad("in_quad"), place("place"), inRound("in_round"), round("round");
    slice.compute_at(sum, r.y)
        .store_in(Halide::MemoryType::GPUShared)
        .bound(i, 0, side)
        .bound(inSlice, 0, tile.k)
        .bound_extent(number, 1)
        .bound_extent(blockX, 1)
        .bound_extent(blockY, 1)
        .split(inSlice, quad, inQuad, 4)
        .reorder(inQuad, i, quad)
        .unroll(inQuad)
        .fuse(i, quad, place)
        .split(place, round, inRound, tile.rowThreads * tile.columnThreads)
        .split(inRound, threadY, threadX, tile.columnThreads)
        .reorder(inQuad, round, threadX, threadY)
        .gpu_threads(threadX, threadY);
    Halide::LoopLevel atQuad(slice, round);
    operands.computeAt(atQuad, atQuad, 1);
    return b.finish(out);
  });
}

// Few rows: (MatmulOperands) -> (n, rows). A block has a panel of columns, whose words lie beside each other; `rowThreads` threads of a
// column share out K in chunks, each with the sums of all rows, which local memory then brings together in ascending order of the threads:
// rows that others lie beside are added up as those that are alone.
static FailureOr<std::string> emitFewRows(Location loc, const Target &target, StringRef symbol, const MatmulSpec &spec,
                                          ThreadTile tile) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int n = int(spec.n), columns = tile.columns, shares = tile.rowThreads;
    int chunk = spec.layout.isQuantized() ? spec.layout.block : spec.k % 8 == 0 ? 8 : 4;
    int chunks = int(llvm::divideCeil(spec.k, chunk));
    opencl::MatmulOperands operands(b, spec, chunk, tile.rows);
    size_t count = operands.numSums();
    Var column("column"), row("row"), lane("lane"), share("share"), ofTile("of_tile"), panel("panel"), number("number");

    // part[share] = sum act[row][k] W[column][k] over every `shares`th chunk of K
    Func sum = b.func("sum"), part = b.func("part"), total = b.func("total"), out = b.func("out");
    RDom r(0, 4, 0, chunk / 4, 0, int(llvm::divideCeil(chunks, shares)), "r");
    Expr ofChunk = r.z * shares + share, k = ofChunk * chunk + r.y * 4 + r.x;
    if (chunks % shares)
      r.where(ofChunk < chunks);
    sum(ofTile, lane, share, panel, number) = Halide::Tuple(zeros(count));
    std::vector<Expr> sums = valuesOf(sum(ofTile, lane, share, panel, number), count),
                      weights = operands.weights(Halide::min(panel * columns + lane, n - 1), k);
    for (size_t w = 0; w < count; ++w)
      sums[w] += operands.activation(k, number * tile.rows + ofTile) * weights[w];
    sum(ofTile, lane, share, panel, number) = Halide::Tuple(sums);
    part(lane, share, ofTile, panel, number) = Halide::Tuple(valuesOf(sum(ofTile, lane, share, panel, number), count));

    RDom s(0, shares, "s");
    total(column, row) = Halide::Tuple(zeros(count));
    std::vector<Expr> totals = valuesOf(total(column, row), count),
                      parts = valuesOf(part(column % columns, s, row % tile.rows, column / columns, row / tile.rows),
                                       count);
    for (size_t w = 0; w < count; ++w)
      totals[w] += parts[w];
    total(column, row) = Halide::Tuple(totals);
    out(column, row) = operands.finished(valuesOf(total(column, row), count), column, row);

    bindOutput(out, column, n);
    out.split(column, panel, lane, columns, TailStrategy::GuardWithIf)
        .split(row, number, ofTile, tile.rows, TailStrategy::GuardWithIf)
        .reorder(lane, ofTile, panel, number)
        .gpu_blocks(panel, number)
        .gpu_threads(lane, ofTile);
    total.compute_at(out, lane).bound_extent(column, 1).bound_extent(row, 1);
    part.compute_at(out, panel)
        .store_in(Halide::MemoryType::GPUShared)
        .bound(lane, 0, columns)
        .bound(share, 0, shares)
        .bound(ofTile, 0, tile.rows)
        .bound_extent(panel, 1)
        .bound_extent(number, 1)
        .reorder(ofTile, lane, share, panel, number)
        .gpu_threads(lane, share)
        .unroll(ofTile);
    sum.compute_at(part, lane).bound(ofTile, 0, tile.rows).unroll(ofTile);
    for (const Var &one : {lane, share, panel, number})
      sum.bound_extent(one, 1);
    sum.update().reorder(ofTile, r.x, r.y, r.z).unroll(ofTile).unroll(r.x).unroll(r.y);
    operands.computeAt(Halide::LoopLevel(sum, r.y), Halide::LoopLevel(sum, r.z), tile.rows);
    operands.prepareAt(Halide::LoopLevel(out, panel));
    return b.finish(out);
  });
}

namespace {

class PackedMatmul : public opencl::DeviceEmitterOf<PackedMatmulOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    if (matmul && matmul.getInputScales())
      missing = "with 8-bit activations";
    else if (matmul && (matmul.getRounded() || getElementTypeOrSelf(matmul.getInits()[0]).isBF16()))
      missing = "that rounds its result";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(PackedMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

// `preparation`: the kernel of rows that many read from their room, if there are any.
static func::FuncOp enqueueProduct(Location loc, ModuleOp code, StringRef name, const MatmulSpec &spec,
                                   ArrayRef<Enqueuer::RowsKernel> few, ArrayRef<Enqueuer::RowsKernel> many,
                                   StringRef preparation) {
  HostKernelOf<MatmulCall, Enqueuer> host(loc, code, name, formOf(spec));
  const MatmulCall &call = host.call;
  BufferElement element = spec.activation == MatmulActivation::Bf16 ? bf16Element : f32Element;
  bool hasNorm = spec.prepares && spec.prepares->hasNorm;
  auto addRest = [&] {
    host.addWeights(call.weights, spec.layout, spec.weightRows(), spec.k, /*inWords=*/true);
    if (spec.hasBias)
      host.addVector(f32Element, call.bias, host.constant(spec.weightRows()));
    if (spec.accumulate)
      host.addRows(f32Element, call.out, spec.n, call.outStride, call.rows);
    host.addRows(f32Element, call.out, spec.n, call.outStride, call.rows);
  };
  auto addRows = [&] {
    host.addRows(spec.prepares ? f32Element : element, call.act, spec.k, call.actStride, call.rows);
    if (hasNorm)
      host.addVector(f32Element, call.norm, host.constant(spec.k));
  };
  // A sequence that is cut elsewhere has the same bits where each step adds up as those of few rows do.
  int64_t mostOfFew = few.back().maxRows;
  SmallVector<Enqueuer::RowsKernel> all(few);
  llvm::append_range(all, many);
  if (!spec.prepares) {
    addRows();
    addRest();
    host.enqueueByRows(call.rows, all, mostOfFew);
    return host.finish();
  }
  RawBuilder &b = host.builder();
  Value chosenBy = host.chosenBy(call.rows, mostOfFew);
  b.ifThen(b.lessThan(chosenBy, b.constant(mostOfFew + 1)), [&] {
    addRows();
    addRest();
    host.enqueueByRows(call.rows, few, mostOfFew);
  });
  b.ifThen(b.lessThan(b.constant(mostOfFew), chosenBy), [&] {
    addRows();
    host.addRows(element, call.room, spec.k, call.roomStride, call.rows);
    host.enqueue(preparation);
    host.addRows(element, call.room, spec.k, call.roomStride, call.rows);
    addRest();
    host.enqueueByRows(call.rows, many, mostOfFew);
  });
  return host.finish();
}

FailureOr<Kernels> PackedMatmul::build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  FailureOr<MatmulSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    // Few rows are prepared as they are read, more by a kernel before.
    MatmulSpec ofRoom = *spec;
    ofRoom.prepares.reset();
    // By rising maxRows, as the host asks.
    std::vector<Enqueuer::RowsKernel> few, many;
    for (TileAttr tile : llvm::reverse(schedule.getTiles())) {
      if (tile.getRole() != TileRole::Threads)
        continue;
      if (tile.getWarps().size() != 2)
        return op.emitOpError("has a schedule with a tile of threads that does not say how many");
      bool isFew = tile.getK() == 0;
      std::string symbol = (name + (isFew ? "_few" : "_tile") + llvm::Twine(tile.getRows().front()) + "_device").str();
      auto emitted = isFew ? emitFewRows(op.getLoc(), target, symbol, *spec, ThreadTile::of(tile))
                           : emitTiled(op.getLoc(), target, symbol, ofRoom, ThreadTile::of(tile));
      if (failed(module.addObject(name, emitted)))
        return failure();
      (isFew ? few : many).push_back({symbol, tile.getMaxRows()});
    }
    if (few.empty() || many.empty() || !few.back().maxRows || many.back().maxRows)
      return op.emitOpError("has a schedule without tiles of threads for few and for any number of rows");
    std::string preparation = (name + "_rows_device").str();
    if (spec->prepares &&
        failed(module.addObject(name, opencl::emitPreparation(op.getLoc(), target, preparation, *spec))))
      return failure();
    return enqueueProduct(op.getLoc(), module.code, name, *spec, few, many, preparation);
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::packedMatmul(const Target &target) {
  return std::make_unique<PackedMatmul>(target);
}
