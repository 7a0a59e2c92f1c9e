// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention token by token. Columns of a head's state do not meet one another. Of several rows two vectors of them are an item, whose part of the
// state, as (key dim, columns), lies in L1 while a sequence's rows go by: 16 KiB of keys of 128 columns. One row alone, as when tokens are generated,
// reads the state where it lies and leaves the next where that belongs, in items as wide as registers allow: what it waits for is memory. Both have the
// same sums. Where columns of a key decay each, a row of an item first makes their factors, and what these make of the key.

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/StateKernels.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// Sums over the key's columns are as many chains, which a multiply-add waits for.
static constexpr int64_t chains = 4;

namespace {

class StateWriter {
public:
  StateWriter(RawBuilder &b, const LinearAttentionSpec &spec, const LinearAttentionCall &call, int64_t columns,
              unsigned lanes)
      : b(b), spec(spec), call(call), scratchRowBytes(columns * floatBytes), keyLanes(lanes),
        scratch(b.stackScratch(spec.keyDim * scratchRowBytes)) {
    if (spec.decaysByKey)
      factors = b.stackScratch(spec.keyDim * floatBytes);
    if (spec.decaysByKey && spec.hasBeta)
      decayedKey = b.stackScratch(spec.keyDim * floatBytes);
  }

  // Of one sequence and head the columns of the value from `first` on that `runs` say.
  void write(const SequenceValues &sequence, Value head, Value first, ArrayRef<ColumnRun> columns) {
    begin(sequence, head, first, columns);
    b.ifThen(places->isFresh, [&] {
      forEachRow([&](Value i, ColumnRun run) {
        b.store(b.constantF32(0, run.lanes), b.at(b.at(scratch, i, scratchRowBytes), run.begin * floatBytes));
      });
    });
    b.ifThen(b.lessThan(b.constant(0), sequence.past),
             [&] { copy(places->from, pageRowBytes(), scratch, scratchRowBytes); });
    from = to = scratch, rowBytes = scratchRowBytes;
    b.loop(sequence.firstRow, b.add(sequence.firstRow, sequence.numRows), 1, [&](Value row) { writeRow(row); });
    copy(scratch, scratchRowBytes, places->to, pageRowBytes());
  }

  // The same of a sequence's only row that is not its first token.
  void writeOne(const SequenceValues &sequence, Value head, Value first, ArrayRef<ColumnRun> columns) {
    begin(sequence, head, first, columns);
    from = places->from, to = places->to, rowBytes = pageRowBytes();
    writeRow(sequence.firstRow);
  }

private:
  void begin(const SequenceValues &sequence, Value ofHead, Value first, ArrayRef<ColumnRun> columns) {
    runs = columns, head = ofHead, firstBytes = b.mul(first, floatBytes);
    keyHead = b.divide(head, spec.numHeads / spec.numKeyHeads);
    Value before = b.add(call.stateOffset, b.mul(head, spec.keyDim * spec.valueDim * floatBytes));
    places.emplace(b, sequence, b.add(before, firstBytes));
  }
  int64_t pageRowBytes() const { return spec.valueDim * floatBytes; }

