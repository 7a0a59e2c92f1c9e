// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Causal attention over the cache, by Halide: two passes over the keys, the first of which finds the greatest score.

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
using Halide::TailStrategy;
using Halide::Var;

// (query (head_dim, num_heads, rows) f32, keys: pages, values: pages, row_sequence, cache_positions, page_table)
//   -> (head_dim, num_heads, rows)
static FailureOr<std::string> emitAttention(Location loc, const Target &target, StringRef symbol,
                                            const AttentionSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numHeads), kvHeads = int(spec.numKvHeads), headDim = int(spec.headDim),
        group = int(spec.group());
    ImageParam query = b.input("query", Halide::Float(32), {headDim, heads, 0});
    ImageParam pages[] = {b.input("keys", kvType(spec.kv), {headDim, pageTokens, kvHeads, 0}),
                          b.input("values", kvType(spec.kv), {headDim, pageTokens, kvHeads, 0})};
    for (ImageParam &param : pages) {
      param.dim(1).set_stride(headDim);
      param.dim(2).set_stride(headDim * pageTokens);
    }
    StepPlaces places(b);
    Var d("d"), head("head"), row("row"), token("token");
    // Element d of token `token` of the row's sequence, of its KV head.
    auto cached = [&](ImageParam &param, Expr index, Expr at) {
      Expr page = Halide::clamp(places.page(row, at), 0, param.dim(3).extent() - 1);
      Expr value = param(index, at % pageTokens, head / group, page);
      return spec.kv == KvType::F32 ? value : spec.kv == KvType::BF16 ? bfloatExpr(value) : halfExpr(value);
    };

    // score[j] = scale query . key[j], for the tokens j that the row sees; twice, since neither pass keeps them all
    auto scoreFunc = [&](const char *name) {
      Func dot = b.func(name);
      RDom i(0, headDim, "i");
      dot(token, head, row) = 0.0f;
      dot(token, head, row) += query(i, head, row) * cached(pages[0], i, token);
      return dot;
    };
    auto score = [&](const Func &dot, Expr at) {
      Expr value = dot(at, head, row) * float(spec.scale);
      return spec.softcap == 0 ? value : float(spec.softcap) * tanhExpr(value / float(spec.softcap));
    };
    auto tokens = [&] {
      RDom j(0, places.numTokens(), "j");
      j.where(j <= places.position(row));
      if (spec.window)
        j.where(j > places.position(row) - int(spec.window));
      return j;
    };
    // maximum = max_j score[j]
    Func firstDot = scoreFunc("first_dot"), maximum = b.func("maximum");
    RDom j = tokens();
    maximum(head, row) = Halide::Float(32).min();
    maximum(head, row) = Halide::max(maximum(head, row), score(firstDot, j));
    // weight[j] = exp(score[j] - maximum); sum[d] = sum_j weight[j] value[j][d], and sum[head_dim] = sum_j weight[j]
    Func secondDot = scoreFunc("second_dot"), weight = b.func("weight"), sum = b.func("sum"), out = b.func("out");
    weight(token, head, row) = expExpr(score(secondDot, token) - maximum(head, row));
    RDom l = tokens();
    sum(d, head, row) = 0.0f;
    sum(d, head, row) +=
        weight(l, head, row) * Halide::select(d < headDim, cached(pages[1], Halide::min(d, headDim - 1), l), 1.0f);
    out(d, head, row) = sum(d, head, row) / sum(headDim, head, row);

    // A block is a row, a thread a head of it with everything it needs in its own memory.
    out.output_buffer().dim(0).set_bounds(0, headDim);
    out.output_buffer().dim(1).set_bounds(0, heads).set_stride(headDim);
    out.output_buffer().dim(2).set_min(0);
    out.bound(d, 0, headDim).bound(head, 0, heads).gpu_blocks(row).gpu_threads(head);
    maximum.compute_at(out, head);
    sum.bound(d, 0, headDim + 1).compute_at(out, head);
    sum.update().reorder(d, l, head, row);
    firstDot.compute_at(maximum, j);
    secondDot.compute_at(sum, l);
    weight.compute_at(sum, l);
    return b.finish(out);
  });
}

namespace {

class OnlineAttention : public KernelEmitterOf<OnlineAttentionOp> {
public:
  explicit OnlineAttention(const Target &target) : target(target) {}

  bool canEmit(Operation *op, std::string &missing) const override {
    missing = missingOfAttention(op);
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(OnlineAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  const Target &target;
};

} // namespace

std::string heddle::missingOfAttention(Operation *op) {
  auto find = [](auto attention, bool isOdd, const char *odd, int64_t keyDim, int64_t valueDim) -> std::string {
    if (!attention.getMask().getCausal())
      return "without a causal mask";
    if (attention.getMask().getChunk())
      return "within chunks of tokens";
    if (isOdd)
      return odd;
    if (attention.getSinks())
      return "with sinks";
    if (attention.getPositions())
      return "with positions";
    return keyDim == valueDim ? "" : "with values of another head_dim than keys";
  };
  auto headDim = [](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(3); };
  if (auto attention = dyn_cast<AttentionOp>(op))
    return find(attention, bool(attention.getBias()), "with a bias", headDim(attention.getKey()),
                headDim(attention.getValue()));
  auto attention = cast<OnlineAttentionOp>(op);
  KvCacheType cache = attention.getCache().getType();
  bool splits = attention.getSplitKv().has_value();
  return find(attention, splits || attention.storesScores(), splits ? "in splits of the keys" : "with stored scores",
              cache.getKeyDim(), cache.getValueDim());
}

FailureOr<Kernels> OnlineAttention::build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                                          KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    AttentionSpec spec = specOf(op);
    if (std::string error; failed(verifyAttention(spec, error)))
      return op.emitError(error);
    std::string symbol = (name + "_device").str();
    if (failed(module.addObject(name, emitAttention(op.getLoc(), target, symbol, spec))))
      return failure();
    HostKernelOf<AttentionCall, Enqueuer> host(op.getLoc(), module.code, name);
    const AttentionCall &call = host.call;
    Value rows = host.number(offsetof(heddle_step, rows));
    host.addHeads(call.q, spec.headDim, spec.numHeads, call.qStride, rows);
    host.addPages(spec.kv, spec.headDim, spec.numKvHeads, call.kOffset);
    host.addPages(spec.kv, spec.headDim, spec.numKvHeads, call.vOffset);
    host.addPlaces();
    host.addHeads(call.out, spec.headDim, spec.numHeads, call.outStride, rows);
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::onlineAttention(const Target &target) {
  return std::make_unique<OnlineAttention>(target);
}
