// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention token by token. Columns of a head's state do not meet one another: two vectors of them are an item, whose part of the state, as
// (key dim, columns), lies in L1 while a sequence's rows go by: 16 KiB of keys of 128 columns.

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/StateKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// Sums over the key's columns are as many chains, which a multiply-add waits for.
static constexpr int64_t chains = 4;

namespace {

class StateWriter {
public:
  StateWriter(RawBuilder &b, const LinearAttentionSpec &spec, const LinearAttentionCall &call, int64_t columns)
      : b(b), spec(spec), call(call), rowBytes(columns * floatBytes), state(b.stackScratch(spec.keyDim * rowBytes)) {}

  // Of one sequence and head the columns of the value from `first` on that `runs` say.
  void write(const SequenceValues &sequence, Value head, Value first, ArrayRef<ColumnRun> columns) {
    runs = columns;
    Value ofHead = b.mul(head, spec.keyDim * spec.valueDim * floatBytes), bytes = b.mul(first, floatBytes);
    StatePlaces places(b, sequence, b.add(b.add(call.stateOffset, ofHead), bytes));
    b.ifThen(places.isFresh, [&] {
      forEachRow([&](Value i, ColumnRun run) {
        b.store(b.constantF32(0, run.lanes), b.at(b.at(state, i, rowBytes), run.begin * floatBytes));
      });
    });
    auto isOld = arith::XOrIOp::create(b, places.isFresh, arith::ConstantOp::create(b, b.getBoolAttr(true)));
    b.ifThen(isOld, [&] { copy(places.from, pageRowBytes(), state, rowBytes); });
    Value keyHead = b.divide(head, spec.numHeads / spec.numKeyHeads);
    b.loop(sequence.firstRow, b.add(sequence.firstRow, sequence.numRows), 1,
           [&](Value row) { writeRow(row, head, keyHead, bytes); });
    copy(state, rowBytes, places.to, pageRowBytes());
  }

private:
  int64_t pageRowBytes() const { return spec.valueDim * floatBytes; }

  void forEachRow(function_ref<void(Value, ColumnRun)> body) {
    b.loop(0, spec.keyDim, 1, [&](Value i) {
      for (ColumnRun run : runs)
        body(i, run);
    });
  }
  void copy(Value from, int64_t fromBytes, Value to, int64_t toBytes) {
    forEachRow([&](Value i, ColumnRun run) {
      Value numbers = b.loadFloats(b.at(b.at(from, i, fromBytes), run.begin * floatBytes), run.lanes);
      b.store(numbers, b.at(b.at(to, i, toBytes), run.begin * floatBytes));
    });
  }

  // The place of a row's numbers, from column `column` on.
  Value at(Value rows, Value row, Value stride, Value column) {
    return b.at(b.at(rows, b.mul(row, stride), floatBytes), column, floatBytes);
  }

  // sums[run] += what `term` makes of column i of the key and the run, over all i; chain i mod 4 first, the chains then in pairs.
  SmallVector<Value> sumOverKey(function_ref<Value(Value i, size_t run, Value sum)> term) {
    SmallVector<Value> sums;
    for (int64_t chain = 0; chain < chains; ++chain)
      for (ColumnRun run : runs)
        sums.push_back(b.constantF32(0, run.lanes));
    auto step = [&](Value first, int64_t count, ValueRange before) {
      SmallVector<Value> after(before);
      for (int64_t chain = 0; chain < count; ++chain)
        for (size_t run = 0; run < runs.size(); ++run) {
          Value &sum = after[chain * runs.size() + run];
          sum = term(b.add(first, chain), run, sum);
        }
      return after;
    };
    int64_t whole = spec.keyDim / chains;
    sums = b.fold(b.constant(0), b.constant(whole), sums,
                  [&](Value i, ValueRange before) { return step(b.mul(i, chains), chains, before); });
    sums = step(b.constant(whole * chains), spec.keyDim % chains, sums);
    SmallVector<Value> result;
    for (size_t run = 0; run < runs.size(); ++run) {
      auto of = [&](size_t chain) { return sums[chain * runs.size() + run]; };
      result.push_back(b.addF(b.addF(of(0), of(1)), b.addF(of(2), of(3))));
    }
    return result;
  }

  Value stateAt(Value i, size_t run) { return b.at(b.at(state, i, rowBytes), runs[run].begin * floatBytes); }

