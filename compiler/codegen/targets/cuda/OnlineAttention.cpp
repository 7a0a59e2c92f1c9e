// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/AttentionBlock.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <cstddef>
#include <limits>

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
// Columns of scores that one mma gives, and keys that one consumes.
static constexpr int64_t scoreTiles = pageTokens / 8, keySteps = pageTokens / 16;

int64_t heddle::gpuAttentionThreads(const AttentionSpec &spec) {
  return spec.tileRows / warpRows * warpSize;
}

AttentionSpec heddle::narrowed(AttentionSpec spec) {
  spec.tileRows = warpRows;
  return spec;
}

LogicalResult heddle::verifyGpuAttention(const AttentionSpec &spec, std::string &error) {
  auto fail = [&](const Twine &message) {
    error = message.str();
    return failure();
  };
  if (spec.numKvHeads < 1 || spec.numHeads < 1 || spec.numHeads % spec.numKvHeads)
    return fail("num_heads (" + Twine(spec.numHeads) + ") must be a positive multiple of num_kv_heads (" +
                Twine(spec.numKvHeads) + ")");
  if (spec.headDim < 8 || spec.headDim > 128 || spec.headDim % 8)
    return fail("head_dim (" + Twine(spec.headDim) + ") must be a multiple of 8 up to 128");
  if (spec.kv != KvType::BF16 || !spec.causal || spec.valueDim() != spec.headDim || spec.valuesInKeys)
    return fail("attention on tensor cores is causal and reads keys and values of one head_dim from a bf16 cache");
  if (spec.positions.kind)
    return fail("attention on tensor cores has no positions");
  if (spec.chunk)
    return fail("attention on tensor cores has no chunks");
  if (spec.splitKv < 1 || spec.splitKv % pageTokens)
    return fail("splits of " + Twine(spec.splitKv) + " keys must be whole pages of " + Twine(pageTokens));
  // A pass of the threads copies no more rows than a page has (planCopies).
  if (!llvm::isPowerOf2_64(spec.tileRows) || spec.tileRows < warpRows ||
      gpuAttentionThreads(spec) * chunkElements / paddedColumns(spec) > pageTokens)
    return fail("tile_rows (" + Twine(spec.tileRows) + ") must be a power of two that fits head_dim (" +
                Twine(spec.headDim) + ")");
  return success();
}

namespace {

class AttentionEmitter : AttentionBlock {
public:
  AttentionEmitter(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec, bool isSplit)
      : AttentionBlock(module, name, spec, isSplit ? Form::Split : Form::Whole, slotsFor(spec)), slots(slotsFor(spec)) {
  }
  gpu::GPUFuncOp emit();

private:
  // Planes that have room in shared memory.
  static int64_t slotsFor(const AttentionSpec &spec) {
    return std::clamp<int64_t>(staticSharedBytes / planeBytes(spec), 2, 4);
  }

  void copyAhead(Value page, int64_t planes, Value slot);
  void beginCopies();
  void takePlane(Plane plane, Value page, Value slot);
  Value nextSlot(Value slot);
  Value laneAddress(Value lane, int64_t step, int64_t row, Value slot);
  void walkSplits();
  SmallVector<Value> walkPages(Pages pages, Value slot);
  SmallVector<Value> computeScores(Value slot);
  void addValues(ArrayRef<FragmentA> weights, const Value (&shrink)[2], SmallVector<Value> &out, Value slot);
  SoftmaxState stateOf(ValueRange carried, int64_t half);
  void addSplit(int64_t half, const MergedState &merged, ValueRange carried, Value isBehindOthers, Value isLast);
  void storeState(ValueRange carried);

  int64_t slots;
  Value keyLane, valueLane; // the lane's offset for ldmatrix in the first 16 columns
};

} // namespace

gpu::GPUFuncOp AttentionEmitter::emit() {
  b.setBlocksPerProcessor(2);
  return emitWith([&] {
    keyLane = section.laneOffset(lane, 0, SharedTile::Order::ByChunks);
    valueLane = section.laneOffset(lane, 0, SharedTile::Order::ByRows);
    beginCopies();
    loadQueries();
    if (form == Form::Whole)
      return walkSplits();
    SmallVector<Value> carried = walkPages(seen, b.constant(0));
    storeState(ValueRange(carried).drop_back());
  });
}

