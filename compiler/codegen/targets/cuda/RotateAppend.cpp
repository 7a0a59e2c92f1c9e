// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/RotateAppend.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/MatmulHost.h"
#include "runtime/model/ModelAbi.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

LogicalResult heddle::verifyGpuRotateAppend(const RotateAppendSpec &spec, std::string &error) {
  if (spec.kv == KvType::Q8_0)
    error = "for caches of codes";
  else if (spec.headDim % 2)
    error = "for heads of an odd width (" + std::to_string(spec.headDim) + ")";
  return success(error.empty());
}

gpu::GPUFuncOp heddle::buildGpuRotateAppend(gpu::GPUModuleOp module, StringRef name, const RotateAppendSpec &spec) {
  SmallVector<Type> types = {GpuBuilder::globalPointer(module.getContext()), IntegerType::get(module.getContext(), 64)};
  HeadRows::addParameters(module.getContext(), types);
  GpuBuilder b(module, name, types, warpSize, /*sharedBytes=*/0);
  HeadRows rows(b, spec, /*first=*/2);
  Value head = b.blockIndex(0), row = b.blockIndex(1);
  rows.store(head, row, b.at(b.at(b.argument(0), b.mul(b.wide(row), b.argument(1)), 4), b.mul(head, spec.headDim), 4));
  return b.finish();
}

//===- host code ----------------------------------------------------------===//

// What HeadRows takes.
static void addHeads(LaunchBuilder &l, const RotateAppendCall &call) {
  RawBuilder &b = l.builder();
  auto add = [&](Value pointer) { l.add(pointer ? pointer : noBuffer(b, b.getLoc())); };
  for (Value argument : {call.out, call.positions, call.table})
    l.add(argument);
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, row_sequence), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  add(call.queryNorm);
  add(call.keyNorm);
  l.add(call.kOffset);
  l.add(call.vOffset);
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(call.outStride);
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
}

static MatmulCall productOf(const RotateAppendCall &call) {
  MatmulCall product;
  product.act = call.input;
  product.actStride = call.inputStride;
  product.weights = call.weights;
  product.bias = call.bias;
  product.norm = call.norm;
  product.out = call.product;
  product.outStride = call.productStride;
  product.room = call.room;
  product.roomStride = call.roomStride;
  product.rows = call.rowEnd;
  return product;
}

// `readsFew`: as of MatmulHost::run.
static func::FuncOp launchRotateAppend(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                       const RotateAppendSpec &spec, ScheduleAttr schedule, bool readsFew) {
  std::string kernel = (name + "_gpu").str();
  buildGpuRotateAppend(gpu.kernels, kernel, spec);
  HostKernelOf<RotateAppendCall, LaunchBuilder> l(loc, code, name, formOf(spec));
  RawBuilder &b = l.builder();
  auto launch = [&](Value rows, Value stride) {
    l.add(rows);
    l.add(stride);
    addHeads(l, l.call);
    l.launch(l.entry(kernel), {b.constant(spec.numAllHeads()), l.call.rowEnd, b.constant(1)}, b.constant(warpSize));
  };
  if (!spec.product) {
    launch(l.call.input, l.call.inputStride);
    return l.finish();
  }
  GpuMatmulSpec product = gpuSpecOf(*spec.product);
  product.heads = spec;
  auto addArguments = [&] {
    l.add(l.pointer(offsetof(heddle_step, counters)));
    addHeads(l, l.call);
  };
  auto launchApart = [&] { launch(l.call.product, l.call.productStride); };
  MatmulHost(l, gpu, name, product, productOf(l.call)).run(schedule, readsFew, {addArguments, launchApart});
  return l.finish();
}

namespace {

class RotateAppend : public KernelEmitterOf<RotateAppendOp> {
public:
  explicit RotateAppend(std::optional<GpuKernels> &gpu) : gpu(gpu) {}

  bool canEmit(Operation *op, std::string &missing) const override {
    auto append = dyn_cast<RotateAppendOp>(op);
    if (!append)
      return true;
    FailureOr<RotateAppendSpec> spec = specOf(append);
    if (failed(spec) || failed(verifyGpuRotateAppend(*spec, missing)))
      return false;
    if (!spec->product)
      return true;
    GpuMatmulSpec product = gpuSpecOf(*spec->product);
    product.heads = *spec;
    return succeeded(verifyGpuGemv(product, missing));
  }

protected:
  FailureOr<std::string> nameOf(RotateAppendOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RotateAppendOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    FailureOr<RotateAppendSpec> spec = specOf(op);
    if (failed(spec))
      return failure();
    bool readsFew = !spec->product || readsRowsOf(op.getInput(), spec->product->k);
    if (!readsFew && !spec->product->prepares)
      return op.emitOpError("multiplies parts of wider rows, which no kernel reads");
    std::string kernel = (name + (readsFew ? "" : "_slice")).str();
    return oneKernel(module.once(
        kernel, [&] { return launchRotateAppend(op.getLoc(), module.code, *gpu, kernel, *spec, schedule, readsFew); }));
  }

private:
  std::optional<GpuKernels> &gpu;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::rotateAppend(std::optional<GpuKernels> &gpu) {
  return std::make_unique<RotateAppend>(gpu);
}
