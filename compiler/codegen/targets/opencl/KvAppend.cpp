// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the keys and values of a step into the pages of its sequences, by Halide: the same kernel for both planes.

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

// (values (head_dim, num_kv_heads, rows) f32, row_sequence (rows), cache_positions (rows), page_table (pages, sequences))
//   -> pages, (head_dim, 64, num_kv_heads, pages), of which the rows' slots are written
static FailureOr<std::string> emitKvAppend(Location loc, const Target &target, StringRef symbol,
                                           const KvAppendSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numKvHeads), headDim = int(spec.headDim);
    ImageParam values = b.input("values", Halide::Float(32), {headDim, heads, 0});
    StepPlaces places(b);
    Var d("d"), slot("slot"), head("head"), page("page");

    // pages[page of row][head][slot of row][d] = values[row][head][d]
    Func out = b.func("pages");
    RDom r(0, headDim, 0, heads, 0, values.dim(2).extent(), "r");
    Expr value = values(r.x, r.y, r.z), position = places.position(r.z);
    if (spec.kv != KvType::F32)
      value = spec.kv == KvType::BF16 ? bfloatBits(value) : halfBits(value);
    out(d, slot, head, page) = Halide::undef(kvType(spec.kv));
    Expr lastPage = out.output_buffer().dim(3).extent() - 1;
    out(r.x, position % pageTokens, r.y, Halide::clamp(places.page(r.z, position), 0, lastPage)) = value;

    // A block is a head of a row. No two rows have the same place.
    out.output_buffer().dim(0).set_bounds(0, headDim);
    out.output_buffer().dim(1).set_bounds(0, pageTokens).set_stride(headDim);
    out.output_buffer().dim(2).set_bounds(0, heads).set_stride(headDim * pageTokens);
    out.output_buffer().dim(3).set_min(0);
    out.update().allow_race_conditions().gpu_blocks(r.y, r.z).gpu_threads(r.x);
    return b.finish(out);
  });
}

namespace {

class KvAppend : public KernelEmitterOf<KvAppendOp> {
public:
  explicit KvAppend(const Target &target) : target(target) {}

  bool canEmit(Operation *op, std::string &missing) const override {
    KvCacheType cache = cast<KvAppendOp>(op).getCache().getType();
    if (cache.isLatent())
      missing = "to a latent cache";
    else if (cache.getKeyDim() != cache.getValueDim())
      missing = "of values of another head_dim than keys";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(KvAppendOp op) const override { return std::string("kv_append"); }
  FailureOr<Kernels> build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override;

private:
  const Target &target;
};

} // namespace

FailureOr<Kernels> KvAppend::build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    KvAppendSpec spec = specOf(op);
    std::string symbol = (name + "_device").str();
    if (failed(module.addObject(name, emitKvAppend(op.getLoc(), target, symbol, spec))))
      return failure();
    HostKernelOf<KvAppendCall, Enqueuer> host(op.getLoc(), module.code, name);
    const KvAppendCall &call = host.call;
    auto append = [&](Value values, Value stride, Value offset) {
      host.addHeads(values, spec.headDim, spec.numKvHeads, stride, call.rowEnd);
      host.addPlaces();
      host.addPages(spec.kv, spec.headDim, spec.numKvHeads, offset);
      host.enqueue(symbol);
    };
    append(call.key, call.keyStride, call.kOffset);
    append(call.value, call.valueStride, call.vOffset);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::kvAppend(const Target &target) {
  return std::make_unique<KvAppend>(target);
}