// Of columns 16 step and on, `row` rows, a multiple of 8, behind the lane's: the swizzle changes bits of chunks alone.
Value AttentionEmitter::laneAddress(Value lane, int64_t step, int64_t row, Value slot) {
  int64_t column = 16 * step % sectionColumns(), ofSection = 16 * step / sectionColumns() * sectionBytes();
  Value place = b.bitXor(b.add(lane, slot), b.constant(column * 2));
  return b.at(section.address(place), b.constant(ofSection + row * section.rowBytes()), 1);
}

// So many planes behind the keys of `page`, where there is such a page.
void AttentionEmitter::copyAhead(Value page, int64_t planes, Value slot) {
  Value of = b.add(page, planes / 2);
  b.ifThen(b.lessThan(of, seen.end), [&] { copyPlane(Plane(planes % 2), of, slot); });
  b.commitCopies();
}

void AttentionEmitter::beginCopies() {
  for (int64_t i = 0; i < slots - 1; ++i)
    copyAhead(seen.begin, i, b.constant(i * planeBytes()));
}

// Returns once the plane is in its slot. The slot before it is free then: everyone has done with what it held.
void AttentionEmitter::takePlane(Plane plane, Value page, Value slot) {
  b.waitCopies(slots - 2);
  b.barrier();
  Value first = b.equal(slot, b.constant(0));
  copyAhead(page, plane + slots - 1,
            b.select(first, b.constant((slots - 1) * planeBytes()), b.sub(slot, b.constant(planeBytes()))));
}

Value AttentionEmitter::nextSlot(Value slot) {
  Value next = b.add(slot, planeBytes());
  return b.select(b.equal(next, b.constant(slots * planeBytes())), b.constant(0), next);
}

// Whole attention merges the same splits in the same order as combine_splits. What was added up lies in `out` meanwhile: registers hold
// one split's.
void AttentionEmitter::walkSplits() {
  Value first = b.divide(seen.begin, pagesOfSplit()), end = b.divideUp(seen.end, pagesOfSplit());
  SmallVector<Value> totals;
  for (Value head : heads) {
    SoftmaxState begun = beginState(b, spec, spec.hasSinks ? b.argument(12) : Value(), head);
    totals.append({begun.max, begun.sum});
  }
  totals.push_back(b.constant(0));
  b.fold(first, end, totals, [&](Value split, ValueRange before) {
    SmallVector<Value> carried = walkPages(pagesOf(split), before.back()), next;
    Value slot = carried.pop_back_val();
    for (int64_t half = 0; half < 2; ++half) {
      MergedState merged = mergeStates(b, {before[2 * half], before[2 * half + 1]}, stateOf(carried, half));
      addSplit(half, merged, carried, b.lessThan(first, split), b.equal(b.add(split, 1), end));
      next.append({merged.state.max, merged.state.sum});
    }
    next.push_back(slot);
    return next;
  });
}

// Keys and values of a page in turn, from `slot` on, in a ring of slots: all but one of them are on their way or there. Behind the outputs, maxima and sums that it returns
// lies the slot of the page behind.
SmallVector<Value> AttentionEmitter::walkPages(Pages pages, Value slot) {
  SmallVector<Value> carried(4 * outTiles(), b.constantF32(0));
  carried.append({b.constantF32(lowestScore), b.constantF32(lowestScore), b.constantF32(0), b.constantF32(0), slot});
  return b.fold(pages.begin, pages.end, carried, [&](Value page, ValueRange state) {
    Value keys = state.back();
    state = state.drop_back();
    SmallVector<Value> out(state.drop_back(4));
    ValueRange rest = state.take_back(4);
    Softmax softmax = {{rest[0], rest[1]}, {rest[2], rest[3]}};
    takePlane(Keys, page, keys);
    SmallVector<Value> scores = computeScores(keys);
    finishScores(scores, page);
    Value shrink[2];
    SmallVector<FragmentA> weights = roundWeights(weigh(scores, softmax, shrink));
    Value values = nextSlot(keys);
    takePlane(Values, page, values);
    addValues(weights, shrink, out, values);
    out.append({softmax.max[0], softmax.max[1], softmax.sum[0], softmax.sum[1], nextSlot(values)});
    return out;
  });
}

