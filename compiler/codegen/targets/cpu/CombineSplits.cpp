// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges what rows saw of each split of the keys, in ascending order: the CPU body of `combine_splits`.

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);

func::FuncOp heddle::buildCombineSplits(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                        const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<CombineSplitsCall>(b.getContext()));
  auto call = argumentsOf<CombineSplitsCall>(function);
  SplitStates states{call.outputs, call.maxima, call.sums, call.maxSplits};
  Value thread = b.extend(call.thread), numThreads = b.extend(call.numThreads);

  AttentionTile emitter(b, spec, target);
  RowState total{b.stackScratch(floatBytes), b.stackScratch(floatBytes),
                 b.stackScratch(llvm::alignTo(spec.valueDim(), 16) * floatBytes)};
  b.loop(b.constant(0), call.numSequences, 1, [&](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    // Item (token, head) of a sequence belongs to thread item mod numThreads.
    b.loop(thread, b.mul(sequence.numRows, spec.numHeads), numThreads, [&](Value item) {
      Value token = b.divide(item, spec.numHeads), head = b.remainder(item, b.constant(spec.numHeads));
      Value row = b.add(sequence.firstRow, token);
      emitter.beginTotal(total, head, call.sinks);
      // Splits that this row sees nothing of have no state or an empty one, which would change nothing.
      auto [begin, end] = emitter.visibleKeys(sequence, token, b.constant(1));
      b.loop(b.divide(begin, spec.splitKv), b.divideUp(end, spec.splitKv), 1,
             [&](Value split) { emitter.mergeInto(total, splitStateOf(b, spec, states, row, split, head)); });
      emitter.storeOutput(total, outputRow(b, spec, call.out, call.outStride, row, head));
    });
  });
  func::ReturnOp::create(b);
  return function;
}

namespace {

class CombineSplits : public KernelEmitterOf<CombineSplitsOp> {
public:
  explicit CombineSplits(const CpuTarget &target) : target(target) {}

  bool canEmit(Operation *op, std::string &missing) const override {
    if (int64_t keys = cast<CombineSplitsOp>(op).getSplitKv(); keys % HEDDLE_KV_PAGE_SIZE)
      missing = "in splits of " + std::to_string(keys) + " keys";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(CombineSplitsOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(CombineSplitsOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    return oneKernel(module.once(name, [&] { return buildCombineSplits(module.code, name, spec, target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::combineSplits(const CpuTarget &target) {
  return std::make_unique<CombineSplits>(target);
}
