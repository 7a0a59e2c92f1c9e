// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/KvAppend.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

// page[head][slot] = row[head] for every head, converted; rows of the page are `pageDim` wide.
static void storeHeads(RawBuilder &b, const KvAppendSpec &spec, int64_t headDim, int64_t pageDim, Value row, Value page,
                       Value slot, unsigned lanes) {
  int64_t element = kvBytes(spec.kv);
  b.loop(0, spec.numKvHeads, 1, [&](Value head) {
    Value from = b.at(row, head, headDim * sizeof(float));
    Value to = b.at(page, b.add(b.mul(head, pageTokens), slot), pageDim * element);
    for (ColumnRun run : columnRuns(headDim, lanes))
      b.storeKv(spec.kv, b.loadFloats(b.at(from, run.begin * sizeof(float)), run.lanes), b.at(to, run.begin * element));
  });
}

func::FuncOp heddle::buildKvAppend(ModuleOp module, StringRef name, const KvAppendSpec &spec, const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<KvAppendCall>(b.getContext()));
  auto call = argumentsOf<KvAppendCall>(function);
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    SequenceValues sequence =
        loadSequence(b, call.sequences, b.loadIndex(b.at(call.rowSequence, row, sizeof(int32_t))));
    Value position = b.loadIndex(b.at(call.cachePositions, row, sizeof(int32_t)));
    Value page = loadPage(b, sequence.pages, b.divide(position, pageTokens));
    Value slot = b.remainder(position, b.constant(pageTokens));
    unsigned lanes = target.vectorLanes();
    int64_t keyDim = spec.headDim, valueDim = spec.valueDim();
    int64_t latentDim = spec.isLatent ? keyDim + valueDim : 0;
    Value valuePlane =
        spec.isLatent ? b.at(b.at(page, call.kOffset), keyDim * kvBytes(spec.kv)) : b.at(page, call.vOffset);
    storeHeads(b, spec, keyDim, latentDim ? latentDim : keyDim,
               b.at(call.key, b.mul(row, call.keyStride), sizeof(float)), b.at(page, call.kOffset), slot, lanes);
    if (valueDim)
      storeHeads(b, spec, valueDim, latentDim ? latentDim : valueDim,
                 b.at(call.value, b.mul(row, call.valueStride), sizeof(float)), valuePlane, slot, lanes);
  });
  func::ReturnOp::create(b);
  return function;
}

namespace {

class KvAppend : public KernelEmitterOf<KvAppendOp> {
public:
  explicit KvAppend(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(KvAppendOp op) const override { return std::string("kv_append"); }
  FailureOr<Kernels> build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override {
    return oneKernel(module.once(name, [&] { return buildKvAppend(module.code, name, specOf(op), target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::kvAppend(const CpuTarget &target) {
  return std::make_unique<KvAppend>(target);
}
