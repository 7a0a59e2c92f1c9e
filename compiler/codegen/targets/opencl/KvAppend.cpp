// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the keys and values of a step into the pages of its sequences, by Halide: both in one launch where their heads are equally wide.

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

// A part of what the cache keeps of a token: `width` columns of each head, from `first` on in rows of `rowDim`.
struct CachedColumns {
  int64_t rowDim, first, width;
};

// (values (width, num_kv_heads, rows) f32, row_sequence (rows), cache_positions (rows), page_table (pages, sequences))
//   -> pages, (row_dim, 64, num_kv_heads, pages), of which the rows' slots are written
static FailureOr<std::string> emitKvAppend(Location loc, const Target &target, StringRef symbol,
                                           const KvAppendSpec &spec, CachedColumns columns) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numKvHeads), width = int(columns.width), rowDim = int(columns.rowDim);
    ImageParam values = b.input("values", Halide::Float(32), {width, heads, 0});
    StepPlaces places(b);
    Var d("d"), slot("slot"), head("head"), page("page");

    // pages[page of row][head][slot of row][first + d] = values[row][head][d]
    Func out = b.func("pages");
    RDom r(0, width, 0, heads, 0, values.dim(2).extent(), "r");
    Expr value = values(r.x, r.y, r.z), position = places.position(r.z);
    if (spec.kv != KvType::F32)
      value = spec.kv == KvType::BF16 ? bfloatBits(value) : halfBits(value);
    out(d, slot, head, page) = Halide::undef(kvType(spec.kv));
    Expr lastPage = out.output_buffer().dim(3).extent() - 1;
    out(r.x + int(columns.first), position % pageTokens, r.y, Halide::clamp(places.page(r.z, position), 0, lastPage)) =
        value;

    // A block is a head of a row. No two rows have the same place.
    out.output_buffer().dim(0).set_bounds(0, rowDim);
    out.output_buffer().dim(1).set_bounds(0, pageTokens).set_stride(rowDim);
    out.output_buffer().dim(2).set_bounds(0, heads).set_stride(rowDim * pageTokens);
    out.output_buffer().dim(3).set_min(0);
    out.update().allow_race_conditions().gpu_blocks(r.y, r.z).gpu_threads(r.x);
    return b.finish(out);
  });
}

// (keys, values (head_dim, num_kv_heads, rows) f32, row_sequence (rows), cache_positions (rows), page_table (pages, sequences))
//   -> both planes of the pages, (head_dim, 64, num_kv_heads, pages, 2), of which the rows' slots are written
static FailureOr<std::string> emitBothAppends(Location loc, const Target &target, StringRef symbol,
                                              const KvAppendSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numKvHeads), width = int(spec.headDim);
    ImageParam keys = b.input("keys", Halide::Float(32), {width, heads, 0}),
               values = b.input("values", Halide::Float(32), {width, heads, 0});
    StepPlaces places(b);
    Var d("d"), slot("slot"), head("head"), page("page"), plane("plane");

    // pages[page of row][plane][head][slot of row][d] = plane ? values[row][head][d] : keys[row][head][d]
    Func out = b.func("pages");
    RDom r(0, width, 0, heads, 0, keys.dim(2).extent(), 0, 2, "r");
    Expr value = Halide::select(r.w == 0, keys(r.x, r.y, r.z), values(r.x, r.y, r.z)), position = places.position(r.z);
    if (spec.kv != KvType::F32)
      value = spec.kv == KvType::BF16 ? bfloatBits(value) : halfBits(value);
    out(d, slot, head, page, plane) = Halide::undef(kvType(spec.kv));
    Expr lastPage = out.output_buffer().dim(3).extent() - 1;
    out(r.x, position % pageTokens, r.y, Halide::clamp(places.page(r.z, position), 0, lastPage), r.w) = value;

    // A block is a head of a row in one of the planes. No two rows have the same place.
    out.output_buffer().dim(0).set_bounds(0, width);
    out.output_buffer().dim(1).set_bounds(0, pageTokens).set_stride(width);
    out.output_buffer().dim(2).set_bounds(0, heads).set_stride(width * pageTokens);
    out.output_buffer().dim(3).set_min(0);
    out.output_buffer().dim(4).set_bounds(0, 2);
    out.update().allow_race_conditions().gpu_blocks(r.y, r.z, r.w).gpu_threads(r.x);
    return b.finish(out);
  });
}

