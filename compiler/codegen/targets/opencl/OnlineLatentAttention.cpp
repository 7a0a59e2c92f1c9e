// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Latent attention, by Halide, in the absorbed body whatever the number of queries: they are folded, meet the cached rows as one KV head
// does, and what they get of latents is projected. Rebuilt keys and values would need memory for all tokens of a sequence.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"
#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

#include "llvm/Support/FormatVariadic.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

namespace {

// Matrices (n, k) of all KV heads, one packed after the other.
struct HeadMatrices {
  PackedLayout layout;
  int64_t n, k, numKvHeads;

  int64_t packedRows() const { return layout.numPanels(n) * PackedLayout::panelRows; }
  WeightExpressions inputOf(PipelineBuilder &b) const { return b.weights(layout, numKvHeads * packedRows(), k); }
  void addTo(Enqueuer &host, Value at) const { host.addWeights(at, layout, numKvHeads * packedRows(), k); }
  Expr at(const WeightExpressions &weights, Expr kvHead, Expr row, Expr column) const {
    return weights.at(kvHead * int(packedRows()) + row, column);
  }
};

} // namespace

// The attention that folded queries need.
static AttentionSpec absorbedSpec(OnlineLatentAttentionOp op) {
  LatentDims dims = op.getDims();
  AttentionSpec spec;
  spec.numHeads = dims.numHeads;
  spec.numKvHeads = 1;
  spec.headDim = dims.cachedDim();
  spec.valueHeadDim = dims.rank;
  spec.scale = op.getScale().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.chunk = op.getMask().getChunk();
  spec.causal = op.getMask().getCausal();
  spec.kv = kvTypeOf(op.getCache().getType());
  spec.valuesInKeys = true;
  return spec;
}

// (x (width, num_heads, rows) f32, weights) -> (out_width, num_heads, rows), each element one thread's.
static Func scheduleHeads(Func out, Func sum, int64_t width, int64_t heads) {
  Var d = out.args()[0], head = out.args()[1], row = out.args()[2], block("block"), thread("thread");
  out.output_buffer().dim(0).set_bounds(0, int(width));
  out.output_buffer().dim(1).set_bounds(0, int(heads)).set_stride(int(width));
  out.output_buffer().dim(2).set_min(0);
  out.bound(d, 0, int(width))
      .bound(head, 0, int(heads))
      .split(d, block, thread, 64, TailStrategy::GuardWithIf)
      .gpu_blocks(block, head, row)
      .gpu_threads(thread);
  sum.compute_at(out, thread);
  return out;
}

// (query (nope + rope, num_heads, rows), key_folds (rank, nope) or key_ups (nope, rank) of each KV head)
//   -> (rank + rope, num_heads, rows): [q_nope @ key_up | q_rope]
static FailureOr<std::string> emitFold(Location loc, const Target &target, StringRef symbol, const LatentDims &dims,
                                       const HeadMatrices &matrices, bool isFolded) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int nope = int(dims.nope), rank = int(dims.rank), group = int(dims.numHeads / dims.numKvHeads);
    ImageParam query = b.input("query", Halide::Float(32), {dims.queryDim(), dims.numHeads, 0});
    query.dim(1).set_stride(int(dims.queryDim()));
    WeightExpressions weights = matrices.inputOf(b);
    Var d("d"), head("head"), row("row");
    Func sum = b.func("sum"), out = b.func("out");
    RDom i(0, nope, "i");
    Expr latent = Halide::min(d, rank - 1);
    sum(d, head, row) = 0.0f;
    sum(d, head, row) += query(i, head, row) * (isFolded ? matrices.at(weights, head / group, latent, i)
                                                         : matrices.at(weights, head / group, i, latent));
    Expr rotary = query(Halide::clamp(d - rank + nope, 0, int(dims.queryDim() - 1)), head, row);
    out(d, head, row) = Halide::select(d < rank, sum(d, head, row), rotary);
    return b.finish(scheduleHeads(out, sum, dims.cachedDim(), dims.numHeads));
  });
}

// (folded queries (rank + rope, num_heads, rows), pages (rank + rope, 64, 1, pages), StepPlaces) -> (rank, num_heads, rows)
static FailureOr<std::string> emitAttend(Location loc, const Target &target, StringRef symbol,
                                         const AttentionSpec &spec, AttentionThreads threads) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam query = b.input("query", Halide::Float(32), {spec.headDim, spec.numHeads, 0});
    ImageParam pages = b.pages("latents", spec.kv, spec.headDim, 1);
    StepPlaces places(b);
    DeviceScoreTerms terms(b, spec);
    AttendedKeys keys;
    keys.numRows = query.dim(2).extent();
    keys.numSequences = places.table.dim(1).extent();
    keys.mostKeys = places.numTokens();
    keys.sequence = [&](Expr row) { return Halide::clamp(places.sequence(row), 0, keys.numSequences - 1); };
    keys.position = [&](Expr row) { return places.position(row); };
    keys.lastKey = [&](Expr row) { return spec.causal ? places.position(row) : keys.mostKeys - 1; };
    keys.firstKey = [&](Expr row) { return firstInMask(spec, places.position(row)); };
    keys.isSeen = [&](Expr row, Expr key) { return isInMask(spec, places.position(row), key); };
    keys.query = [&](Expr element, Expr head, Expr row) { return query(element, head, row); };
    keys.key = [&](Expr element, Expr, Expr sequence, Expr key) {
      Expr page = Halide::clamp(places.pageOf(sequence, key), 0, pages.dim(3).extent() - 1);
      return cachedExpr(spec.kv, pages(element, key % pageTokens, 0, page));
    };
    return b.finish(softmaxAttention(b, spec, keys, terms, threads));
  });
}

