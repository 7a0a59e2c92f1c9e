// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block has a head of a row: a query, which is rotated into `out`, a key, which is rotated into its page, or a value, which goes to its page
// as it is.

#include "compiler/codegen/targets/cuda/RotateAppend.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "runtime/model/ModelAbi.h"

#include "llvm/Support/MathExtras.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

LogicalResult heddle::verifyGpuRotateAppend(const RotateAppendSpec &spec, std::string &error) {
  if (spec.kv != KvType::BF16 && spec.kv != KvType::F32)
    error = "for caches of other numbers than bf16 and f32";
  else if (spec.headDim % 2)
    error = "for heads of an odd width (" + std::to_string(spec.headDim) + ")";
  return success(error.empty());
}

int64_t heddle::gpuRotateAppendThreads(const RotateAppendSpec &spec) {
  return llvm::alignTo(spec.headDim / 2, warpSize);
}

namespace {

class RotateAppendEmitter {
public:
  RotateAppendEmitter(gpu::GPUModuleOp module, StringRef name, const RotateAppendSpec &spec)
      : spec(spec), b(module, name, parameters(module.getContext()), gpuRotateAppendThreads(spec), /*sharedBytes=*/0) {}
  gpu::GPUFuncOp emit();

private:
  static SmallVector<Type> parameters(MLIRContext *context) {
    SmallVector<Type> types(8, GpuBuilder::globalPointer(context));
    types.append(5, IntegerType::get(context, 64));
    types.push_back(IntegerType::get(context, 32));
    return types;
  }
  int64_t kvBytes() const { return spec.kv == KvType::BF16 ? 2 : 4; }
  Value rotated(Value column);
  std::array<Value, 2> loadPair();
  void storeQuery();
  void storeCached(Value head, std::array<Value, 2> pair, Value planeOffset);

  const RotateAppendSpec &spec;
  GpuBuilder b;
  Value head, row, column; // of the thread, the first of its two columns
  Value headAt, angles;    // its head in the input, and the cosines of its row
};

} // namespace

// x cos + partner (-+ sin), in the order of the kernels of any device (Algorithms.cpp): a column that is not rotated passes.
Value RotateAppendEmitter::rotated(Value at) {
  int64_t half = spec.rotaryDim / 2;
  Value d = b.sub(at, b.constant(spec.offset));
  Value first =
      spec.isInterleaved ? b.equal(b.remainder(at, 2), b.constant(spec.offset % 2)) : b.lessThan(d, b.constant(half));
  int64_t apart = spec.isInterleaved ? 1 : half;
  Value partner = b.select(first, b.add(at, apart), b.sub(at, b.constant(apart)));
  Value pair = spec.isInterleaved ? b.shiftSigned(d, 1) : b.select(first, d, b.sub(d, b.constant(half)));
  auto load = [&](Value pointer, Value index) { return b.load(b.getF32Type(), b.at(pointer, index, 4)); };
  auto turn = [&] {
    Value x = load(headAt, at), y = load(headAt, partner);
    Value cosine = load(angles, pair), sine = load(angles, b.add(pair, half));
    Value signedSine = b.select(first, b.subF(b.constantF32(0), sine), sine);
    return SmallVector<Value>{b.addF(b.mulF(x, cosine), b.mulF(y, signedSine))};
  };
  if (spec.rotaryDim == spec.headDim)
    return turn().front();
  Value isRotated = b.bitAnd(b.lessThan(b.constant(-1), d), b.lessThan(d, b.constant(spec.rotaryDim)));
  return b.ifElse(isRotated, {load(headAt, at)}, turn).front();
}

std::array<Value, 2> RotateAppendEmitter::loadPair() {
  Value pair = b.load(VectorType::get({2}, b.getF32Type()), b.at(headAt, column, 4));
  return {b.element(pair, 0), b.element(pair, 1)};
}

void RotateAppendEmitter::storeQuery() {
  Value out =
      b.at(b.at(b.argument(1), b.mul(b.wide(row), b.argument(12)), 4), b.add(b.mul(head, spec.headDim), column), 4);
  b.store(b.vector({rotated(column), rotated(b.add(column, 1))}), out);
}

