// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts of each row and the list of each expert's rows, by Halide. Threads share no counters: an expert's place is the number of
// experts before it, an entry's that of entries before it, which each thread counts for itself.

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/halide/ScalarExpressions.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

#include <limits>

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

//===- the choice ---------------------------------------------------------===//

namespace {

// Funcs over experts and rows, computed once for each row by threads that each take an expert (or a group of them). All are f32, counts and indices too:
// Halide puts Funcs of a block into the same bytes one after the other, and a driver's compiler may take stores of integers for what leaves floats alone,
// and move them before the loads that come first.
class RowScores {
public:
  RowScores(PipelineBuilder &b, const MoeRouteSpec &spec)
      : expert("expert"), row("row"), b(b), spec(spec),
        logits(b.input("logits", Halide::Float(32), {spec.numExperts, 0})) {
    if (spec.hasCorrection)
      correction = b.input("correction", Halide::Float(32), {spec.numExperts});
    define();
  }

  // The sum over all experts e of what `term` makes of e, at `place`.
  Func sumOver(const char *name, const Var &place, const std::function<Expr(Expr e)> &term) {
    Func sum = b.func(name);
    RDom e(0, int(spec.numExperts), "e");
    sum(place, row) = 0.0f;
    sum(place, row) += term(e);
    return sum;
  }
  // What experts are ranked by.
  Expr score(Expr e) { return scores(e, row); }
  Expr logit(Expr e) { return logits(e, row); }
  // Before weights of a row are normalised and scaled.
  Expr weight(Expr e) { return weights(e, row); }
  Expr isAt(Expr e, const Var &place) { return rank(e, row) == Halide::cast<float>(place); }

  // Everything is computed for a block's row.
  void schedule(Func out, const Var &thread) {
    out.gpu_blocks(row).gpu_threads(thread);
    for (Func &func : stages) {
      func.compute_at(out, row).store_in(Halide::MemoryType::GPUShared).gpu_threads(func.args()[0]);
      for (int update = 0; update < func.num_update_definitions(); ++update)
        func.update(update).gpu_threads(func.args()[0]);
    }
  }
  Func stage(Func func, int64_t extent) {
    func.bound(func.args()[0], 0, int(extent)).bound_storage(row, 1);
    stages.push_back(func);
    return func;
  }

  Var expert, row;
  Func rank; // (expert, row): how many experts are better; of equal ones the lower index is

private:
  void define();
  void keepTopGroups();
  Func rankOf(const char *name, const Func &values, int64_t count);

  PipelineBuilder &b;
  const MoeRouteSpec &spec;
  ImageParam logits, correction;
  Func weights, scores;
  std::vector<Func> stages;
};

} // namespace

// (place, row): how many of `count` values are greater than that one, or equal and before it.
Func RowScores::rankOf(const char *name, const Func &values, int64_t count) {
  Func ranks = b.func(name);
  RDom other(0, int(count), "other");
  Expr mine = values(expert, row), its = values(other, row);
  ranks(expert, row) = 0.0f;
  ranks(expert, row) += Halide::cast<float>(its > mine || (its == mine && other < expert));
  return stage(ranks, count);
}

// Scores of experts whose group does not take part no longer count.
void RowScores::keepTopGroups() {
  int size = int(spec.numExperts / spec.numGroups), summands = spec.hasCorrection ? 2 : 1;
  Func inGroup = b.func("in_group"), groupScore = b.func("group_score"), kept = b.func("kept");
  RDom other(0, size, "other"), e(0, size, "e");
  Expr it = expert / size * size + other, mine = scores(expert, row), its = scores(it, row);
  inGroup(expert, row) = 0.0f;
  inGroup(expert, row) += Halide::cast<float>(its > mine || (its == mine && it < expert));
  stage(inGroup, spec.numExperts);
  groupScore(expert, row) = 0.0f;
  Expr member = expert * size + e;
  groupScore(expert, row) += Halide::select(inGroup(member, row) < float(summands), scores(member, row), 0.0f);
  stage(groupScore, spec.numGroups);
  Func groupRank = rankOf("group_rank", groupScore, spec.numGroups);
  kept(expert, row) = Halide::select(groupRank(expert / size, row) < float(spec.topGroups), scores(expert, row),
                                     -std::numeric_limits<float>::infinity());
  scores = stage(kept, spec.numExperts);
}

