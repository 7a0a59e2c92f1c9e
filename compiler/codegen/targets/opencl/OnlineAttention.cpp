// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Causal attention over the cache, by Halide.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"
#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::ImageParam;

// (query (head_dim, num_heads, rows) f32, keys: pages, values: pages, row_sequence, cache_positions, page_table, DeviceScoreTerms,
//  [source_lengths (sequences) i32, where keys are those of a source])
//   -> (value_dim, num_heads, rows)
static FailureOr<std::string> emitAttention(Location loc, const Target &target, StringRef symbol,
                                            const AttentionSpec &spec, bool isCross, ArrayRef<float> slopes,
                                            AttentionThreads threads) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam query = b.input("query", Halide::Float(32), {spec.headDim, spec.numHeads, 0});
    ImageParam pages[] = {b.pages("keys", spec.kv, spec.headDim, spec.numKvHeads),
                          b.pages("values", spec.kv, spec.valueDim(), spec.numKvHeads)};
    StepPlaces places(b);
    DeviceScoreTerms terms(b, spec, slopes);
    ImageParam lengths;
    if (isCross)
      lengths = b.input("source_lengths", Halide::Int(32), {0});

    // Keys are the tokens of the row's sequence.
    AttendedKeys keys;
    auto cached = [&](ImageParam &plane, Expr element, Expr kvHead, Expr sequence, Expr key) {
      Expr page = Halide::clamp(places.pageOf(sequence, key), 0, plane.dim(3).extent() - 1);
      return cachedExpr(spec.kv, plane(element, key % pageTokens, kvHead, page));
    };
    keys.numRows = query.dim(2).extent();
    keys.numSequences = places.table.dim(1).extent();
    keys.mostKeys = places.numTokens();
    keys.sequence = [&](Expr row) { return Halide::clamp(places.sequence(row), 0, keys.numSequences - 1); };
    keys.position = [&](Expr row) { return places.position(row); };
    keys.lastKey = [&](Expr row) {
      return isCross ? lengths(keys.sequence(row)) - 1 : spec.causal ? places.position(row) : keys.mostKeys - 1;
    };
    keys.firstKey = [&](Expr row) { return firstInMask(spec, places.position(row)); };
    keys.isSeen = [&](Expr row, Expr key) {
      return key <= keys.lastKey(row) && isInMask(spec, places.position(row), key);
    };
    keys.query = [&](Expr element, Expr head, Expr row) { return query(element, head, row); };
    keys.key = [&](Expr element, Expr kvHead, Expr sequence, Expr key) {
      return cached(pages[0], element, kvHead, sequence, key);
    };
    keys.value = [&](Expr element, Expr kvHead, Expr sequence, Expr key) {
      return cached(pages[1], element, kvHead, sequence, key);
    };
    return b.finish(softmaxAttention(b, spec, keys, terms, threads));
  });
}

namespace {

class OnlineAttention : public opencl::DeviceEmitterOf<OnlineAttentionOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto attention = dyn_cast<OnlineAttentionOp>(op);
    if (attention && attention.getSplitKv())
      missing = "in splits of the keys";
    else if (attention && attention.storesScores())
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

FailureOr<Kernels> OnlineAttention::build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                                          KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    AttentionSpec spec = specOf(op);
    if (std::string error; failed(verifyAttention(spec, error)))
      return op.emitError(error);
    bool isCross = op.getCache().getType().getCross();
    SmallVector<float> slopes = numbersInCode(op.getPositions());
    auto kernels =
        emitAttentionKernels(module, name, "", schedule, spec, [&](StringRef symbol, AttentionThreads threads) {
          return emitAttention(op.getLoc(), target, symbol, spec, isCross, slopes, threads);
        });
    if (failed(kernels))
      return failure();
    HostKernelOf<AttentionCall, Enqueuer> host(op.getLoc(), module.code, name, formOf(spec));
    const AttentionCall &call = host.call;
    Value rows = host.number(offsetof(heddle_step, rows));
    host.addHeads(call.q, spec.headDim, spec.numHeads, call.qStride, rows);
    host.addPages(spec.kv, spec.headDim, spec.numKvHeads, call.kOffset, isCross);
    host.addPages(spec.kv, spec.valueDim(), spec.numKvHeads, call.vOffset, isCross);
    host.addPlaces(isCross);
    addScoreTerms(host, spec, call.sinks, slopes.empty() ? call.positions : Value());
    if (isCross)
      host.addVector(i32Element, host.pointer(offsetof(heddle_step, source_lengths)),
                     host.number(offsetof(heddle_step, num_sequences)));
    host.addHeads(call.out, spec.valueDim(), spec.numHeads, call.outStride, rows);
    enqueueAttention(host, *kernels);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::onlineAttention(const Target &target) {
  return std::make_unique<OnlineAttention>(target);
}