// pages[page of row][plane][head][slot of row][column]
void RotateAppendEmitter::storeCached(Value kvHead, std::array<Value, 2> pair, Value planeOffset) {
  constexpr int64_t tokens = HEDDLE_KV_PAGE_SIZE;
  auto loadInt = [&](Value pointer, Value index) { return b.load(b.getI32Type(), b.at(pointer, index, 4)); };
  Value position = loadInt(b.argument(7), row), sequence = loadInt(b.argument(6), row);
  Value table = b.at(b.argument(5), b.mul(b.wide(sequence), b.wide(b.argument(13))), 4);
  Value page = b.wide(loadInt(table, b.divide(position, tokens)));
  Value plane = b.at(b.at(b.argument(4), b.mul(page, b.argument(10)), 1), planeOffset, 1);
  Value slot = b.add(b.mul(kvHead, tokens), b.remainder(position, tokens));
  Value to = b.at(plane, b.add(b.mul(slot, spec.headDim), column), kvBytes());
  b.store(spec.kv == KvType::BF16 ? b.packBf16(pair[0], pair[1]) : b.vector({pair[0], pair[1]}), to);
}

gpu::GPUFuncOp RotateAppendEmitter::emit() {
  head = b.blockIndex(0), row = b.blockIndex(1), column = b.mul(b.threadIndex(), 2);
  headAt = b.at(b.at(b.argument(0), b.mul(b.wide(row), b.argument(11)), 4), b.mul(head, spec.headDim), 4);
  Value position = b.load(b.getI32Type(), b.at(b.argument(2), row, 4));
  angles = b.at(b.argument(3), b.mul(b.wide(position), b.wide(b.constant(spec.rotaryDim))), 4);
  int64_t firstKey = spec.numHeads, firstValue = firstKey + spec.numKvHeads;
  b.ifThen(b.lessThan(column, b.constant(spec.headDim)), [&] {
    b.ifThen(b.lessThan(head, b.constant(firstKey)), [&] { storeQuery(); });
    Value isValue = b.lessThan(b.constant(firstValue - 1), head);
    b.ifThen(b.bitAnd(b.lessThan(b.constant(firstKey - 1), head), b.lessThan(head, b.constant(firstValue))), [&] {
      storeCached(b.sub(head, b.constant(firstKey)), {rotated(column), rotated(b.add(column, 1))}, b.argument(8));
    });
    b.ifThen(isValue, [&] { storeCached(b.sub(head, b.constant(firstValue)), loadPair(), b.argument(9)); });
  });
  return b.finish();
}

gpu::GPUFuncOp heddle::buildGpuRotateAppend(gpu::GPUModuleOp module, StringRef name, const RotateAppendSpec &spec) {
  return RotateAppendEmitter(module, name, spec).emit();
}

//===- host code ----------------------------------------------------------===//

static func::FuncOp launchRotateAppend(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                       const RotateAppendSpec &spec) {
  std::string kernel = (name + "_gpu").str();
  buildGpuRotateAppend(gpu.kernels, kernel, spec);
  HostKernelOf<RotateAppendCall, LaunchBuilder> l(loc, code, name);
  const RotateAppendCall &call = l.call;
  RawBuilder &b = l.builder();
  for (Value argument : {call.input, call.out, call.positions, call.table})
    l.add(argument);
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, row_sequence), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  l.add(call.kOffset);
  l.add(call.vOffset);
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(call.inputStride);
  l.add(call.outStride);
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
  l.launch(l.entry(kernel), {b.constant(spec.heads()), call.rowEnd, b.constant(1)},
           b.constant(gpuRotateAppendThreads(spec)));
  return l.finish();
}

namespace {

class RotateAppend : public KernelEmitterOf<RotateAppendOp> {
public:
  explicit RotateAppend(std::optional<GpuKernels> &gpu) : gpu(gpu) {}

  bool canEmit(Operation *op, std::string &missing) const override {
    auto append = dyn_cast<RotateAppendOp>(op);
    return !append || succeeded(verifyGpuRotateAppend(specOf(append), missing));
  }

protected:
  FailureOr<std::string> nameOf(RotateAppendOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RotateAppendOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    RotateAppendSpec spec = specOf(op);
    return oneKernel(module.once(name, [&] { return launchRotateAppend(op.getLoc(), module.code, *gpu, name, spec); }));
  }

private:
  std::optional<GpuKernels> &gpu;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::rotateAppend(std::optional<GpuKernels> &gpu) {
  return std::make_unique<RotateAppend>(gpu);
}
