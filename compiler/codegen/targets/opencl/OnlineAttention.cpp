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
                                            const AttentionSpec &spec, bool isCross, ArrayRef<float> slopes) {
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
    auto cached = [&](ImageParam &plane, Expr element, Expr token) {
      Expr page = Halide::clamp(places.page(keys.row, token), 0, plane.dim(3).extent() - 1);
      return cachedExpr(spec.kv, plane(element, token % pageTokens, keys.head / int(spec.group()), page));
    };
    keys.numKeys = places.numTokens();
    keys.distance = [&](Expr key) { return places.position(keys.row) - key; };
    keys.isSeen = [&](Expr key) {
      Expr isSeen = isInMask(spec, places.position(keys.row), key);
      return isCross ? key < lengths(Halide::clamp(places.sequence(keys.row), 0, lengths.dim(0).extent() - 1)) && isSeen
                     : isSeen;
    };
    keys.query = [&](Expr element) { return query(element, keys.head, keys.row); };
    keys.key = [&](Expr element, Expr key) { return cached(pages[0], element, key); };
    keys.value = [&](Expr element, Expr key) { return cached(pages[1], element, key); };
    return b.finish(softmaxAttention(b, spec, keys, terms));
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
    std::string symbol = (name + "_device").str();
    if (failed(module.addObject(name, emitAttention(op.getLoc(), target, symbol, spec, isCross, slopes))))
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
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::onlineAttention(const Target &target) {
  return std::make_unique<OnlineAttention>(target);
}
