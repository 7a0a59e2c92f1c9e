// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention whose values have one column, as channels of Mamba (arXiv:2312.00752) do. Lanes are columns of the key instead, which lie side by side
// in a head's state, and sums go over lanes. An item is neighbouring heads, whose states lie in L1 while a sequence's rows go by; of one row alone they
// are read and written where they belong. Both have the same sums, which are those of vectors of 16 lanes whatever the target has.

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/StateKernels.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// Of a row of an item the decays of keys of 16 columns are 1 KiB.
static constexpr int64_t headsOfItem = 16;
// Columns of a key that are summed up side by side.
static constexpr unsigned wideLanes = 16;

namespace {

class NarrowWriter {
public:
  NarrowWriter(RawBuilder &b, const LinearAttentionSpec &spec, const LinearAttentionCall &call, unsigned lanes)
      : b(b), spec(spec), call(call), scratch(b.stackScratch(headsOfItem * stateBytes())) {
    for (ColumnRun wide : columnRuns(spec.keyDim, wideLanes)) {
      unsigned width = std::min(wide.lanes, lanes);
      parts.push_back(wide.lanes / width);
      for (unsigned column = 0; column < wide.lanes; column += width)
        runs.push_back({wide.begin + column, width});
    }
  }

  // Of one sequence the heads [first, first + count).
  void write(const SequenceValues &sequence, Value first, Value count) {
    StatePlaces places = placesOf(sequence, first);
    b.ifThen(places.isFresh, [&] {
      forEachHead(count, [&](Value i) {
        for (ColumnRun run : runs)
          b.store(b.constantF32(0, run.lanes), b.at(stateOf(scratch, i), run.begin * floatBytes));
      });
    });
    b.ifThen(b.lessThan(b.constant(0), sequence.past), [&] { copy(places.from, scratch, count); });
    b.loop(sequence.firstRow, b.add(sequence.firstRow, sequence.numRows), 1,
           [&](Value row) { writeRow(row, first, count, scratch, scratch); });
    copy(scratch, places.to, count);
  }

  // The same of a sequence's only row that is not its first token.
  void writeOne(const SequenceValues &sequence, Value first, Value count) {
    StatePlaces places = placesOf(sequence, first);
    writeRow(sequence.firstRow, first, count, places.from, places.to);
  }

private:
  int64_t stateBytes() const { return spec.keyDim * floatBytes; }
  Value stateOf(Value states, Value i) { return b.at(states, i, stateBytes()); }
  StatePlaces placesOf(const SequenceValues &sequence, Value first) {
    return {b, sequence, b.add(call.stateOffset, b.mul(first, stateBytes()))};
  }
  void forEachHead(Value count, function_ref<void(Value)> body) { b.loop(b.constant(0), count, 1, body); }
  void copy(Value from, Value to, Value count) {
    forEachHead(count, [&](Value i) {
      for (ColumnRun run : runs) {
        Value bytes = b.add(b.mul(i, stateBytes()), run.begin * floatBytes);
        b.store(b.loadFloats(b.at(from, bytes), run.lanes), b.at(to, bytes));
      }
    });
  }

  // The place of a row's numbers, from column `column` on.
  Value at(Value rows, Value row, Value stride, Value column) {
    return b.at(b.at(rows, b.mul(row, stride), floatBytes), column, floatBytes);
  }
  Value load(Value numbers, ColumnRun run) { return b.loadFloats(b.at(numbers, run.begin * floatBytes), run.lanes); }

  // The sum of all lanes, each with the one half of them further on.
  Value sumOf(SmallVector<Value> vectors) {
    for (size_t half = vectors.size() / 2; half; half /= 2)
      for (size_t i = 0; i < half; ++i)
        vectors[i] = b.addF(vectors[i], vectors[i + half]);
    return b.lane0(b.sumOfLanes(vectors[0]));
  }