// S = Q @ K^T
SmallVector<Value> AttentionEmitter::computeScores(Value slot) {
  SmallVector<Value> scores(4 * scoreTiles, b.constantF32(0));
  for (int64_t step = 0; step < dimSteps(); ++step)
    for (int64_t pair = 0; pair < scoreTiles / 2; ++pair) {
      FragmentA keys = b.loadMatrices(laneAddress(keyLane, step, 16 * pair, slot), /*transposed=*/false);
      for (int64_t i = 0; i < 2; ++i) {
        Value *at = &scores[4 * (2 * pair + i)];
        Accumulators sum = b.multiply(queries[step], {keys[2 * i], keys[2 * i + 1]}, {at[0], at[1], at[2], at[3]});
        std::copy(sum.begin(), sum.end(), at);
      }
    }
  return scores;
}

// O = shrink O + P @ V
void AttentionEmitter::addValues(ArrayRef<FragmentA> weights, const Value (&shrink)[2], SmallVector<Value> &out,
                                 Value slot) {
  rescale(out, shrink);
  for (int64_t step = 0; step < keySteps; ++step)
    for (int64_t pair = 0; pair < dimSteps(); ++pair) {
      FragmentA values = b.loadMatrices(laneAddress(valueLane, pair, 16 * step, slot), /*transposed=*/true);
      for (int64_t i = 0; i < 2 && 2 * pair + i < outTiles(); ++i) {
        Value *at = &out[4 * (2 * pair + i)];
        Accumulators sum = b.multiply(weights[step], {values[2 * i], values[2 * i + 1]}, {at[0], at[1], at[2], at[3]});
        std::copy(sum.begin(), sum.end(), at);
      }
    }
}

SoftmaxState AttentionEmitter::stateOf(ValueRange carried, int64_t half) {
  ValueRange rest = carried.take_back(4);
  return {rest[half], rowSum(rest[2 + half])};
}

// out = keep out + take O, behind the last split divided by the sum of weights.
void AttentionEmitter::addSplit(int64_t half, const MergedState &merged, ValueRange carried, Value isBehindOthers,
                                Value isLast) {
  auto pairType = VectorType::get({2}, b.getF32Type());
  Value one = b.constantF32(1), factor = b.select(isLast, b.divF(one, merged.state.sum), one);
  auto at = [&](int64_t tile) { return b.at(outAt[half], b.constant(8 * tile), 4); };
  b.ifThen(b.lessThan(rows[half], numRows), [&] {
    SmallVector<Value> total(2 * outTiles(), b.constantF32(0));
    total = b.ifElse(isBehindOthers, total, [&] {
      SmallVector<Value> loaded;
      for (int64_t tile = 0; tile < outTiles(); ++tile) {
        Value pair = b.load(pairType, at(tile));
        loaded.append({b.element(pair, 0), b.element(pair, 1)});
      }
      return loaded;
    });
    for (int64_t tile = 0; tile < outTiles(); ++tile) {
      Value low = merged.value(b, total[2 * tile], carried[4 * tile + 2 * half]);
      Value high = merged.value(b, total[2 * tile + 1], carried[4 * tile + 2 * half + 1]);
      b.store(b.vector({b.mulF(low, factor), b.mulF(high, factor)}), at(tile));
    }
  });
}

// Outputs, maximum and sum of a split, (rows, maxSplits, heads) each.
void AttentionEmitter::storeState(ValueRange carried) {
  for (int64_t half = 0; half < 2; ++half) {
    SoftmaxState state = stateOf(carried, half);
    Value slot = b.add(b.mul(b.wide(stepRows[half]), b.argument(10)), b.wide(split));
    b.ifThen(b.lessThan(rows[half], numRows), [&] {
      auto ofHead = [&](unsigned argument, int64_t bytes) {
        return b.at(b.at(b.argument(argument), slot, spec.numHeads * bytes), heads[half], bytes);
      };
      Value outputs = b.at(ofHead(1, spec.headDim * 4), pairColumn, 4);
      for (int64_t tile = 0; tile < outTiles(); ++tile)
        b.store(b.vector({carried[4 * tile + 2 * half], carried[4 * tile + 2 * half + 1]}),
                b.at(outputs, b.constant(8 * tile), 4));
      b.ifThen(b.equal(pairColumn, b.constant(0)), [&] {
        b.store(state.max, ofHead(12, 4));
        b.store(state.sum, ofHead(13, 4));
      });
    });
  }
}