void RowScores::define() {
  weights = b.func("weights");
  if (spec.sigmoid) {
    weights(expert, row) = 1.0f / (1.0f + expExpr(-logit(expert)));
  } else if (spec.jitter) {
    weights(expert, row) = logit(expert);
  } else {
    // softmax of the logits
    Var whole("whole");
    Func largest = b.func("largest"), total = b.func("total");
    RDom e(0, int(spec.numExperts), "e"), t(0, int(spec.numExperts), "t");
    largest(whole, row) = Halide::Float(32).min();
    largest(whole, row) = Halide::max(largest(whole, row), logit(e));
    stage(largest, 1);
    Func exponential = b.func("exponential");
    exponential(expert, row) = expExpr(logit(expert) - largest(0, row));
    stage(exponential, spec.numExperts);
    total(whole, row) = 0.0f;
    total(whole, row) += exponential(t, row);
    stage(total, 1);
    weights(expert, row) = exponential(expert, row) / total(0, row);
  }
  stage(weights, spec.numExperts);
  scores = b.func("scores");
  scores(expert, row) = spec.hasCorrection ? weight(expert) + correction(expert) : logit(expert);
  stage(scores, spec.numExperts);
  if (spec.numGroups > 1)
    keepTopGroups();
  rank = rankOf("rank", scores, spec.numExperts);
}

// (logits (num_experts, rows) f32, [correction (num_experts)]) -> experts (top_k, rows) i32
static FailureOr<std::string> emitExperts(Location loc, const Target &target, StringRef symbol,
                                          const MoeRouteSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    RowScores scores(b, spec);
    Var place("place");
    Func out = b.func("out");
    // Scores that compare with nothing (NaN) have no rank of their own.
    Func chosen = scores.stage(
        scores.sumOver("chosen", place,
                       [&](Expr e) { return Halide::select(scores.isAt(e, place), Halide::cast<float>(e), 0.0f); }),
        spec.topK);
    Expr index = Halide::cast<int32_t>(chosen(place, scores.row));
    out(place, scores.row) = Halide::clamp(index, 0, int(spec.numExperts - 1));
    out.output_buffer().dim(0).set_bounds(0, int(spec.topK));
    out.output_buffer().dim(1).set_min(0);
    out.bound(place, 0, int(spec.topK));
    scores.schedule(out, place);
    return b.finish(out);
  });
}

// (logits, [correction], [scales (num_experts)]) -> weights (top_k, rows) f32
static FailureOr<std::string> emitWeights(Location loc, const Target &target, StringRef symbol,
                                          const MoeRouteSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    RowScores scores(b, spec);
    Var place("place"), whole("whole");
    const Var &row = scores.row;
    Func own = scores.stage(
        scores.sumOver("own", place,
                       [&](Expr e) { return Halide::select(scores.isAt(e, place), scores.weight(e), 0.0f); }),
        spec.topK);
    Func weight = own;
    if (spec.jitter) {
      // A sparse mixer's weights are of the experts that are not taken yet and not far below.
      Func competing = scores.stage(
          scores.sumOver("competing", place,
                         [&](Expr e) {
                           Expr mine = own(place, row), its = scores.logit(e);
                           Expr isFar = (mine - its) / Halide::max(Halide::abs(its), mine) > float(2 * *spec.jitter);
                           return Halide::select(isFar || scores.rank(e, row) <= Halide::cast<float>(place), 0.0f,
                                                 expExpr(its - mine));
                         }),
          spec.topK);
      weight = b.func("mixed");
      weight(place, row) = 1.0f / (1.0f + competing(place, row));
      scores.stage(weight, spec.topK);
    }
    Expr result = weight(place, row);
    ImageParam scales;
    if (spec.hasScales)
      scales = b.input("scales", Halide::Float(32), {spec.numExperts});
    if (spec.normalize) {
      Func sum = b.func("sum");
      RDom i(0, int(spec.topK), "i");
      sum(whole, row) = 0.0f;
      sum(whole, row) += weight(i, row);
      result /= scores.stage(sum, 1)(0, row);
    }
    if (spec.scale != 1)
      result *= spec.scale;
    if (spec.hasScales) {
      auto scaleAt = [&](Expr e) { return Halide::select(scores.isAt(e, place), scales(e), 0.0f); };
      result *= scores.stage(scores.sumOver("own_scale", place, scaleAt), spec.topK)(place, row);
    }
    Func out = b.func("out");
    out(place, row) = result;
    out.output_buffer().dim(0).set_bounds(0, int(spec.topK));
    out.output_buffer().dim(1).set_min(0);
    out.bound(place, 0, int(spec.topK));
    scores.schedule(out, place);
    return b.finish(out);
  });
}

