// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A causal depthwise convolution behind states, by Halide: first the rows, each from the tokens before it, then the states that their
// sequences leave.

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/halide/ScalarExpressions.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::Var;

namespace {

// The rows of a step and where each of its sequences begins: (input (channels, rows), row_sequence (rows), cache_positions (rows), page_table (pages,
// sequences), sequence_rows (2, sequences)).
struct ConvRows {
  ConvRows(PipelineBuilder &b, const ConvSpec &spec)
      : spec(spec), input(b.input("input", Halide::Float(32), {spec.channels, 0})), places(b),
        sequences(b.input("sequence_rows", Halide::Int(32), {2, 0})) {}

  Expr numRows() const { return input.dim(1).extent(); }
  Expr sequenceOf(Expr row) { return Halide::clamp(places.sequence(row), 0, sequences.dim(1).extent() - 1); }
  Expr firstRow(Expr sequence) const { return Halide::clamp(sequences(0, sequence), 0, numRows() - 1); }
  Expr countOf(Expr sequence) const { return sequences(1, sequence); }
  Expr past(Expr sequence) { return places.position(firstRow(sequence)); }

  // Number `index` from the first row of the sequence on; one before it is in the state that was left, of which there is none before the first token.
  Expr token(Expr channel, Expr sequence, Expr index, const std::function<Expr(Expr number, Expr page)> &state) {
    Expr kept = Halide::clamp(int(spec.width) - 1 + index, 0, int(spec.width) - 2) * int(spec.channels) + channel;
    Expr page = places.pageOf(sequence, Halide::max(past(sequence) - 1, 0));
    Expr row = Halide::clamp(firstRow(sequence) + index, 0, numRows() - 1);
    return Halide::select(index >= 0, input(channel, row), past(sequence) > 0, state(kept, page), 0.0f);
  }

  const ConvSpec &spec;
  ImageParam input;
  StepPlaces places;
  ImageParam sequences;
};

} // namespace

// (rows as above, states (numbers, pages), weight (width, channels), [bias (channels)]) -> (channels, rows)
static FailureOr<std::string> emitRows(Location loc, const Target &target, StringRef symbol, const ConvSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ConvRows rows(b, spec);
    int width = int(spec.width), channels = int(spec.channels);
    ImageParam states = b.input("states", Halide::Float(32), {(spec.width - 1) * spec.channels, 0}),
               weight = b.input("weight", Halide::Float(32), {spec.width, spec.channels}), bias;
    if (spec.hasBias)
      bias = b.input("bias", Halide::Float(32), {spec.channels});
    auto state = [&](Expr number, Expr page) {
      return states(number, Halide::clamp(page, 0, states.dim(1).extent() - 1));
    };
    Var channel("channel"), row("row");
    Expr sequence = rows.sequenceOf(row), index = row - rows.firstRow(sequence);
    Expr sum = spec.hasBias ? Expr(bias(channel)) : Expr(0.0f);
    for (int tap = 0; tap < width; ++tap)
      sum += weight(tap, channel) * rows.token(channel, sequence, index + tap - (width - 1), state);
    Func out = b.func("out");
    out(channel, row) = spec.hasSilu ? activationExpr(ActivationKind::Silu, sum) : sum;
    out.output_buffer().dim(0).set_bounds(0, channels);
    out.output_buffer().dim(1).set_min(0);
    Var block("block");
    out.split(channel, block, channel, 64, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(block, row)
        .gpu_threads(channel);
    return b.finish(out);
  });
}

// (rows as above) -> states (numbers, pages), of which those of the last tokens are written. A thread takes a channel, whose tokens move to the front.
static FailureOr<std::string> emitStates(Location loc, const Target &target, StringRef symbol, const ConvSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ConvRows rows(b, spec);
    int kept = int(spec.width) - 1, channels = int(spec.channels);
    Var number("number"), page("page");
    Func out = b.func("states");
    out(number, page) = Halide::undef<float>();
    RDom r(0, kept, 0, channels, 0, rows.sequences.dim(1).extent(), "r");
    Expr lastPage = out.output_buffer().dim(1).extent() - 1, count = rows.countOf(r.z);
    auto state = [&](Expr number, Expr page) { return out(number, Halide::clamp(page, 0, lastPage)); };
    Expr to = rows.places.pageOf(r.z, rows.past(r.z) + count - 1);
    out(r.x * channels + r.y, Halide::clamp(to, 0, lastPage)) = rows.token(r.y, r.z, count - kept + r.x, state);
    out.output_buffer().dim(0).set_bounds(0, kept * channels);
    out.output_buffer().dim(1).set_min(0);
    Halide::RVar block("block"), thread("thread");
    out.update()
        .allow_race_conditions()
        .split(r.y, block, thread, 64, Halide::TailStrategy::GuardWithIf)
        .reorder(r.x, thread, block, r.z)
        .gpu_blocks(block, r.z)
        .gpu_threads(thread);
    return b.finish(out);
  });
}

namespace {

class RaggedConv : public opencl::DeviceEmitterOf<RaggedConvOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(RaggedConvOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RaggedConvOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override;
};

} // namespace

FailureOr<Kernels> RaggedConv::build(RaggedConvOp op, ScheduleAttr schedule, StringRef name,
                                     KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    ConvSpec spec = specOf(op);
    std::string ofRows = (name + "_device").str(), ofStates = (name + "_states_device").str();
    if (failed(module.addObject(name, emitRows(op.getLoc(), target, ofRows, spec))) ||
        failed(module.addObject(name, emitStates(op.getLoc(), target, ofStates, spec))))
      return failure();
    HostKernelOf<ConvCall, Enqueuer> host(op.getLoc(), module.code, name);
    const ConvCall &call = host.call;
    Value rows = host.number(offsetof(heddle_step, rows));
    auto addRows = [&] {
      host.addRows(f32Element, call.input, spec.channels, call.inputStride, rows);
      host.addPlaces();
      host.addSequenceRows();
    };
    int64_t size = (spec.width - 1) * spec.channels;
    addRows();
    host.addStates(size, call.stateOffset);
    host.addRows(f32Element, call.weight, spec.width, host.constant(spec.width), host.constant(spec.channels));
    if (spec.hasBias)
      host.addVector(f32Element, call.bias, host.constant(spec.channels));
    host.addRows(f32Element, call.out, spec.channels, call.outStride, rows);
    host.enqueue(ofRows);
    addRows();
    host.addStates(size, call.stateOffset);
    host.enqueue(ofStates);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::raggedConv(const Target &target) {
  return std::make_unique<RaggedConv>(target);
}