gpu::GPUFuncOp heddle::buildGpuAttention(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return AttentionEmitter(module, name, spec, /*isSplit=*/false).emit();
}

gpu::GPUFuncOp heddle::buildGpuAttentionSplit(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return AttentionEmitter(module, name, spec, /*isSplit=*/true).emit();
}

//===- host code ----------------------------------------------------------===//

// What whole attention and a split of it are called with alike, but for what they write.
template <typename Call> static void addOperands(LaunchBuilder &l, const Call &call, Value out, Value outStride) {
  l.add(call.q);
  l.add(out);
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, sequence_rows), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  l.add(call.kOffset);
  l.add(call.vOffset);
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(call.qStride);
  l.add(outStride);
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
}

// The grid has blocks for the sequence with the most rows, and for the longest: (query rows of the first, length of the other).
template <typename Call>
static std::pair<Value, Value> largestOf(RawBuilder &b, const Call &call, const AttentionSpec &spec) {
  SmallVector<Value> largest =
      b.fold(b.constant(0), call.numSequences, {b.constant(1), b.constant(0)}, [&](Value index, ValueRange carried) {
        SequenceValues sequence = loadSequence(b, call.sequences, index);
        return SmallVector<Value>{b.max(carried[0], sequence.numRows), b.max(carried[1], sequence.length)};
      });
  return {b.mul(largest[0], spec.headsOfTile()), largest[1]};
}

namespace {

// A kernel for steps of so many query rows of a sequence.
struct Version {
  std::string kernel;
  int64_t tileRows, threads, sharedBytes;
};

// Which of two versions runs, and how: i64 each.
struct Chosen {
  Value entry, tileRows, threads, sharedBytes;
};

} // namespace

// Two for each of 132 multiprocessors: what is at work at once of blocks of several warps.
static constexpr int64_t manyBlocks = 264;

static Chosen chosen(LaunchBuilder &l, const Version &version) {
  RawBuilder &b = l.builder();
  return {l.entry(version.kernel), b.constant(version.tileRows), b.constant(version.threads),
          b.constant(version.sharedBytes)};
}

static Chosen select(RawBuilder &b, Value condition, const Chosen &first, const Chosen &second) {
  return {b.select(condition, first.entry, second.entry), b.select(condition, first.tileRows, second.tileRows),
          b.select(condition, first.threads, second.threads),
          b.select(condition, first.sharedBytes, second.sharedBytes)};
}

using Build = gpu::GPUFuncOp (*)(gpu::GPUModuleOp, StringRef, const AttentionSpec &);

static Version versionOf(GpuKernels &gpu, const Twine &kernel, const AttentionSpec &spec, Build build,
                         int64_t sharedBytes = 0) {
  build(gpu.kernels, kernel.str(), spec);
  return {kernel.str(), spec.tileRows, gpuAttentionThreads(spec), launchedSharedBytes(sharedBytes)};
}