//===- the list -----------------------------------------------------------===//

namespace {

// Entries, (top_k, rows) in turn, with the expert of each; num_experts for those that an expert has no room for.
struct Entries {
  Entries(PipelineBuilder &b, const MoeRouteSpec &spec)
      : spec(spec), experts(b.input("experts", Halide::Int(32), {0})),
        sequence(b.input("row_sequence", Halide::Int(32), {0})) {}

  Expr count() const { return experts.dim(0).extent(); }
  Expr expert(Expr entry) const { return Halide::clamp(experts(entry), 0, int(spec.numExperts)); }
  Expr sequenceOf(Expr entry) const {
    return sequence(Halide::clamp(entry / int(spec.topK), 0, sequence.dim(0).extent() - 1));
  }

  const MoeRouteSpec &spec;
  ImageParam experts, sequence;
};

} // namespace

// A grid of one thread for each element of `out`, whose stages each thread computes for itself.
static void scheduleElements(Func out, const Var &element, std::initializer_list<Func> stages) {
  Var block("block"), thread("thread");
  out.split(element, block, thread, 64, TailStrategy::GuardWithIf).gpu_blocks(block).gpu_threads(thread);
  for (Func stage : stages)
    stage.compute_at(out, thread);
}

// (entries) -> (entries): the expert, or num_experts where `capacity` entries before it in the sequence chose the same
static FailureOr<std::string> emitCapacity(Location loc, const Target &target, StringRef symbol,
                                           const MoeRouteSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    Entries entries(b, spec);
    Var entry("entry");
    Func before = b.func("before"), out = b.func("out");
    RDom other(0, entries.count(), "other");
    before(entry) = 0;
    before(entry) += Halide::cast<int32_t>(other < entry && entries.expert(other) == entries.expert(entry) &&
                                           entries.sequenceOf(other) == entries.sequenceOf(entry));
    out(entry) = Halide::select(before(entry) < int(spec.capacity), entries.expert(entry), int(spec.numExperts));
    out.output_buffer().dim(0).set_min(0);
    scheduleElements(out, entry, {before});
    return b.finish(out);
  });
}

// (entries) -> offsets (num_experts + 1): how many entries are of experts before it
static FailureOr<std::string> emitOffsets(Location loc, const Target &target, StringRef symbol,
                                          const MoeRouteSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    Entries entries(b, spec);
    Var expert("expert");
    Func before = b.func("before"), out = b.func("out");
    RDom entry(0, entries.count(), "entry");
    before(expert) = 0;
    before(expert) += Halide::cast<int32_t>(entries.expert(entry) < expert);
    out(expert) = before(expert);
    out.output_buffer().dim(0).set_bounds(0, int(spec.numExperts + 1));
    out.bound(expert, 0, int(spec.numExperts + 1));
    scheduleElements(out, expert, {before});
    return b.finish(out);
  });
}

// (entries, offsets (num_experts + 1), weights (entries) f32) -> (entries): of the list's entry the row, or its weight. Places behind the
// last listed entry get those of the first one that is not listed, and nobody reads them.
static FailureOr<std::string> emitListed(Location loc, const Target &target, StringRef symbol, const MoeRouteSpec &spec,
                                         bool asWeights) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    Entries entries(b, spec);
    ImageParam offsets = b.input("offsets", Halide::Int(32), {spec.numExperts + 1});
    ImageParam weights = b.input("weights", Halide::Float(32), {0});
    Var place("place");
    // The expert of a place is the last whose list begins at or before it; the entry, the one that has as many of that expert's before it.
    Func expert = b.func("expert"), state = b.func("state"), out = b.func("out");
    RDom e(1, int(spec.numExperts), "e"), entry(0, entries.count(), "entry");
    expert(place) = 0;
    expert(place) += Halide::cast<int32_t>(offsets(e) <= place);
    Expr isIts = entries.expert(entry) == expert(place);
    Expr begin = offsets(Halide::clamp(expert(place), 0, int(spec.numExperts)));
    state(place) = Halide::Tuple(Expr(0), Expr(0));
    state(place) = Halide::Tuple(state(place)[0] + Halide::cast<int32_t>(isIts),
                                 Halide::select(isIts && state(place)[0] == place - begin, entry, state(place)[1]));
    Expr found = Halide::clamp(state(place)[1], 0, entries.count() - 1);
    if (asWeights)
      out(place) = weights(found);
    else
      out(place) = found / int(spec.topK);
    out.output_buffer().dim(0).set_min(0);
    scheduleElements(out, place, {expert, state});
    return b.finish(out);
  });
}

