// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention within each sequence of a ragged batch, by Halide.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"
#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::ImageParam;

// (query (head_dim, num_heads, rows), key (head_dim, num_kv_heads, rows), value (value_dim, num_kv_heads, rows), sequences (2, count) i32,
// row_sequence (rows) i32, DeviceScoreTerms, [globals (rows) i32], [held (value_dim, num_heads, rows), the result itself]) -> (value_dim, num_heads, rows)
static FailureOr<std::string> emitRagged(Location loc, const Target &target, StringRef symbol,
                                         const AttentionSpec &spec, ArrayRef<float> slopes) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam query = b.input("query", Halide::Float(32), {spec.headDim, spec.numHeads, 0});
    ImageParam key = b.input("key", Halide::Float(32), {spec.headDim, spec.numKvHeads, 0});
    ImageParam value = b.input("value", Halide::Float(32), {spec.valueDim(), spec.numKvHeads, 0});
    ImageParam sequences = b.input("sequences", Halide::Int(32), {2, 0});
    ImageParam rowSequence = b.input("row_sequence", Halide::Int(32), {0});
    DeviceScoreTerms terms(b, spec, slopes);
    ImageParam globals, held;
    if (spec.globals != GlobalTokens::None)
      globals = b.input("globals", Halide::Int(32), {0});
    if (spec.globals == GlobalTokens::Queries)
      held = b.input("held", Halide::Float(32), {spec.valueDim(), spec.numHeads, 0});

    // Keys are the rows of the batch.
    AttendedKeys keys;
    Expr sequence = Halide::clamp(rowSequence(keys.row), 0, sequences.dim(1).extent() - 1);
    Expr first = sequences(0, sequence), end = first + sequences(1, sequence);
    Expr kvHead = keys.head / int(spec.group());
    keys.numKeys = key.dim(2).extent();
    keys.distance = [&](Expr at) { return keys.row - at; };
    keys.isSeen = [&](Expr at) {
      Expr isSeen = isInMask(spec, keys.row - first, at - first);
      if (spec.globals == GlobalTokens::Keys)
        isSeen = isSeen || globals(at) != 0;
      return at >= first && at < end && isSeen;
    };
    keys.query = [&](Expr element) { return query(element, keys.head, keys.row); };
    keys.key = [&](Expr element, Expr at) { return key(element, kvHead, at); };
    keys.value = [&](Expr element, Expr at) { return value(element, kvHead, at); };
    auto finish = [&](const Halide::Var &d, const Expr &result) {
      return Halide::select(globals(keys.row) != 0, result, held(d, keys.head, keys.row));
    };
    bool isOfGlobals = spec.globals == GlobalTokens::Queries;
    return b.finish(
        softmaxAttention(b, spec, keys, terms, isOfGlobals ? std::function<Expr(Halide::Var, Expr)>(finish) : nullptr));
  });
}

namespace {

class RaggedAttention : public opencl::DeviceEmitterOf<RaggedAttentionOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(RaggedAttentionOp op) const override {
    return signatureOf(op) + nameOfNumbersInCode(op.getPositions());
  }
  FailureOr<Kernels> build(RaggedAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

static unsigned formOfRagged(const AttentionSpec &spec) {
  return (spec.positions.kind ? RaggedAttentionCall::Positions : 0) |
         (spec.positions.kind == PositionSpec::Tokens ? RaggedAttentionCall::TokenPositions : 0) |
         (spec.globals != GlobalTokens::None ? RaggedAttentionCall::Globals : 0);
}

FailureOr<Kernels> RaggedAttention::build(RaggedAttentionOp op, ScheduleAttr schedule, StringRef name,
                                          KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    AttentionSpec spec = specOf(op);
    if (std::string error; failed(verifyAttention(spec, error)))
      return op.emitError(error);
    SmallVector<float> slopes = numbersInCode(op.getPositions());
    std::string symbol = (name + "_device").str();
    if (failed(module.addObject(name, emitRagged(op.getLoc(), target, symbol, spec, slopes))))
      return failure();
    HostKernelOf<RaggedAttentionCall, Enqueuer> host(op.getLoc(), module.code, name, formOfRagged(spec));
    const RaggedAttentionCall &call = host.call;
    Value rows = host.number(offsetof(heddle_step, rows)), two = host.constant(2);
    host.addHeads(call.query, spec.headDim, spec.numHeads, call.queryRow, rows);
    host.addHeads(call.key, spec.headDim, spec.numKvHeads, call.keyRow, rows);
    host.addHeads(call.value, spec.valueDim(), spec.numKvHeads, call.valueRow, rows);
    host.addRows(i32Element, call.sequences, 2, two, call.numSequences);
    host.addVector(i32Element, host.pointer(offsetof(heddle_step, row_sequence)), rows);
    addScoreTerms(host, spec, call.sinks, slopes.empty() ? call.positions : Value(), call.positionsRow, rows);
    if (spec.globals != GlobalTokens::None)
      host.addVector(i32Element, call.globals, rows);
    if (spec.globals == GlobalTokens::Queries)
      host.addHeads(call.out, spec.valueDim(), spec.numHeads, call.outRow, rows);
    host.addHeads(call.out, spec.valueDim(), spec.numHeads, call.outRow, rows);
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::raggedAttention(const Target &target) {
  return std::make_unique<RaggedAttention>(target);
}