static func::FuncOp launchAttention(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                    const AttentionSpec &spec, int64_t warpgroupRows) {
  HostKernelOf<AttentionCall, LaunchBuilder> l(loc, code, name);
  const AttentionCall &call = l.call;
  RawBuilder &b = l.builder();
  addOperands(l, call, call.out, call.outStride);
  if (spec.hasSinks)
    l.add(call.sinks);
  if (spec.given)
    l.add(l.pointer(offsetof(heddle_step, sees_ahead)));
  Value rows = largestOf(b, call, spec).first;
  Chosen version = chosen(l, versionOf(gpu, name + "_gpu", spec, buildGpuAttention));
  if (warpgroupRows) {
    AttentionSpec wide = ofWarpgroups(spec, warpgroupRows);
    Chosen ofWide =
        chosen(l, versionOf(gpu, name + "_wgmma_gpu", wide, buildWarpgroupAttention, warpgroupAttentionBytes(wide)));
    // It adds up in another order.
    Value isFree = b.equal(l.number(offsetof(heddle_step, fixed_forms)), b.constant(0));
    Value isMany = b.lessThan(b.constant(spec.tileRows), rows);
    version = select(b, arith::AndIOp::create(b, isFree, isMany), ofWide, version);
  }
  Value tiles = b.divide(b.sub(b.add(rows, version.tileRows), b.constant(1)), version.tileRows);
  l.launch(version.entry, {tiles, b.constant(spec.numHeads / spec.headsOfTile()), call.numSequences}, version.threads,
           version.sharedBytes);
  return l.finish();
}

static func::FuncOp launchSplits(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                 const AttentionSpec &spec, int64_t) {
  HostKernelOf<AttentionSplitCall, LaunchBuilder> l(loc, code, name);
  const AttentionSplitCall &call = l.call;
  RawBuilder &b = l.builder();
  addOperands(l, call, call.outputs, call.maxSplits);
  l.add(call.maxima);
  l.add(call.sums);
  if (spec.given)
    l.add(l.pointer(offsetof(heddle_step, sees_ahead)));
  auto [rows, length] = largestOf(b, call, spec);
  // Both versions leave the same bits. Blocks of one warp are slower each, but more of them are at work at once.
  AttentionSpec few = narrowed(spec);
  int64_t headBlocks = spec.numHeads / spec.headsOfTile();
  Value splits = b.divideUp(length, spec.splitKv);
  Value isLong = b.lessThan(b.constant(manyBlocks), b.mul(b.mul(splits, headBlocks), call.numSequences));
  Value isFew = b.lessThan(rows, b.constant(few.tileRows + 1));
  Chosen version = select(b, arith::AndIOp::create(b, isFew, isLong),
                          chosen(l, versionOf(gpu, name + "_few_gpu", few, buildGpuAttentionSplit)),
                          chosen(l, versionOf(gpu, name + "_gpu", spec, buildGpuAttentionSplit)));
  Value tiles = b.divide(b.sub(b.add(rows, version.tileRows), b.constant(1)), version.tileRows);
  l.launch(version.entry, {splits, b.mul(tiles, headBlocks), call.numSequences}, version.threads);
  return l.finish();
}

namespace {

class OnlineAttention : public KernelEmitterOf<OnlineAttentionOp> {
public:
  OnlineAttention(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable)
      : gpu(gpu), portable(std::move(portable)) {}

  bool canEmit(Operation *op, std::string &missing) const override { return portable->canEmit(op, missing); }

protected:
  FailureOr<std::string> nameOf(OnlineAttentionOp op) const override {
    // What only the portable kernel takes, that one names.
    return op.getPositions() || op.getCache().getType().getCross() ? portable->signature(op) : signatureOf(op);
  }
  FailureOr<Kernels> build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    if (std::string reason; failed(verifyGpuAttention(spec, reason))) {
      if (!module.code.lookupSymbol(name))
        op.emitRemark("'") << name << "' is a kernel of any device: " << reason;
      return portable->emit(op, schedule, name, module);
    }
    auto launch = op.getSplitKv() ? launchSplits : launchAttention;
    int64_t warpgroupRows = warpgroupRowsOf(schedule);
    if (warpgroupRows % 64 || warpgroupRows > 128)
      return op.emitError("a tile of warpgroups has 64 or 128 query rows, not ") << warpgroupRows;
    return oneKernel(
        module.once(name, [&] { return launch(op.getLoc(), module.code, *gpu, name, spec, warpgroupRows); }));
  }

private:
  std::optional<GpuKernels> &gpu;
  std::unique_ptr<KernelEmitter> portable;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::onlineAttention(std::optional<GpuKernels> &gpu,
                                                             std::unique_ptr<KernelEmitter> portable) {
  return std::make_unique<OnlineAttention>(gpu, std::move(portable));
}