// scale = max |x| / 127 of each 32 columns, as f16; codes = x / scale, to the nearest: those of the CPU. A number that is none makes the scale one.
//
// (keys, [values] (width, num_kv_heads, rows) f32, row_sequence (rows), cache_positions (rows), page_table (pages, sequences))
//   -> one plane of the pages or both, (bytes of a plane, num_kv_heads, pages, planes), of which the rows' codes and scales are written
static FailureOr<std::string> emitCodeAppends(Location loc, const Target &target, StringRef symbol,
                                              const KvAppendSpec &spec, int width, int planes) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    constexpr int block = int(kvBlockColumns), scaleBytes = int(kvScaleBytes);
    int heads = int(spec.numKvHeads), blocks = width / block;
    ImageParam keys = b.input("keys", Halide::Float(32), {width, heads, 0}), values;
    if (planes > 1)
      values = b.input("values", Halide::Float(32), {width, heads, 0});
    StepPlaces places(b);
    Var ofHead("of_head"), ofRow("of_row"), ofPlane("of_plane"), ofBlock("of_block");
    auto number = [&](Expr column, Expr head, Expr row, Expr plane) {
      Expr key = keys(column, head, row);
      return values.defined() ? Halide::select(plane == 0, key, values(column, head, row)) : key;
    };
    Func largest = b.func("largest");
    RDom c(0, block, "c");
    Expr size = Halide::abs(number(ofBlock * block + c, ofHead, ofRow, ofPlane));
    largest(ofBlock, ofHead, ofRow, ofPlane) = 0.0f;
    Expr before = largest(ofBlock, ofHead, ofRow, ofPlane);
    largest(ofBlock, ofHead, ofRow, ofPlane) = Halide::select(size > before || Halide::is_nan(size), size, before);

    // pages[page of row][plane][head][byte]: codes of the slot, then its scales behind those of all slots
    Var byte("byte"), head("head"), page("page"), plane("plane");
    RDom r(0, block + scaleBytes, 0, blocks * heads, 0, keys.dim(2).extent(), 0, planes, "r");
    Expr isCode = r.x < block, ofScale = Halide::max(r.x - block, 0), itsBlock = r.y % blocks, itsHead = r.y / blocks;
    Expr bits = halfBits(largest(itsBlock, itsHead, r.z, r.w) * float(1.0 / 127)), scale = halfExpr(bits);
    Expr inverse = Halide::select(scale == 0.0f, 0.0f, 1.0f / scale);
    Expr x = number(itsBlock * block + Halide::min(r.x, block - 1), itsHead, r.z, r.w);
    // As an integer of 32 bits first: none to a byte is defined below 0.
    Expr code = Halide::cast<int32_t>(Halide::clamp(Halide::round(x * inverse), -127.0f, 127.0f)) & 0xff;
    Expr half = Halide::cast<uint8_t>(bits >> Halide::cast<uint16_t>(8 * ofScale) & 0xff);
    Expr position = places.position(r.z), slot = position % pageTokens;
    Func out = b.func("pages");
    out(byte, head, page, plane) = Halide::undef<uint8_t>();
    Expr lastPage = out.output_buffer().dim(2).extent() - 1;
    out(Halide::select(isCode, slot * width + itsBlock * block + r.x,
                       pageTokens * width + (slot * blocks + itsBlock) * scaleBytes + ofScale),
        itsHead, Halide::clamp(places.page(r.z, position), 0, lastPage), r.w) =
        Halide::select(isCode, Halide::cast<uint8_t>(code), half);

    // A block of threads is a block of columns of a row's head; each makes the scale for its byte. No two rows have the same place.
    int planeBytes = int(kvPlaneBytes(KvType::Q8_0, width));
    out.output_buffer().dim(0).set_bounds(0, planeBytes);
    out.output_buffer().dim(1).set_bounds(0, heads).set_stride(planeBytes);
    out.output_buffer().dim(2).set_min(0);
    out.output_buffer().dim(3).set_bounds(0, planes);
    out.update().allow_race_conditions().gpu_blocks(r.y, r.z, r.w).gpu_threads(r.x);
    largest.compute_at(out, r.x);
    return b.finish(out);
  });
}

