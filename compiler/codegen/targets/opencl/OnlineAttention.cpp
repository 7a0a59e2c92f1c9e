// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Causal attention over the cache, by Halide: whole, or to splits of the keys, whose merge is in CombineSplits.cpp.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"
#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::ImageParam;

// (query (head_dim, num_heads, rows) f32, keys: pages, values: pages, row_sequence, cache_positions, page_table, DeviceScoreTerms,
//  SeenKeys, [source_lengths (sequences) i32, where keys are those of a source])
//   -> (value_dim, num_heads, rows), or what softmaxSplits leaves
static FailureOr<std::string> emitAttention(Location loc, const Target &target, StringRef symbol,
                                            const AttentionSpec &spec, bool isCross, bool isSplit,
                                            ArrayRef<float> slopes, AttentionThreads threads) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam query = b.input("query", Halide::Float(32), {spec.headDim, spec.numHeads, 0});
    CachedPlane cachedKeys(b, "keys", spec.kv, spec.headDim, spec.numKvHeads),
        cachedValues(b, "values", spec.kv, spec.valueDim(), spec.numKvHeads);
    StepPlaces places(b);
    DeviceScoreTerms terms(b, spec, slopes);
    SeenKeys seen(b, spec);
    ImageParam lengths;
    if (isCross)
      lengths = b.input("source_lengths", Halide::Int(32), {0});

    // Keys are the tokens of the row's sequence.
    AttendedKeys keys;
    auto cached = [&](const CachedPlane &plane, Expr element, Expr kvHead, Expr sequence, Expr key) {
      Expr page = Halide::clamp(places.pageOf(sequence, key), 0, plane.numPages() - 1);
      return plane(element, key % pageTokens, kvHead, page);
    };
    keys.numRows = query.dim(2).extent();
    keys.numSequences = places.table.dim(1).extent();
    keys.mostKeys = places.numTokens();
    keys.sequence = [&](Expr row) { return Halide::clamp(places.sequence(row), 0, keys.numSequences - 1); };
    keys.position = [&](Expr row) { return places.position(row); };
    keys.lastKey = [&](Expr row) {
      return isCross       ? lengths(keys.sequence(row)) - 1
             : spec.causal ? seen.last(keys.sequence(row), places.position(row), places.position)
                           : keys.mostKeys - 1;
    };
    keys.firstKey = [&](Expr row) { return seen.first(keys.sequence(row), places.position(row), places.position); };
    keys.isSeen = [&](Expr row, Expr key) {
      return key <= keys.lastKey(row) &&
             (spec.given ? key >= keys.firstKey(row) : isInMask(spec, places.position(row), key));
    };
    keys.query = [&](Expr element, Expr head, Expr row) { return query(element, head, row); };
    keys.key = [&](Expr element, Expr kvHead, Expr sequence, Expr key) {
      return cached(cachedKeys, element, kvHead, sequence, key);
    };
    keys.value = [&](Expr element, Expr kvHead, Expr sequence, Expr key) {
      return cached(cachedValues, element, kvHead, sequence, key);
    };
    return b.finish(isSplit ? softmaxSplits(b, spec, keys, terms, threads)
                            : softmaxAttention(b, spec, keys, terms, threads));
  });
}

namespace {

class OnlineAttention : public opencl::DeviceEmitterOf<OnlineAttentionOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto attention = dyn_cast<OnlineAttentionOp>(op);
    if (attention && attention.storesScores())
      missing = "with stored scores";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(OnlineAttentionOp op) const override {
    return signatureOf(op) + (op.getCache().getType().getCross() ? "_sources" : "") +
           nameOfNumbersInCode(op.getPositions());
  }
  FailureOr<Kernels> build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

// What both are called with alike.
template <typename Call>
static void addOperands(Enqueuer &host, const Call &call, const AttentionSpec &spec, bool isCross, Value sinks,
                        Value positions) {
  host.addHeads(call.q, spec.headDim, spec.numHeads, call.qStride, host.number(offsetof(heddle_step, rows)));
  host.addPages(spec.kv, spec.headDim, spec.numKvHeads, call.kOffset, isCross);
  host.addPages(spec.kv, spec.valueDim(), spec.numKvHeads, call.vOffset, isCross);
  host.addPlaces(isCross);
  addScoreTerms(host, spec, sinks, positions);
  SeenKeys::add(host, spec);
}

static func::FuncOp enqueueWhole(Location loc, ModuleOp code, StringRef name, const AttentionSpec &spec, bool isCross,
                                 bool hasSlopes, ArrayRef<Enqueuer::RowsKernel> kernels) {
  HostKernelOf<AttentionCall, Enqueuer> host(loc, code, name, formOf(spec));
  const AttentionCall &call = host.call;
  addOperands(host, call, spec, isCross, call.sinks, hasSlopes ? Value() : call.positions);
  if (isCross)
    host.addVector(i32Element, host.pointer(offsetof(heddle_step, source_lengths)),
                   host.number(offsetof(heddle_step, num_sequences)));
  host.addHeads(call.out, spec.valueDim(), spec.numHeads, call.outStride, host.number(offsetof(heddle_step, rows)));
  enqueueAttention(host, kernels);
  return host.finish();
}

// As many splits as the longest sequence has.
static func::FuncOp enqueueSplits(Location loc, ModuleOp code, StringRef name, const AttentionSpec &spec,
                                  int64_t splitKv, bool hasSlopes, ArrayRef<Enqueuer::RowsKernel> kernels) {
  HostKernelOf<AttentionSplitCall, Enqueuer> host(loc, code, name, formOf(spec));
  const AttentionSplitCall &call = host.call;
  RawBuilder &b = host.builder();
  Value longest = b.fold(b.constant(0), call.numSequences, {b.constant(1)},
                         [&](Value index, ValueRange before) -> SmallVector<Value> {
                           return {b.max(before[0], loadSequence(b, call.sequences, index).length)};
                         })[0];
  addOperands(host, call, spec, /*isCross=*/false, Value(), hasSlopes ? Value() : call.positions);
  addStatesOfSplits(host, spec, {call.outputs, call.maxima, call.sums}, call.maxSplits, b.divideUp(longest, splitKv));
  enqueueAttention(host, kernels);
  return host.finish();
}

FailureOr<Kernels> OnlineAttention::build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                                          KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    AttentionSpec spec = specOf(op);
    if (std::string error; failed(verifyAttention(spec, error)))
      return op.emitError(error);
    bool isCross = op.getCache().getType().getCross(), isSplit = bool(op.getSplitKv());
    int64_t splitKv = isCross ? 0 : schedule.getSplitKv();
    SmallVector<float> slopes = numbersInCode(op.getPositions());
    auto kernels =
        emitAttentionKernels(module, name, "", schedule, spec, [&](StringRef symbol, AttentionThreads threads) {
          threads.split = int(splitKv);
          return emitAttention(op.getLoc(), target, symbol, spec, isCross, isSplit, slopes, threads);
        });
    if (failed(kernels))
      return failure();
    return isSplit ? enqueueSplits(op.getLoc(), module.code, name, spec, splitKv, !slopes.empty(), *kernels)
                   : enqueueWhole(op.getLoc(), module.code, name, spec, isCross, !slopes.empty(), *kernels);
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::onlineAttention(const Target &target) {
  return std::make_unique<OnlineAttention>(target);
}
