// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention behind states, by Halide: one token of each sequence at once. Halide has no loop over tokens whose every round first sums up what the
// one before left, so the host makes it: it launches both pipelines for the sequences' first rows, then on views of the step that begin a row later.

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
using Halide::RVar;
using Halide::Var;

namespace {

// The first row of each sequence in a view: (states (numbers, pages), key (num_key_heads * key dim, rows), value (num_heads * value dim, rows),
// [decay (num_heads or num_heads * key dim, rows), beta (num_heads, rows)], row_sequence, cache_positions (rows), page_table (pages, sequences), sequence_rows (2, sequences)).
struct FirstTokens {
  FirstTokens(PipelineBuilder &b, const LinearAttentionSpec &spec)
      : spec(spec), states(b.input("states", Halide::Float(32), {spec.numHeads * spec.keyDim * spec.valueDim, 0})),
        key(b.input("key", Halide::Float(32), {spec.numKeyHeads * spec.keyDim, 0})),
        value(b.input("value", Halide::Float(32), {spec.numHeads * spec.valueDim, 0})) {
    if (spec.hasDecay)
      decay = b.input("decay", Halide::Float(32), {spec.decayWidth(), 0});
    if (spec.hasBeta)
      beta = b.input("beta", Halide::Float(32), {spec.numHeads, 0});
    places.emplace(b);
    sequences = b.input("sequence_rows", Halide::Int(32), {2, 0});
  }

  Expr numSequences() const { return sequences.dim(1).extent(); }
  Expr row(Expr sequence) const { return Halide::clamp(sequences(0, sequence), 0, key.dim(1).extent() - 1); }
  // Whether the sequence has such a row: a view that begins further back shows that of another, or none.
  Expr hasRow(Expr sequence) {
    return sequences(0, sequence) < key.dim(1).extent() && places->sequence(row(sequence)) == sequence;
  }
  Expr page(Expr sequence, Expr token, Expr numPages) {
    return Halide::clamp(places->pageOf(sequence, token), 0, numPages - 1);
  }
  Expr keyColumn(Expr i, Expr head) const {
    return head / int(spec.numHeads / spec.numKeyHeads) * int(spec.keyDim) + i;
  }
  Expr number(Expr i, Expr column, Expr head) const {
    return (head * int(spec.keyDim) + i) * int(spec.valueDim) + column;
  }
  // What the tokens before have left, once it has decayed.
  Expr state(Expr i, Expr column, Expr head, Expr sequence) {
    Expr past = places->position(row(sequence)),
         before = page(sequence, Halide::max(past - 1, 0), states.dim(1).extent());
    Expr left = Halide::select(past > 0, states(number(i, column, head), before), 0.0f);
    Expr decaying = spec.decaysByKey ? head * int(spec.keyDim) + i : head;
    return spec.hasDecay ? left * Halide::exp(decay(decaying, row(sequence))) : left;
  }
  // What the key adds of itself to a column, of which the state knows `known`.
  Expr added(Expr column, Expr head, Expr sequence, Expr known) const {
    Expr given = value(head * int(spec.valueDim) + column, row(sequence));
    return spec.hasBeta ? (given - known) * beta(head, row(sequence)) : given;
  }

  const LinearAttentionSpec &spec;
  ImageParam states, key, value, decay, beta, sequences;
  std::optional<StepPlaces> places;
};

// known(column, head, sequence) = state^T key of a thread.
Func knownOf(PipelineBuilder &b, FirstTokens &tokens) {
  Var column("column"), head("head"), sequence("sequence");
  Func known = b.func("known");
  RDom i(0, int(tokens.spec.keyDim), "i");
  known(column, head, sequence) = 0.0f;
  known(column, head, sequence) +=
      tokens.key(tokens.keyColumn(i, head), tokens.row(sequence)) * tokens.state(i, column, head, sequence);
  return known;
}

// Threads are columns, blocks parts of a head. `perThread` are a thread's own.
void scheduleColumns(Func out, const RVar &column, const RVar &head, const RVar &sequence,
                     std::vector<Func> perThread) {
  RVar block("block"), thread("thread");
  out.update()
      .allow_race_conditions()
      .split(column, block, thread, 32, Halide::TailStrategy::GuardWithIf)
      .gpu_blocks(block, head, sequence)
      .gpu_threads(thread);
  for (Func &func : perThread)
    func.compute_at(out, thread);
}

} // namespace

