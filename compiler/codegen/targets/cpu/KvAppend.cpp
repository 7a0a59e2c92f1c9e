// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/KvAppend.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;
static constexpr int64_t pairBytes = 4, halfBytes = 2;

namespace {

// Writes a row of a step, all heads of it, to a slot of a page.
class RowWriter {
public:
  RowWriter(RawBuilder &b, const KvAppendSpec &spec, unsigned lanes) : b(b), spec(spec), lanes(lanes) {
    if (cpu::hasPairedPages(spec))
      rounded = b.stackScratch(std::max(spec.headDim, spec.valueDim()) * halfBytes);
  }

  // plane[head][slot] = row[head], a head's `dim` numbers in `planeDim` columns.
  void storeRows(int64_t dim, int64_t planeDim, Value row, Value plane, Value slot) {
    int64_t element = kvBytes(spec.kv);
    forEachHead(dim, planeDim, row, plane,
                [&](Value from, Value to) { storeRow(dim, from, b.at(to, slot, planeDim * element)); });
  }

  void storeColumnPairs(Value row, Value plane, Value slot) {
    forEachHead(spec.headDim, spec.headDim, row, plane, [&](Value from, Value to) {
      storeRow(spec.headDim, from, rounded);
      Value pairs = b.at(to, slot, pairBytes);
      b.loop(0, spec.headDim / 2, 1, [&](Value pair) {
        b.store(b.load(b.getI32Type(), b.at(rounded, pair, pairBytes)), b.at(pairs, pair, pageTokens * pairBytes));
      });
    });
  }

  // Where no token of the step follows, the neighbour is what a weight of zero is multiplied by: zero.
  void storeTokenPairs(Value row, Value plane, Value slot, Value isLast) {
    int64_t dim = spec.valueDim();
    Value pair = b.divide(slot, 2), half = b.remainder(slot, b.constant(2));
    Value isAlone = arith::AndIOp::create(b, isLast, b.equal(half, b.constant(0)));
    forEachHead(dim, dim, row, plane, [&](Value from, Value to) {
      storeRow(dim, from, rounded);
      Value pairs = b.at(to, pair, dim * pairBytes), halves = b.at(pairs, half, halfBytes);
      b.ifThen(isAlone, [&] {
        for (ColumnRun run : columnRuns(dim, lanes))
          b.store(b.constantI32(0, run.lanes), b.at(pairs, run.begin * pairBytes));
      });
      b.loop(0, dim, 1, [&](Value column) {
        b.store(b.load(b.getI16Type(), b.at(rounded, column, halfBytes)), b.at(halves, column, pairBytes));
      });
    });
  }

private:
  void forEachHead(int64_t dim, int64_t planeDim, Value row, Value plane, function_ref<void(Value, Value)> body) {
    b.loop(0, spec.numKvHeads, 1, [&](Value head) {
      body(b.at(row, head, dim * sizeof(float)), b.at(plane, head, pageTokens * planeDim * kvBytes(spec.kv)));
    });
  }
  void storeRow(int64_t dim, Value from, Value to) {
    for (ColumnRun run : columnRuns(dim, lanes))
      b.storeKv(spec.kv, b.loadFloats(b.at(from, run.begin * sizeof(float)), run.lanes),
                b.at(to, run.begin * kvBytes(spec.kv)));
  }

  RawBuilder &b;
  const KvAppendSpec &spec;
  const unsigned lanes;
  Value rounded; // a head's row
};

} // namespace

func::FuncOp heddle::buildKvAppend(ModuleOp module, StringRef name, const KvAppendSpec &spec, const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<KvAppendCall>(b.getContext()));
  auto call = argumentsOf<KvAppendCall>(function);
  RowWriter writer(b, spec, target.vectorLanes());
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    SequenceValues sequence =
        loadSequence(b, call.sequences, b.loadIndex(b.at(call.rowSequence, row, sizeof(int32_t))));
    Value position = b.loadIndex(b.at(call.cachePositions, row, sizeof(int32_t)));
    Value page = loadPage(b, sequence.pages, b.divide(position, pageTokens));
    Value slot = b.remainder(position, b.constant(pageTokens));
    int64_t keyDim = spec.headDim, valueDim = spec.valueDim();
    Value key = b.at(call.key, b.mul(row, call.keyStride), sizeof(float)), keys = b.at(page, call.kOffset);
    Value value = valueDim ? b.at(call.value, b.mul(row, call.valueStride), sizeof(float)) : Value();
    if (cpu::hasPairedPages(spec)) {
      writer.storeColumnPairs(key, keys, slot);
      writer.storeTokenPairs(value, b.at(page, call.vOffset), slot, b.equal(b.add(position, 1), sequence.length));
    } else if (spec.isLatent) {
      writer.storeRows(keyDim, keyDim + valueDim, key, keys, slot);
      if (valueDim)
        writer.storeRows(valueDim, keyDim + valueDim, value, b.at(keys, keyDim * kvBytes(spec.kv)), slot);
    } else {
      writer.storeRows(keyDim, keyDim, key, keys, slot);
      writer.storeRows(valueDim, valueDim, value, b.at(page, call.vOffset), slot);
    }
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
