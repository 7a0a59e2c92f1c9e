// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges what rows saw of each split of the keys, in ascending order, by Halide.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"
#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::ImageParam;

// (elements (value_dim, num_heads, splits, rows), maxima, sums (num_heads, splits, rows), positions (rows), [sinks (num_heads)], [row_sequence (rows),
//  SeenKeys]) -> (value_dim, num_heads, rows)
static FailureOr<std::string> emitCombine(Location loc, const Target &target, StringRef symbol,
                                          const AttentionSpec &spec, int64_t splitKv) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam elements = b.input("elements", Halide::Float(32), {spec.valueDim(), spec.numHeads, 0, 0}),
               maxima = b.input("maxima", Halide::Float(32), {spec.numHeads, 0, 0}),
               sums = b.input("sums", Halide::Float(32), {spec.numHeads, 0, 0}),
               positions = b.input("positions", Halide::Int(32), {0}), sinks;
    if (spec.hasSinks)
      sinks = b.input("sinks", Halide::Float(32), {spec.numHeads});
    ImageParam sequences;
    if (spec.given)
      sequences = b.input("row_sequence", Halide::Int(32), {0});
    SeenKeys seen(b, spec);
    return b.finish(mergeSplits(b, spec, elements, maxima, sums, sinks, [&](Expr row) {
      Expr position = positions(row), sequence = spec.given ? Expr(sequences(row)) : Expr(0);
      return std::pair(seen.first(sequence, position, positions) / int(splitKv),
                       seen.last(sequence, position, positions) / int(splitKv));
    }));
  });
}

namespace {

class CombineSplits : public opencl::DeviceEmitterOf<CombineSplitsOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(CombineSplitsOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(CombineSplitsOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
      AttentionSpec spec = specOf(op);
      std::string symbol = (name + "_device").str();
      if (failed(module.addObject(name, emitCombine(op.getLoc(), target, symbol, spec, op.getSplitKv()))))
        return failure();
      HostKernelOf<CombineSplitsCall, Enqueuer> host(op.getLoc(), module.code, name);
      const CombineSplitsCall &call = host.call;
      Value rows = host.number(offsetof(heddle_step, rows));
      addStatesOfSplits(host, spec, {call.outputs, call.maxima, call.sums}, call.maxSplits, call.maxSplits,
                        /*hasElements=*/false);
      host.addVector(i32Element, host.pointer(offsetof(heddle_step, cache_positions)), rows);
      if (spec.hasSinks)
        host.addVector(f32Element, call.sinks, host.constant(spec.numHeads));
      if (spec.given)
        host.addVector(i32Element, host.pointer(offsetof(heddle_step, row_sequence)), rows);
      SeenKeys::add(host, spec);
      host.addHeads(call.out, spec.valueDim(), spec.numHeads, call.outStride, rows);
      host.enqueue(symbol);
      return host.finish();
    }));
  }
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::opencl::combineSplits(const Target &target) {
  return std::make_unique<CombineSplits>(target);
}
