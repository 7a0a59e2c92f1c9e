// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotates queries and keys that one product made, and stores keys and values in the pages of their sequences, by Halide: one launch with two results,
// which are values of a tuple. A thread stores into one of them.

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/halide/StoredIf.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::Var;

// Threads of a block that add up the squares of a head.
static constexpr int normLanes = 16;

namespace {

// The Funcs of a block: a head of a row, of queries, then of keys, then of values.
class Rotation {
public:
  Rotation(PipelineBuilder &b, const RotateAppendSpec &spec);
  Func run();

private:
  Expr isQuery(Expr head) const { return head < int(spec.numHeads); }
  Expr isRotated(Expr head) const { return head < int(spec.numHeads + spec.numKvHeads); }
  Expr number(Expr d, Expr head, Expr row) const;
  Expr rotated(Expr d, Expr head, Expr row) const;
  void defineScale();
  void bindResults(Func &out) const;

  PipelineBuilder &b;
  const RotateAppendSpec &spec;
  ImageParam heads, table, angles, queryNorm, keyNorm;
  StepPlaces places;
  Var lane{"lane"}, ofHead{"of_head"}, ofRow{"of_row"};
  Func squares, scale;
};

} // namespace

// (heads (head_dim, num_heads + 2 num_kv_heads, rows) f32, table (rotary_dim, context) f32, of the table (rows) i32, row_sequence (rows),
//  cache_positions (rows), page_table (pages, sequences), [norms of queries and of keys (head_dim) f32])
Rotation::Rotation(PipelineBuilder &b, const RotateAppendSpec &spec)
    : b(b), spec(spec), heads(b.input("heads", Halide::Float(32), {spec.headDim, spec.numAllHeads(), 0})),
      table(b.input("table", Halide::Float(32), {spec.rotaryDim, 0})), angles(b.input("angles", Halide::Int(32), {0})),
      places(b) {
  if (!spec.heads.hasNorm)
    return;
  queryNorm = b.input("query_norm", Halide::Float(32), {spec.headDim});
  keyNorm = b.input("key_norm", Halide::Float(32), {spec.headDim});
}

// scale = 1 / sqrt(mean x^2 + eps)
void Rotation::defineScale() {
  squares = b.func("squares"), scale = b.func("scale");
  int headDim = int(spec.headDim);
  RDom i(0, (headDim + normLanes - 1) / normLanes, "i"), l(0, normLanes, "l");
  Expr d = i * normLanes + lane;
  if (headDim % normLanes)
    i.where(d < headDim);
  Expr x = heads(Halide::min(d, headDim - 1), ofHead, ofRow);
  squares(lane, ofHead, ofRow) = 0.0f;
  squares(lane, ofHead, ofRow) += x * x;
  Func sum = b.func("sum");
  sum(ofHead, ofRow) = 0.0f;
  sum(ofHead, ofRow) += squares(l, ofHead, ofRow);
  scale(ofHead, ofRow) = 1.0f / Halide::sqrt(sum(ofHead, ofRow) / float(headDim) + float(spec.heads.eps));
}

Expr Rotation::number(Expr d, Expr head, Expr row) const {
  Expr x = heads(d, head, row);
  if (!spec.heads.hasNorm)
    return x;
  Expr factor = Halide::select(isQuery(head), queryNorm(d), keyNorm(d));
  if (spec.heads.weightOffset != 0)
    factor += float(spec.heads.weightOffset);
  return x * scale(head, row) * factor;
}

// x cos + partner (-+ sin), as of halide/Algorithms.cpp; a column that is not rotated passes.
Expr Rotation::rotated(Expr at, Expr head, Expr row) const {
  int half = int(spec.rotaryDim) / 2, rotaryDim = int(spec.rotaryDim), headDim = int(spec.headDim);
  Expr d = at - int(spec.offset), isFirst = spec.isInterleaved ? d % 2 == 0 : d < half;
  int apart = spec.isInterleaved ? 1 : half;
  // Which they are; bounds inference cannot see it.
  auto within = [](Expr value, Expr size) { return Halide::unsafe_promise_clamped(value, 0, size - 1); };
  Expr isIn = d >= 0 && d < rotaryDim;
  Expr pair = Halide::clamp(spec.isInterleaved ? d / 2 : Halide::select(isFirst, d, d - half), 0, half - 1);
  Expr partner = within(Halide::select(isIn, at + Halide::select(isFirst, apart, -apart), at), headDim);
  Expr position = within(angles(row), table.dim(1).extent());
  Expr x = number(at, head, row), y = number(partner, head, row);
  Expr cosine = table(pair, position), sine = table(pair + half, position);
  Expr turned = x * cosine + y * Halide::select(isFirst, sine * -1.0f, sine);
  return rotaryDim == headDim ? turned : Halide::select(isIn, turned, x);
}

// Dimensions (head_dim, heads, 64, pages, planes, rows): of queries (head_dim, num_heads, -, -, -, rows), of pages (head_dim, num_kv_heads, 64, pages, 2, -), which have
// no stride along what is not theirs.
void Rotation::bindResults(Func &out) const {
  int headDim = int(spec.headDim);
  Halide::OutputImageParam queries = out.output_buffers()[0], pages = out.output_buffers()[1];
  queries.dim(0).set_bounds(0, headDim);
  queries.dim(1).set_bounds(0, int(spec.numHeads)).set_stride(headDim);
  queries.dim(2).set_bounds(0, pageTokens);
  queries.dim(3).set_min(0);
  queries.dim(4).set_bounds(0, 2);
  queries.dim(5).set_min(0);
  for (int ofPages : {2, 3, 4})
    queries.dim(ofPages).set_stride(0);
  pages.dim(1).set_stride(headDim * pageTokens);
  pages.dim(2).set_stride(headDim);
  pages.dim(5).set_stride(0);
}