namespace {

class KvAppend : public opencl::DeviceEmitterOf<KvAppendOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

protected:
  FailureOr<std::string> nameOf(KvAppendOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override;
};

} // namespace

FailureOr<Kernels> KvAppend::build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    KvAppendSpec spec = specOf(op);
    bool isCross = op.getCache().getType().getCross();
    HostKernelOf<KvAppendCall, Enqueuer> host(op.getLoc(), module.code, name);
    const KvAppendCall &call = host.call;
    auto append = [&](StringRef suffix, CachedColumns columns, Value values, Value stride, Value offset) {
      std::string symbol = (name + suffix).str();
      if (failed(module.addObject(name, emitKvAppend(op.getLoc(), target, symbol, spec, columns))))
        return failure();
      host.addHeads(values, columns.width, spec.numKvHeads, stride, call.rowEnd);
      host.addPlaces(isCross);
      host.addPages(spec.kv, columns.rowDim, spec.numKvHeads, offset, isCross);
      host.enqueue(symbol);
      return success();
    };
    auto appendCodes = [&](StringRef suffix, int64_t width, ArrayRef<Enqueuer::Plane> planes) {
      std::string symbol = (name + suffix).str();
      if (failed(module.addObject(name, emitCodeAppends(op.getLoc(), target, symbol, spec, width, planes.size()))))
        return failure();
      for (const Enqueuer::Plane &plane : planes)
        host.addHeads(plane.rows, width, spec.numKvHeads, plane.stride, call.rowEnd);
      host.addPlaces(isCross);
      host.addBytesOfPages(width, spec.numKvHeads, planes, isCross);
      host.enqueue(symbol);
      return success();
    };
    int64_t key = spec.headDim, value = spec.valueDim(), row = key + value;
    Enqueuer::Plane keys = {call.key, call.keyStride, call.kOffset},
                    values = {call.value, call.valueStride, call.vOffset};
    if (spec.isLatent) {
      // A latent and a rotary key side by side.
      if (failed(append("_latent_device", {row, 0, key}, call.key, call.keyStride, call.kOffset)) ||
          (value && failed(append("_rotary_device", {row, key, value}, call.value, call.valueStride, call.kOffset))))
        return failure();
    } else if (spec.kv == KvType::Q8_0) {
      if (failed(key == value ? appendCodes("_device", key, {keys, values}) : appendCodes("_device", key, keys)) ||
          (key != value && failed(appendCodes("_values_device", value, values))))
        return failure();
    } else if (key == value) {
      std::string symbol = (name + "_device").str();
      if (failed(module.addObject(name, emitBothAppends(op.getLoc(), target, symbol, spec))))
        return failure();
      host.addHeads(call.key, key, spec.numKvHeads, call.keyStride, call.rowEnd);
      host.addHeads(call.value, value, spec.numKvHeads, call.valueStride, call.rowEnd);
      host.addPlaces(isCross);
      host.addBothPages(spec.kv, key, spec.numKvHeads, call.kOffset, call.vOffset, isCross);
      host.enqueue(symbol);
    } else if (failed(append("_device", {key, 0, key}, call.key, call.keyStride, call.kOffset)) ||
               failed(append("_values_device", {value, 0, value}, call.value, call.valueStride, call.vOffset))) {
      return failure();
    }
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::kvAppend(const Target &target) {
  return std::make_unique<KvAppend>(target);
}
