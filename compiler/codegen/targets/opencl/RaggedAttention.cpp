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
                                         const AttentionSpec &spec, ArrayRef<float> slopes, AttentionThreads threads) {
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

    // Keys are the rows of the sequence.
    AttendedKeys keys;
    auto first = [&](Expr sequence) { return sequences(0, sequence); };
    keys.numRows = query.dim(2).extent();
    keys.numSequences = sequences.dim(1).extent();
    keys.mostKeys = key.dim(2).extent();
    keys.sequence = [&](Expr row) { return Halide::clamp(rowSequence(row), 0, keys.numSequences - 1); };
    keys.position = [&](Expr row) { return row - first(keys.sequence(row)); };
    keys.keyRow = [&](Expr sequence, Expr at) { return Halide::clamp(first(sequence) + at, 0, keys.mostKeys - 1); };
    // Global keys are seen from everywhere.
    bool isMasked = spec.globals != GlobalTokens::Keys;
    keys.lastKey = [&](Expr row) {
      Expr last = sequences(1, keys.sequence(row)) - 1;
      return spec.causal && isMasked ? Halide::min(last, keys.position(row)) : last;
    };
    keys.firstKey = [&](Expr row) { return isMasked ? firstInMask(spec, keys.position(row)) : Expr(0); };
    keys.isSeen = [&](Expr row, Expr at) {
      Expr isSeen = isInMask(spec, keys.position(row), at);
      if (!isMasked)
        isSeen = isSeen || globals(keys.keyRow(keys.sequence(row), at)) != 0;
      return at <= keys.lastKey(row) && isSeen;
    };
    keys.query = [&](Expr element, Expr head, Expr row) { return query(element, head, row); };
    keys.key = [&](Expr element, Expr kvHead, Expr sequence, Expr at) {
      return key(element, kvHead, keys.keyRow(sequence, at));
    };
    keys.value = [&](Expr element, Expr kvHead, Expr sequence, Expr at) {
      return value(element, kvHead, keys.keyRow(sequence, at));
    };
    auto finish = [&](const Halide::Var &d, const Halide::Var &head, const Halide::Var &row, const Expr &result) {
      return Halide::select(globals(row) != 0, result, held(d, head, row));
    };
    AttentionFinish ofGlobals = spec.globals == GlobalTokens::Queries ? AttentionFinish(finish) : nullptr;
    return b.finish(softmaxAttention(b, spec, keys, terms, threads, ofGlobals));
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
    auto kernels =
        emitAttentionKernels(module, name, "", schedule, spec, [&](StringRef symbol, AttentionThreads threads) {
          return emitRagged(op.getLoc(), target, symbol, spec, slopes, threads);
        });
    if (failed(kernels))
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
    enqueueAttention(host, *kernels);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::raggedAttention(const Target &target) {
  return std::make_unique<RaggedAttention>(target);
}