//===- host code ----------------------------------------------------------===//

namespace {

class RouteExperts : public opencl::DeviceEmitterOf<RouteExpertsOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(RouteExpertsOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RouteExpertsOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  FailureOr<func::FuncOp> buildChoice(Location loc, const MoeRouteSpec &spec, StringRef name,
                                      KernelModule &module) const;
  FailureOr<func::FuncOp> buildList(Location loc, const MoeRouteSpec &spec, StringRef name, KernelModule &module) const;
};

} // namespace

FailureOr<func::FuncOp> RouteExperts::buildChoice(Location loc, const MoeRouteSpec &spec, StringRef name,
                                                  KernelModule &module) const {
  std::string experts = (name + "_experts_device").str(), weights = (name + "_weights_device").str();
  if (failed(module.addObject(name, emitExperts(loc, target, experts, spec))) ||
      failed(module.addObject(name, emitWeights(loc, target, weights, spec))))
    return failure();
  HostKernelOf<RouteCall, Enqueuer> host(loc, module.code, name);
  const RouteCall &call = host.call;
  auto choose = [&](StringRef symbol, BufferElement element, Value scales, Value out) {
    host.addRows(f32Element, call.logits, spec.numExperts, host.constant(spec.numExperts), call.rowEnd);
    if (spec.hasCorrection)
      host.addVector(f32Element, call.correction, host.constant(spec.numExperts));
    if (scales)
      host.addVector(f32Element, scales, host.constant(spec.numExperts));
    host.addRows(element, out, spec.topK, host.constant(spec.topK), call.rowEnd);
    host.enqueue(symbol);
  };
  choose(experts, i32Element, /*scales=*/Value(), call.experts);
  choose(weights, f32Element, spec.hasScales ? call.scales : Value(), call.weights);
  return host.finish();
}

FailureOr<func::FuncOp> RouteExperts::buildList(Location loc, const MoeRouteSpec &spec, StringRef name,
                                                KernelModule &module) const {
  std::string capacity = (name + "_capacity_device").str(), offsets = (name + "_offsets_device").str(),
              rows = (name + "_rows_device").str(), scales = (name + "_scales_device").str();
  if ((spec.capacity && failed(module.addObject(name, emitCapacity(loc, target, capacity, spec)))) ||
      failed(module.addObject(name, emitOffsets(loc, target, offsets, spec))) ||
      failed(module.addObject(name, emitListed(loc, target, rows, spec, /*asWeights=*/false))) ||
      failed(module.addObject(name, emitListed(loc, target, scales, spec, /*asWeights=*/true))))
    return failure();
  HostKernelOf<GroupCall, Enqueuer> host(loc, module.code, name);
  const GroupCall &call = host.call;
  Value entries = host.builder().mul(call.rows, spec.topK), numOffsets = host.constant(spec.numExperts + 1);
  auto addEntries = [&] {
    host.addVector(i32Element, call.experts, entries);
    host.addVector(i32Element, host.pointer(offsetof(heddle_step, row_sequence)), call.rows);
  };
  if (spec.capacity) {
    // In place: before an entry that is dropped there are `capacity` that are not, before one that is not there is no dropped one, so
    // that no thread's answer depends on what another has written.
    addEntries();
    host.addVector(i32Element, call.experts, entries);
    host.enqueue(capacity);
  }
  addEntries();
  host.addVector(i32Element, call.offsets, numOffsets);
  host.enqueue(offsets);
  auto list = [&](StringRef symbol, BufferElement element, Value out) {
    addEntries();
    host.addVector(i32Element, call.offsets, numOffsets);
    host.addVector(f32Element, call.weights, entries);
    host.addVector(element, out, entries);
    host.enqueue(symbol);
  };
  list(rows, i32Element, call.rowIndex);
  list(scales, f32Element, call.rowScale);
  return host.finish();
}

FailureOr<Kernels> RouteExperts::build(RouteExpertsOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  MoeRouteSpec spec = specOf(op);
  std::string listName = groupName(spec);
  FailureOr<func::FuncOp> choice = module.once(name, [&] { return buildChoice(op.getLoc(), spec, name, module); });
  FailureOr<func::FuncOp> list = module.once(listName, [&] { return buildList(op.getLoc(), spec, listName, module); });
  if (failed(choice) || failed(list))
    return failure();
  return Kernels{*choice, *list};
}

std::unique_ptr<KernelEmitter> heddle::opencl::routeExperts(const Target &target) {
  return std::make_unique<RouteExperts>(target);
}