// (FirstTokens, query (num_key_heads * key dim, rows)) -> (num_heads * value dim, rows), of which the sequences' first rows are written
static FailureOr<std::string> emitRows(Location loc, const Target &target, StringRef symbol,
                                       const LinearAttentionSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    FirstTokens tokens(b, spec);
    ImageParam query = b.input("query", Halide::Float(32), {spec.numKeyHeads * spec.keyDim, 0});
    Var column("column"), head("head"), sequence("sequence");
    Func known = knownOf(b, tokens), sum = b.func("sum"), out = b.func("out");
    RDom i(0, int(spec.keyDim), "i");
    Expr key = tokens.keyColumn(i, head), row = tokens.row(sequence);
    Expr added = tokens.added(column, head, sequence, known(column, head, sequence));
    sum(column, head, sequence) = 0.0f;
    sum(column, head, sequence) +=
        query(key, row) * (tokens.state(i, column, head, sequence) + tokens.key(key, row) * added);
    RDom r(0, int(spec.valueDim), 0, int(spec.numHeads), 0, tokens.numSequences(), "r");
    r.where(tokens.hasRow(r.z));
    Var place("place"), toRow("row");
    out(place, toRow) = Halide::undef<float>();
    out(r.y * int(spec.valueDim) + r.x, tokens.row(r.z)) = float(spec.scale) * sum(r.x, r.y, r.z);
    out.output_buffer().dim(0).set_bounds(0, int(spec.numHeads * spec.valueDim));
    out.output_buffer().dim(1).set_min(0);
    scheduleColumns(out, r.x, r.y, r.z, {known, sum});
    return b.finish(out);
  });
}

// (FirstTokens) -> states (numbers, pages), which are those of the input: a thread sums up its column, then writes it
static FailureOr<std::string> emitStates(Location loc, const Target &target, StringRef symbol,
                                         const LinearAttentionSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    FirstTokens tokens(b, spec);
    Func known = knownOf(b, tokens), out = b.func("states_after");
    RDom r(0, int(spec.keyDim), 0, int(spec.valueDim), 0, int(spec.numHeads), 0, tokens.numSequences(), "r");
    r.where(tokens.hasRow(r.w));
    Var place("place"), page("page");
    out(place, page) = Halide::undef<float>();
    Expr row = tokens.row(r.w), added = tokens.added(r.y, r.z, r.w, known(r.y, r.z, r.w));
    Expr to = tokens.page(r.w, tokens.places->position(row), out.output_buffer().dim(1).extent());
    out(tokens.number(r.x, r.y, r.z), to) =
        tokens.state(r.x, r.y, r.z, r.w) + tokens.key(tokens.keyColumn(r.x, r.z), row) * added;
    out.output_buffer().dim(0).set_bounds(0, int(spec.numHeads * spec.keyDim * spec.valueDim));
    out.output_buffer().dim(1).set_min(0);
    scheduleColumns(out, r.y, r.z, r.w, {known});
    return b.finish(out);
  });
}

namespace {

class RaggedLinearAttention : public opencl::DeviceEmitterOf<RaggedLinearAttentionOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(RaggedLinearAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RaggedLinearAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

// The rows of a step from number `first` on, as buffers.
class StepViews {
public:
  StepViews(HostKernelOf<LinearAttentionCall, Enqueuer> &host, const LinearAttentionSpec &spec, Value first)
      : host(host), b(host.builder()), spec(spec), first(first),
        rows(b.sub(host.number(offsetof(heddle_step, rows)), first)) {}

  void add(Value from, int64_t width, Value stride) {
    host.addRows(f32Element, b.at(from, b.mul(first, stride), sizeof(float)), width, stride, rows);
  }
  // What FirstTokens takes.
  void addTokens() {
    const LinearAttentionCall &call = host.call;
    host.addStates(spec.numHeads * spec.keyDim * spec.valueDim, call.stateOffset);
    add(call.key, spec.numKeyHeads * spec.keyDim, call.keyStride);
    add(call.value, spec.numHeads * spec.valueDim, call.valueStride);
    if (spec.hasDecay)
      add(call.decay, spec.decayWidth(), call.decayStride);
    if (spec.hasBeta)
      add(call.beta, spec.numHeads, call.betaStride);
    host.addPlaces(/*isCross=*/false, first);
    host.addSequenceRows();
  }

private:
  HostKernelOf<LinearAttentionCall, Enqueuer> &host;
  RawBuilder &b;
  const LinearAttentionSpec &spec;
  Value first, rows;
};

} // namespace

FailureOr<Kernels> RaggedLinearAttention::build(RaggedLinearAttentionOp op, ScheduleAttr schedule, StringRef name,
                                                KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    LinearAttentionSpec spec = specOf(op);
    std::string ofRows = (name + "_device").str(), ofStates = (name + "_states_device").str();
    if (failed(module.addObject(name, emitRows(op.getLoc(), target, ofRows, spec))) ||
        failed(module.addObject(name, emitStates(op.getLoc(), target, ofStates, spec))))
      return failure();
    HostKernelOf<LinearAttentionCall, Enqueuer> host(op.getLoc(), module.code, name);
    RawBuilder &b = host.builder();
    const LinearAttentionCall &call = host.call;
    // No sequence has more rows than the step without one of each other.
    Value longest = b.add(b.sub(host.number(offsetof(heddle_step, rows)), call.numSequences), b.constant(1));
    b.loop(b.constant(0), longest, 1, [&](Value index) {
      StepViews views(host, spec, index);
      views.addTokens();
      views.add(call.query, spec.numKeyHeads * spec.keyDim, call.queryStride);
      views.add(call.out, spec.numHeads * spec.valueDim, call.outStride);
      host.enqueue(ofRows);
      views.addTokens();
      host.addStates(spec.numHeads * spec.keyDim * spec.valueDim, call.stateOffset);
      host.enqueue(ofStates);
    });
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::raggedLinearAttention(const Target &target) {
  return std::make_unique<RaggedLinearAttention>(target);
}