// (attended (rank, num_heads, rows), value_ups (value, rank) of each KV head) -> (value, num_heads, rows)
static FailureOr<std::string> emitProject(Location loc, const Target &target, StringRef symbol, const LatentDims &dims,
                                          const HeadMatrices &matrices) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam attended = b.input("attended", Halide::Float(32), {dims.rank, dims.numHeads, 0});
    WeightExpressions weights = matrices.inputOf(b);
    Var d("d"), head("head"), row("row");
    Func sum = b.func("sum"), out = b.func("out");
    RDom i(0, int(dims.rank), "i");
    sum(d, head, row) = 0.0f;
    sum(d, head, row) +=
        attended(i, head, row) * matrices.at(weights, head / int(dims.numHeads / dims.numKvHeads), d, i);
    out(d, head, row) = sum(d, head, row);
    return b.finish(scheduleHeads(out, sum, dims.value, dims.numHeads));
  });
}

namespace {

class OnlineLatentAttention : public opencl::DeviceEmitterOf<OnlineLatentAttentionOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto attention = dyn_cast<OnlineLatentAttentionOp>(op);
    if (attention && attention.getSplitKv())
      missing = "in splits of the keys";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(OnlineLatentAttentionOp op) const override;
  FailureOr<Kernels> build(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  FailureOr<func::FuncOp> buildHost(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef name,
                                    KernelModule &module) const;
};

} // namespace

// The packed matrices that fold queries: those of keys, or their transposes.
static StringRef foldingFormat(OnlineLatentAttentionOp op) {
  return op.getKeyFolds() ? *op.getFoldFormat() : *op.getKeyFormat();
}

FailureOr<std::string> OnlineLatentAttention::nameOf(OnlineLatentAttentionOp op) const {
  LatentDims dims = op.getDims();
  AttentionSpec spec = absorbedSpec(op);
  std::string mask = spec.chunk ? "_chunk" + std::to_string(spec.chunk) : spec.causal ? "" : "_full";
  return llvm::formatv("latent_h{0}_kv{1}_r{2}_n{3}_p{4}_v{5}_w{6}_s{7}{8}_{9}{10}_{11}", dims.numHeads,
                       dims.numKvHeads, dims.rank, dims.nope, dims.rope, dims.value, spec.window,
                       llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)), mask, op.getKeyFolds() ? "folds_" : "",
                       foldingFormat(op), *op.getValueFormat())
      .str();
}

FailureOr<func::FuncOp> OnlineLatentAttention::buildHost(OnlineLatentAttentionOp op, ScheduleAttr schedule,
                                                         StringRef name, KernelModule &module) const {
  LatentDims dims = op.getDims();
  AttentionSpec spec = absorbedSpec(op);
  std::string error;
  if (failed(verifyAttention(spec, error)))
    return op.emitError(error);
  bool isFolded = bool(op.getKeyFolds());
  FailureOr<PackedLayout> keyLayout = layoutOf(op, foldingFormat(op)), valueLayout = layoutOf(op, *op.getValueFormat());
  if (failed(keyLayout) || failed(valueLayout))
    return failure();
  HeadMatrices ofKeys{*keyLayout, isFolded ? dims.rank : dims.nope, isFolded ? dims.nope : dims.rank, dims.numKvHeads};
  HeadMatrices ofValues{*valueLayout, dims.value, dims.rank, dims.numKvHeads};
  std::string fold = (name + "_fold_device").str(), project = (name + "_project_device").str();
  Location loc = op.getLoc();
  if (failed(module.addObject(name, emitFold(loc, target, fold, dims, ofKeys, isFolded))) ||
      failed(module.addObject(name, emitProject(loc, target, project, dims, ofValues))))
    return failure();
  auto attend =
      emitAttentionKernels(module, name, "_attend", schedule, spec, [&](StringRef symbol, AttentionThreads threads) {
        return emitAttend(loc, target, symbol, spec, threads);
      });
  if (failed(attend))
    return failure();

  HostKernelOf<LatentAttentionCall, Enqueuer> host(loc, module.code, name);
  const LatentAttentionCall &call = host.call;
  RawBuilder &b = host.builder();
  // In a row of scratch: folded queries, then what they attend to.
  Value rows = host.number(offsetof(heddle_step, rows)), stride = host.constant(dims.scratchDim());
  Value attended = b.at(call.scratch, dims.numHeads * dims.cachedDim() * int64_t(sizeof(float)));
  host.addHeads(call.q, dims.queryDim(), dims.numHeads, call.qStride, rows);
  ofKeys.addTo(host, isFolded ? call.keyFolds : call.keyUps);
  host.addHeads(call.scratch, dims.cachedDim(), dims.numHeads, stride, rows);
  host.enqueue(fold);
  host.addHeads(call.scratch, dims.cachedDim(), dims.numHeads, stride, rows);
  host.addPages(spec.kv, spec.headDim, 1, call.kOffset);
  host.addPlaces();
  host.addHeads(attended, dims.rank, dims.numHeads, stride, rows);
  enqueueAttention(host, *attend);
  host.addHeads(attended, dims.rank, dims.numHeads, stride, rows);
  ofValues.addTo(host, call.valueUps);
  host.addHeads(call.out, dims.value, dims.numHeads, call.outStride, rows);
  host.enqueue(project);
  return host.finish();
}

FailureOr<Kernels> OnlineLatentAttention::build(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef name,
                                                KernelModule &module) const {
  return oneKernel(module.once(name, [&] { return buildHost(op, schedule, name, module); }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::onlineLatentAttention(const Target &target) {
  return std::make_unique<OnlineLatentAttention>(target);
}