// queries[row][head] = rotated; pages[page of row][plane][head][slot of row] = plane ? value : rotated key
Func Rotation::run() {
  if (spec.heads.hasNorm)
    defineScale();
  Func out = b.func("out");
  Var d("d"), head("head"), slot("slot"), page("page"), plane("plane"), row("row");
  Halide::Type cached = kvType(spec.kv);
  out(d, head, slot, page, plane, row) = Halide::Tuple(Halide::undef<float>(), Halide::undef(cached));
  RDom r(0, int(spec.headDim), 0, int(spec.numAllHeads()), 0, heads.dim(2).extent(), "r");
  Expr value = Halide::select(isRotated(r.y), rotated(r.x, r.y, r.z), heads(r.x, r.y, r.z)), stored = value;
  if (spec.kv != KvType::F32)
    stored = spec.kv == KvType::BF16 ? bfloatBits(value) : halfBits(value);
  int firstKey = int(spec.numHeads), firstValue = int(spec.numHeads + spec.numKvHeads);
  Expr itsHead = r.y - Halide::select(isQuery(r.y), 0, Halide::select(isRotated(r.y), firstKey, firstValue));
  Expr position = places.position(r.z), lastPage = out.output_buffers()[0].dim(3).extent() - 1;
  out(r.x, Halide::unsafe_promise_clamped(itsHead, 0, int(spec.numHeads) - 1), position % pageTokens,
      Halide::clamp(places.page(r.z, position), 0, lastPage), Halide::select(isRotated(r.y), 0, 1), r.z) =
      Halide::Tuple(storedIf(isQuery(r.y), value), storedIf(!isQuery(r.y), stored));

  // No two rows have the same place.
  bindResults(out);
  out.update().allow_race_conditions().gpu_blocks(r.y, r.z).gpu_threads(r.x);
  if (spec.heads.hasNorm) {
    Halide::LoopLevel block(out, r.y);
    squares.compute_at(block).store_in(Halide::MemoryType::GPUShared).bound(lane, 0, normLanes).gpu_threads(lane);
    squares.bound_extent(ofHead, 1).bound_extent(ofRow, 1).update().gpu_threads(lane);
    scale.compute_at(block).store_in(Halide::MemoryType::GPUShared);
    scale.bound_extent(ofHead, 1).bound_extent(ofRow, 1).gpu_threads(ofHead);
  }
  return out;
}

namespace {

class RotateAppend : public opencl::DeviceEmitterOf<RotateAppendOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto append = dyn_cast<RotateAppendOp>(op);
    if (append && append.getWeights())
      missing = "with the product before it";
    else if (append && !append.getCache().getType().getElementType().isFloat())
      missing = "for caches of codes";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(RotateAppendOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RotateAppendOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

FailureOr<Kernels> RotateAppend::build(RotateAppendOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  FailureOr<RotateAppendSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    std::string symbol = (name + "_device").str();
    auto emitted = emitPipeline(op.getLoc(), target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
      PipelineBuilder b(symbol);
      return b.finish(Rotation(b, *spec).run());
    });
    if (failed(module.addObject(name, emitted)))
      return failure();
    HostKernelOf<RotateAppendCall, Enqueuer> host(op.getLoc(), module.code, name, formOf(*spec));
    const RotateAppendCall &call = host.call;
    RawBuilder &b = host.builder();
    int64_t headDim = spec->headDim;
    host.addHeads(call.input, headDim, spec->numAllHeads(), call.inputStride, call.rowEnd);
    // The table has a row for each position that there is.
    host.addRows(f32Element, call.table, spec->rotaryDim, b.constant(spec->rotaryDim), b.constant(INT32_MAX));
    host.addVector(i32Element, call.positions, call.rowEnd);
    host.addPlaces();
    if (spec->heads.hasNorm)
      for (Value norm : {call.queryNorm, call.keyNorm})
        host.addVector(f32Element, norm, b.constant(headDim));
    auto addResult = [&](BufferElement element, Value at, ArrayRef<Value> strides) {
      Value extents[] = {b.constant(headDim),    b.constant(spec->numHeads),
                         b.constant(pageTokens), host.number(offsetof(heddle_step, num_pages)),
                         b.constant(2),          call.rowEnd};
      SmallVector<BufferDim> dims;
      for (auto [extent, stride] : llvm::zip_equal(extents, strides))
        dims.push_back({extent, stride});
      host.add(element, at, dims);
    };
    int64_t bytes = kvBytes(spec->kv);
    Value none = b.constant(0), one = b.constant(1);
    addResult(f32Element, call.out, {one, b.constant(headDim), none, none, none, call.outStride});
    addResult(kvElement(spec->kv), b.at(host.pointer(offsetof(heddle_step, cache)), call.kOffset),
              {one, b.constant(headDim * pageTokens), b.constant(headDim),
               b.divide(host.number(offsetof(heddle_step, page_stride)), bytes),
               b.divide(b.sub(call.vOffset, call.kOffset), bytes), none});
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::rotateAppend(const Target &target) {
  return std::make_unique<RotateAppend>(target);
}
