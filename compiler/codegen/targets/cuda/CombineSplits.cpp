// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges what rows saw of each split of the keys, in ascending order: the GPU body of `combine_splits`. A warp has a head of a row, a lane
// four of its columns. Several splits are on their way at once: each is merged into what those before it left.

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/SoftmaxStates.h"
#include "runtime/model/ModelAbi.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static constexpr int64_t laneColumns = 4, splitsAtOnce = 4;

namespace {

class CombineEmitter {
public:
  CombineEmitter(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec)
      : spec(spec), b(module, name, parameters(module.getContext(), spec), warpSize, /*sharedBytes=*/0) {}
  gpu::GPUFuncOp emit();

private:
  struct Split {
    SoftmaxState state;
    Value values; // laneColumns x f32
  };

  static SmallVector<Type> parameters(MLIRContext *context, const AttentionSpec &spec) {
    SmallVector<Type> types(5, GpuBuilder::globalPointer(context));
    types.append(2, IntegerType::get(context, 64));
    types.append((spec.hasSinks ? 1 : 0) + (spec.given ? 3 : 0), types.front());
    return types;
  }
  Split load(Value split);
  void merge();

  const AttentionSpec &spec;
  GpuBuilder b;
  Value row, head, lane;
};

} // namespace

gpu::GPUFuncOp CombineEmitter::emit() {
  row = b.blockIndex(0), head = b.blockIndex(1), lane = b.threadIndex();
  b.ifThen(b.lessThan(lane, b.constant(spec.headDim / laneColumns)), [&] { merge(); });
  return b.finish();
}

CombineEmitter::Split CombineEmitter::load(Value split) {
  Value slot = b.add(b.mul(b.wide(row), b.argument(6)), b.wide(split));
  auto ofHead = [&](unsigned argument, int64_t bytes) {
    return b.at(b.at(b.argument(argument), slot, spec.numHeads * bytes), head, bytes);
  };
  Value values = b.at(ofHead(0, spec.headDim * 4), lane, laneColumns * 4);
  return {{b.load(b.getF32Type(), ofHead(1, 4)), b.load(b.getF32Type(), ofHead(2, 4))},
          b.load(VectorType::get({laneColumns}, b.getF32Type()), values)};
}

void CombineEmitter::merge() {
  Value position = b.load(b.getI32Type(), b.at(b.argument(4), row, 4)), begin = b.constant(0);
  Value first = spec.window ? b.sub(position, b.constant(spec.window - 1)) : begin, lastKey = position;
  if (spec.given) {
    unsigned argument = spec.hasSinks ? 8 : 7; // row_sequence, sequence_rows, sees_ahead
    auto number = [&](unsigned of, Value index) { return b.load(b.getI32Type(), b.at(b.argument(of), index, 4)); };
    Value sequence = number(argument, row), rows = b.mul(sequence, 2);
    Value past = number(4, number(argument + 1, rows)), count = number(argument + 1, b.add(rows, 1));
    Value seesAhead = b.lessThan(b.constant(0), number(argument + 2, sequence));
    first = b.select(seesAhead, b.min(first, past), first);
    lastKey = b.select(seesAhead, b.add(past, b.sub(count, b.constant(1))), position);
  }
  if (spec.window)
    begin = b.divide(b.max(first, b.constant(0)), spec.splitKv);
  Value last = b.divide(lastKey, spec.splitKv);
  SoftmaxState begun = beginState(b, spec, spec.hasSinks ? b.argument(7) : Value(), head);
  SmallVector<Value> total = {begun.max, begun.sum};
  total.append(laneColumns, b.constantF32(0));
  Value rounds = b.divideUp(b.add(b.sub(last, begin), 1), splitsAtOnce);
  total = b.fold(b.constant(0), rounds, total, [&](Value round, ValueRange before) {
    SmallVector<Value> next(before), splits;
    SmallVector<Split> loaded;
    for (int64_t i = 0; i < splitsAtOnce; ++i) {
      splits.push_back(b.add(b.add(begin, b.mul(round, splitsAtOnce)), i));
      loaded.push_back(load(b.min(splits[i], last)));
    }
    for (int64_t i = 0; i < splitsAtOnce; ++i) {
      MergedState merged = mergeStates(b, {next[0], next[1]}, loaded[i].state);
      SmallVector<Value> both = {merged.state.max, merged.state.sum};
      for (int64_t column = 0; column < laneColumns; ++column)
        both.push_back(merged.value(b, next[2 + column], b.element(loaded[i].values, column)));
      Value isBehind = b.lessThan(last, splits[i]);
      for (auto [value, with] : llvm::zip_equal(next, both))
        value = b.select(isBehind, value, with);
    }
    return next;
  });
  Value factor = b.divF(b.constantF32(1), total[1]);
  Value column = b.add(b.mul(head, spec.headDim), b.mul(lane, laneColumns));
  Value out = b.at(b.at(b.argument(3), b.mul(b.wide(row), b.argument(5)), 4), column, 4);
  for (int64_t i = 0; i < laneColumns; i += 2)
    b.store(b.vector({b.mulF(total[2 + i], factor), b.mulF(total[3 + i], factor)}), b.at(out, b.constant(i), 4));
}

gpu::GPUFuncOp heddle::buildGpuCombineSplits(gpu::GPUModuleOp module, StringRef name, const AttentionSpec &spec) {
  return CombineEmitter(module, name, spec).emit();
}

static func::FuncOp launchCombine(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                  const AttentionSpec &spec) {
  std::string kernel = (name + "_gpu").str();
  buildGpuCombineSplits(gpu.kernels, kernel, spec);
  HostKernelOf<CombineSplitsCall, LaunchBuilder> l(loc, code, name);
  const CombineSplitsCall &call = l.call;
  RawBuilder &b = l.builder();
  for (Value argument : {call.outputs, call.maxima, call.sums, call.out})
    l.add(argument);
  l.add(l.pointer(offsetof(heddle_step, cache_positions)));
  l.add(call.outStride);
  l.add(call.maxSplits);
  if (spec.hasSinks)
    l.add(call.sinks);
  if (spec.given)
    for (size_t offset :
         {offsetof(heddle_step, row_sequence), offsetof(heddle_step, sequence_rows), offsetof(heddle_step, sees_ahead)})
      l.add(l.pointer(offset));
  l.launch(l.entry(kernel), {l.number(offsetof(heddle_step, rows)), b.constant(spec.numHeads), b.constant(1)},
           b.constant(warpSize));
  return l.finish();
}

namespace {

class CombineSplits : public KernelEmitterOf<CombineSplitsOp> {
public:
  CombineSplits(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable)
      : gpu(gpu), portable(std::move(portable)) {}

protected:
  FailureOr<std::string> nameOf(CombineSplitsOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(CombineSplitsOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    // Of splits that the kernel of any device left.
    if (std::string reason; failed(verifyGpuAttention(spec, reason)))
      return portable->emit(op, schedule, name, module);
    return oneKernel(module.once(name, [&] { return launchCombine(op.getLoc(), module.code, *gpu, name, spec); }));
  }

private:
  std::optional<GpuKernels> &gpu;
  std::unique_ptr<KernelEmitter> portable;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::combineSplits(std::optional<GpuKernels> &gpu,
                                                           std::unique_ptr<KernelEmitter> portable) {
  return std::make_unique<CombineSplits>(gpu, std::move(portable));
}