  // Of numbers in memory and in vectors: parts of the greatest width add up lane by lane, then the lanes of it and of each narrower part.
  Value dot(Value numbers, ArrayRef<Value> vectors) {
    SmallVector<Value> wide;
    Value sum;
    for (size_t part = 0, first = 0; part < parts.size(); first += parts[part++]) {
      bool isWide = parts[part] * runs[first].lanes == wideLanes;
      SmallVector<Value> products;
      for (size_t i = first; i < first + parts[part]; ++i) {
        Value number = load(numbers, runs[i]);
        products.push_back(isWide && !wide.empty() ? b.fma(number, vectors[i], wide[i - first])
                                                   : b.mulF(number, vectors[i]));
      }
      if (isWide) {
        wide = products;
        continue;
      }
      Value narrow = sumOf(products);
      sum = sum ? b.addF(sum, narrow) : narrow;
    }
    if (wide.empty())
      return sum;
    return sum ? b.addF(sumOf(wide), sum) : sumOf(wide);
  }

  void writeRow(Value row, Value first, Value count, Value from, Value to) {
    forEachHead(count, [&](Value i) { writeHead(row, b.add(first, i), stateOf(from, i), stateOf(to, i)); });
  }

  void writeHead(Value row, Value head, Value from, Value to) {
    Value ofKey = b.mul(b.divide(head, spec.numHeads / spec.numKeyHeads), spec.keyDim);
    Value key = at(call.key, row, call.keyStride, ofKey), query = at(call.query, row, call.queryStride, ofKey);
    auto ofHead = [&](Value rows, Value stride) { return b.loadFloat(at(rows, row, stride, head)); };
    SmallVector<Value> state;
    for (ColumnRun run : runs)
      state.push_back(load(from, run));
    if (spec.decaysByKey) {
      Value decays = at(call.decay, row, call.decayStride, b.mul(head, spec.keyDim));
      for (auto [number, run] : llvm::zip_equal(state, runs))
        number = b.mulF(number, emitExp(b, load(decays, run)));
    } else if (spec.hasDecay) {
      Value decay = emitExp(b, ofHead(call.decay, call.decayStride));
      for (auto [number, run] : llvm::zip_equal(state, runs))
        number = b.mulF(number, b.broadcast(decay, run.lanes));
    }
    Value added = ofHead(call.value, call.valueStride);
    if (spec.hasBeta)
      added = b.mulF(b.subF(added, dot(key, state)), ofHead(call.beta, call.betaStride));
    for (auto [number, run] : llvm::zip_equal(state, runs)) {
      number = b.fma(load(key, run), b.broadcast(added, run.lanes), number);
      b.store(number, b.at(to, run.begin * floatBytes));
    }
    b.store(b.mulF(dot(query, state), b.constantF32(spec.scale)), at(call.out, row, call.outStride, head));
  }

  RawBuilder &b;
  const LinearAttentionSpec &spec;
  const LinearAttentionCall &call;
  SmallVector<size_t> parts;   // of how many runs each part of a key is: of wideLanes columns, then of ever fewer
  SmallVector<ColumnRun> runs; // as wide as the target's vectors, at most
  Value scratch;               // (heads of an item, key dim)
};

} // namespace

// A state of a head is in registers.
bool heddle::isNarrowLinearAttention(const LinearAttentionSpec &spec) {
  constexpr int64_t widest = 64;
  return spec.valueDim == 1 && spec.keyDim <= widest;
}

void heddle::emitNarrowLinearAttention(RawBuilder &b, const LinearAttentionSpec &spec, const LinearAttentionCall &call,
                                       const CpuTarget &target) {
  NarrowWriter writer(b, spec, call, target.vectorLanes());
  auto [begin, end] = shareOf(b, llvm::divideCeil(spec.numHeads, headsOfItem), call.thread, call.numThreads);
  b.loop(b.constant(0), call.numSequences, 1, [&, begin = begin, end = end](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    // Whether it has one row behind others.
    Value others = b.min(sequence.past, b.constant(1)), isMore = b.lessThan(others, sequence.numRows);
    b.loop(begin, end, 1, [&](Value item) {
      Value first = b.mul(item, headsOfItem);
      Value count = b.min(b.sub(b.constant(spec.numHeads), first), b.constant(headsOfItem));
      b.ifThen(b.lessThan(b.sub(sequence.numRows, b.constant(1)), others),
               [&] { writer.writeOne(sequence, first, count); });
      b.ifThen(isMore, [&] { writer.write(sequence, first, count); });
    });
  });
}