  void writeRow(Value row, Value head, Value keyHead, Value bytes) {
    Value key = at(call.key, row, call.keyStride, b.mul(keyHead, spec.keyDim));
    Value query = at(call.query, row, call.queryStride, b.mul(keyHead, spec.keyDim));
    Value ofValue = b.mul(head, spec.valueDim);
    Value value = b.at(at(call.value, row, call.valueStride, ofValue), bytes);
    Value out = b.at(at(call.out, row, call.outStride, ofValue), bytes);
    auto ofHead = [&](Value rows, Value stride) { return b.loadFloat(at(rows, row, stride, head)); };
    Value decay = spec.hasDecay ? emitExp(b, ofHead(call.decay, call.decayStride)) : Value();
    SmallVector<Value> added;
    for (ColumnRun run : runs)
      added.push_back(b.loadFloats(b.at(value, run.begin * floatBytes), run.lanes));
    if (spec.hasBeta)
      takeDifference(added, key, decay, ofHead(call.beta, call.betaStride));
    SmallVector<Value> result = sumOverKey([&](Value i, size_t run, Value sum) {
      unsigned lanes = runs[run].lanes;
      Value place = stateAt(i, run), before = b.loadFloats(place, lanes);
      if (decay)
        before = b.mulF(before, b.broadcast(decay, lanes));
      Value after = b.fma(b.loadBroadcast(b.at(key, i, floatBytes), lanes), added[run], before);
      b.store(after, place);
      return b.fma(b.loadBroadcast(b.at(query, i, floatBytes), lanes), after, sum);
    });
    for (auto [run, sum] : llvm::zip_equal(runs, result))
      b.store(b.mulF(sum, b.constantF32(spec.scale, run.lanes)), b.at(out, run.begin * floatBytes));
  }

  // beta (value - decay S^T key)
  void takeDifference(MutableArrayRef<Value> values, Value key, Value decay, Value beta) {
    SmallVector<Value> known = sumOverKey([&](Value i, size_t run, Value sum) {
      unsigned lanes = runs[run].lanes;
      return b.fma(b.loadBroadcast(b.at(key, i, floatBytes), lanes), b.loadFloats(stateAt(i, run), lanes), sum);
    });
    for (auto [value, sum, run] : llvm::zip_equal(values, known, runs)) {
      Value ofKey = decay ? b.mulF(sum, b.broadcast(decay, run.lanes)) : sum;
      value = b.mulF(b.subF(value, ofKey), b.broadcast(beta, run.lanes));
    }
  }

  RawBuilder &b;
  const LinearAttentionSpec &spec;
  const LinearAttentionCall &call;
  const int64_t rowBytes;
  Value state; // (key dim, columns of an item)
  ArrayRef<ColumnRun> runs;
};

} // namespace

func::FuncOp heddle::buildRaggedLinearAttention(ModuleOp module, StringRef name, const LinearAttentionSpec &spec,
                                                const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<LinearAttentionCall>(b.getContext()));
  auto call = argumentsOf<LinearAttentionCall>(function);
  unsigned lanes = target.vectorLanes();
  int64_t columns = 2 * int64_t(lanes), whole = spec.valueDim / columns, rest = spec.valueDim % columns;
  int64_t perHead = whole + (rest != 0);
  StateWriter writer(b, spec, call, columns);
  SmallVector<ColumnRun> wholeRuns = columnRuns(columns, lanes), restRuns = columnRuns(rest, lanes);
  auto [begin, end] = shareOf(b, spec.numHeads * perHead, call.thread, call.numThreads);
  b.loop(b.constant(0), call.numSequences, 1, [&, begin = begin, end = end](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    b.loop(begin, end, 1, [&](Value item) {
      Value head = b.divide(item, perHead), part = b.sub(item, b.mul(head, perHead)), first = b.mul(part, columns);
      if (whole)
        b.ifThen(b.lessThan(part, b.constant(whole)), [&] { writer.write(sequence, head, first, wholeRuns); });
      if (rest)
        b.ifThen(b.equal(part, b.constant(whole)), [&] { writer.write(sequence, head, first, restRuns); });
    });
  });
  func::ReturnOp::create(b);
  return function;
}

namespace {

class RaggedLinearAttention : public KernelEmitterOf<RaggedLinearAttentionOp> {
public:
  explicit RaggedLinearAttention(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(RaggedLinearAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RaggedLinearAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    return oneKernel(
        module.once(name, [&] { return buildRaggedLinearAttention(module.code, name, specOf(op), target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::raggedLinearAttention(const CpuTarget &target) {
  return std::make_unique<RaggedLinearAttention>(target);
}