  void forEachRow(function_ref<void(Value, ColumnRun)> body) {
    b.loop(0, spec.keyDim, 1, [&](Value i) {
      for (ColumnRun run : runs)
        body(i, run);
    });
  }
  void copy(Value source, int64_t sourceBytes, Value target, int64_t targetBytes) {
    forEachRow([&](Value i, ColumnRun run) {
      Value numbers = b.loadFloats(b.at(b.at(source, i, sourceBytes), run.begin * floatBytes), run.lanes);
      b.store(numbers, b.at(b.at(target, i, targetBytes), run.begin * floatBytes));
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

  Value stateAt(Value state, Value i, size_t run) {
    return b.at(b.at(state, i, rowBytes), runs[run].begin * floatBytes);
  }

  void writeRow(Value row) {
    Value key = at(call.key, row, call.keyStride, b.mul(keyHead, spec.keyDim));
    Value query = at(call.query, row, call.queryStride, b.mul(keyHead, spec.keyDim));
    Value ofValue = b.mul(head, spec.valueDim);
    Value value = b.at(at(call.value, row, call.valueStride, ofValue), firstBytes);
    Value out = b.at(at(call.out, row, call.outStride, ofValue), firstBytes);
    auto ofHead = [&](Value rows, Value stride) { return b.loadFloat(at(rows, row, stride, head)); };
    Value decay;
    if (spec.decaysByKey)
      makeFactors(row, key);
    else if (spec.hasDecay)
      decay = emitExp(b, ofHead(call.decay, call.decayStride));
    SmallVector<Value> added;
    for (ColumnRun run : runs)
      added.push_back(b.loadFloats(b.at(value, run.begin * floatBytes), run.lanes));
    if (spec.hasBeta)
      takeDifference(added, spec.decaysByKey ? decayedKey : key, decay, ofHead(call.beta, call.betaStride));
    SmallVector<Value> result = sumOverKey([&](Value i, size_t run, Value sum) {
      unsigned lanes = runs[run].lanes;
      Value before = b.loadFloats(stateAt(from, i, run), lanes);
      if (spec.hasDecay)
        before =
            b.mulF(before, decay ? b.broadcast(decay, lanes) : b.loadBroadcast(b.at(factors, i, floatBytes), lanes));
      Value after = b.fma(b.loadBroadcast(b.at(key, i, floatBytes), lanes), added[run], before);
      b.store(after, stateAt(to, i, run));
      return b.fma(b.loadBroadcast(b.at(query, i, floatBytes), lanes), after, sum);
    });
    for (auto [run, sum] : llvm::zip_equal(runs, result))
      b.store(b.mulF(sum, b.constantF32(spec.scale, run.lanes)), b.at(out, run.begin * floatBytes));
  }

  // exp(decay) of each column of the key, and that times the key.
  void makeFactors(Value row, Value key) {
    Value decays = at(call.decay, row, call.decayStride, b.mul(head, spec.keyDim));
    auto make = [&](Value bytes, unsigned lanes) {
      Value factor = emitExp(b, b.loadFloats(b.at(decays, bytes), lanes));
      b.store(factor, b.at(factors, bytes));
      if (decayedKey)
        b.store(b.mulF(factor, b.loadFloats(b.at(key, bytes), lanes)), b.at(decayedKey, bytes));
    };
    int64_t whole = spec.keyDim / keyLanes * keyLanes;
    b.loop(0, whole, keyLanes, [&](Value i) { make(b.mul(i, floatBytes), keyLanes); });
    for (ColumnRun run : columnRuns(spec.keyDim - whole, keyLanes))
      make(b.constant((whole + run.begin) * floatBytes), run.lanes);
  }

  // beta (value - S^T key), S having decayed: by `decay`, or the key has.
  void takeDifference(MutableArrayRef<Value> values, Value key, Value decay, Value beta) {
    SmallVector<Value> known = sumOverKey([&](Value i, size_t run, Value sum) {
      unsigned lanes = runs[run].lanes;
      return b.fma(b.loadBroadcast(b.at(key, i, floatBytes), lanes), b.loadFloats(stateAt(from, i, run), lanes), sum);
    });
    for (auto [value, sum, run] : llvm::zip_equal(values, known, runs)) {
      Value ofKey = decay ? b.mulF(sum, b.broadcast(decay, run.lanes)) : sum;
      value = b.mulF(b.subF(value, ofKey), b.broadcast(beta, run.lanes));
    }
  }

  RawBuilder &b;
  const LinearAttentionSpec &spec;
  const LinearAttentionCall &call;
  const int64_t scratchRowBytes;
  const unsigned keyLanes;
  Value scratch;             // (key dim, columns of an item)
  Value factors, decayedKey; // (key dim) each, of a row
  ArrayRef<ColumnRun> runs;
  Value head, keyHead, firstBytes;
  std::optional<StatePlaces> places;
  // The state before a row and behind it, which may be one, in rows of so many bytes.
  Value from, to;
  int64_t rowBytes = 0;
};

// A head's values in items of `columns` columns, and what is left of them.
struct Items {
  Items(const LinearAttentionSpec &spec, int64_t columns, unsigned lanes)
      : columns(columns), whole(spec.valueDim / columns), wholeRuns(columnRuns(columns, lanes)),
        restRuns(columnRuns(spec.valueDim % columns, lanes)), numHeads(spec.numHeads) {}

  // Calls `write` for those that are a thread's.
  void forShare(RawBuilder &b, const LinearAttentionCall &call,
                function_ref<void(Value head, Value first, ArrayRef<ColumnRun> runs)> write) const {
    int64_t perHead = whole + !restRuns.empty();
    auto [begin, end] = shareOf(b, numHeads * perHead, call.thread, call.numThreads);
    b.loop(begin, end, 1, [&](Value item) {
      Value head = b.divide(item, perHead), part = b.sub(item, b.mul(head, perHead)), first = b.mul(part, columns);
      if (whole)
        b.ifThen(b.lessThan(part, b.constant(whole)), [&] { write(head, first, wholeRuns); });
      if (!restRuns.empty())
        b.ifThen(b.equal(part, b.constant(whole)), [&] { write(head, first, restRuns); });
    });
  }

  int64_t columns, whole;
  SmallVector<ColumnRun> wholeRuns, restRuns;
  int64_t numHeads;
};

} // namespace

func::FuncOp heddle::buildRaggedLinearAttention(ModuleOp module, StringRef name, const LinearAttentionSpec &spec,
                                                const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<LinearAttentionCall>(b.getContext()));
  auto call = argumentsOf<LinearAttentionCall>(function);
  unsigned lanes = target.vectorLanes();
  if (isNarrowLinearAttention(spec)) {
    emitNarrowLinearAttention(b, spec, call, target);
    func::ReturnOp::create(b);
    return function;
  }
  // Sums of an item's chains, of both vectors of AVX2 and of four of AVX-512, leave half of the registers to the rest.
  int64_t columns = 2 * int64_t(lanes), wide = lanes >= 16 ? 2 * columns : columns;
  StateWriter writer(b, spec, call, columns, lanes);
  Items several(spec, columns, lanes), one(spec, wide, lanes);
  b.loop(b.constant(0), call.numSequences, 1, [&](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    // Whether it has one row behind others.
    Value others = b.min(sequence.past, b.constant(1));
    b.ifThen(b.lessThan(b.sub(sequence.numRows, b.constant(1)), others), [&] {
      one.forShare(b, call, [&](Value head, Value first, ArrayRef<ColumnRun> runs) {
        writer.writeOne(sequence, head, first, runs);
      });
    });
    b.ifThen(b.lessThan(others, sequence.numRows), [&] {
      several.forShare(b, call, [&](Value head, Value first, ArrayRef<ColumnRun> runs) {
        writer.write(sequence, head, first, runs);
      });
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
