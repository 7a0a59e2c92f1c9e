// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding rows from the packed layout, by Halide.

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

// (ids (rows) i32, weights through each of packedViews, [given (k, any number) f32]) -> (k, rows)
static FailureOr<std::string> emitEmbedding(Location loc, const Target &target, StringRef symbol,
                                            const EmbeddingSpec &spec, int64_t n) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam ids = b.input("ids", Halide::Int(32), {0});
    WeightExpressions weights = b.weights(spec.layout, n, spec.k);
    ImageParam given;
    if (spec.given)
      given = b.input("given", Halide::Float(32), {spec.k, 0});
    Var column("column"), row("row");

    // out[row] = scale W[ids[row]], or given[ids[row] - n]
    Func out = b.func("out");
    Expr weight = weights.at(Halide::clamp(ids(row), 0, int(n) - 1), column);
    Expr value = spec.scale == 1 ? weight : weight * spec.scale;
    // Both are read: of what an id does not name, the first row. A row that it names is there.
    if (spec.given) {
      Expr number = Halide::max(ids(row) - int(spec.given), 0);
      Expr its = given(column, Halide::unsafe_promise_clamped(number, 0, given.dim(1).extent() - 1));
      value = Halide::select(ids(row) < int(spec.given), value, its);
    }
    out(column, row) = value;

    // A block is a row and 64 of its columns.
    Var block("block"), thread("thread");
    out.output_buffer().dim(0).set_bounds(0, int(spec.k));
    out.output_buffer().dim(1).set_min(0);
    out.bound(column, 0, int(spec.k))
        .split(column, block, thread, 64, TailStrategy::GuardWithIf)
        .gpu_blocks(block, row)
        .gpu_threads(thread);
    return b.finish(out);
  });
}

namespace {

class Dequantize : public opencl::DeviceEmitterOf<DequantizeOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(DequantizeOp op) const override { return signatureOf(op, /*countsRows=*/true); }
  FailureOr<Kernels> build(DequantizeOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override;
};

} // namespace

// Ids are kept within the table's rows.
FailureOr<Kernels> Dequantize::build(DequantizeOp op, ScheduleAttr schedule, StringRef name,
                                     KernelModule &module) const {
  FailureOr<EmbeddingSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    std::string symbol = (name + "_device").str();
    if (failed(module.addObject(name, emitEmbedding(op.getLoc(), target, symbol, *spec, op.getN()))))
      return failure();
    HostKernelOf<EmbeddingCall, Enqueuer> host(op.getLoc(), module.code, name,
                                               spec->given ? EmbeddingCall::Given : EmbeddingCall::Plain);
    const EmbeddingCall &call = host.call;
    host.addVector(i32Element, call.ids, call.rowEnd);
    host.addWeights(call.weights, spec->layout, op.getN(), spec->k);
    // There is a row for each id.
    if (spec->given)
      host.addRows(f32Element, call.given, spec->k, host.constant(spec->k), host.constant(INT32_MAX));
    host.addRows(f32Element, call.out, spec->k, call.outStride, call.rowEnd);
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::dequantize(const Target &target) {
  return std::make_unique<Dequantize>(target);
}
