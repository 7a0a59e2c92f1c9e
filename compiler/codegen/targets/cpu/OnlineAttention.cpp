// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/OnlineAttention.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

// Items of a sequence: each (token tile, head tile) counts for `splits` of them.
static Value itemsOf(RawBuilder &b, const AttentionTile &emitter, const SequenceValues &sequence, Value splits) {
  return b.mul(b.mul(b.divideUp(sequence.numRows, emitter.tokens()), emitter.headTiles()), splits);
}

static TileValues tileOf(RawBuilder &b, const AttentionTile &emitter, const SequenceValues &sequence, Value tile,
                         Value headTile) {
  Value token = b.mul(tile, emitter.tokens()), firstHead = b.mul(headTile, emitter.group());
  Value kvHead = b.divide(firstHead, emitter.headsPerKvHead());
  Value count = b.min(b.constant(emitter.tokens()), b.sub(sequence.numRows, token));
  return {sequence, token, count, kvHead, firstHead};
}

// `body` for every (token tile, head tile) of the step that is this thread's: item i of the step belongs to thread i mod numThreads,
// as later tiles of tokens see more keys.
static void forEachTile(RawBuilder &b, AttentionTile &emitter, Value sequences, Value numSequences, Value thread,
                        Value numThreads, llvm::function_ref<void(const TileValues &)> body) {
  int64_t headTiles = emitter.headTiles();
  b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange itemsBefore) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    Value items = itemsOf(b, emitter, sequence, b.constant(1));
    // The first item i of the sequence with (itemsBefore + i) mod numThreads = thread.
    Value ahead = b.remainder(itemsBefore[0], numThreads);
    Value first = b.remainder(b.sub(b.add(thread, numThreads), ahead), numThreads);
    b.loop(first, items, numThreads, [&](Value item) {
      body(tileOf(b, emitter, sequence, b.divide(item, headTiles), b.remainder(item, b.constant(headTiles))));
    });
    return SmallVector<Value>{b.add(itemsBefore[0], items)};
  });
}

// `body` for every (token tile, head tile, split) of the step that is this thread's: an equal run of neighbours each, the splits of a head one
// behind the other, so that the page that is asked for behind a split's last is the one that is read next.
static void forEachSplit(RawBuilder &b, AttentionTile &emitter, Value sequences, Value numSequences, Value thread,
                         Value numThreads, llvm::function_ref<Value(const SequenceValues &)> splits,
                         llvm::function_ref<void(const TileValues &, Value split)> body) {
  int64_t headTiles = emitter.headTiles();
  auto countItems = [&](const SequenceValues &sequence) { return itemsOf(b, emitter, sequence, splits(sequence)); };
  Value total = b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange before) {
    return SmallVector<Value>{b.add(before[0], countItems(loadSequence(b, sequences, index)))};
  })[0];
  Value begin = b.divide(b.mul(total, thread), numThreads);
  Value end = b.divide(b.mul(total, b.add(thread, 1)), numThreads);
  b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange before) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    Value splitCount = splits(sequence), items = countItems(sequence);
    Value first = b.max(b.sub(begin, before[0]), b.constant(0)), last = b.min(b.sub(end, before[0]), items);
    b.loop(first, last, 1, [&](Value item) {
      Value split = b.remainder(item, splitCount), rest = b.divide(item, splitCount);
      body(tileOf(b, emitter, sequence, b.divide(rest, headTiles), b.remainder(rest, b.constant(headTiles))), split);
    });
    return SmallVector<Value>{b.add(before[0], items)};
  });
}

static Value stepRow(RawBuilder &b, const TileValues &tile, Value token) {
  return b.add(b.add(tile.sequence.firstRow, tile.firstToken), token);
}

func::FuncOp heddle::buildAttention(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                    const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  unsigned form = formOf(spec);
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<AttentionCall>(b.getContext(), form));
  auto call = argumentsOf<AttentionCall>(function, form);
  Value thread = b.extend(call.thread), numThreads = b.extend(call.numThreads);

  AttentionTile emitter(b, spec, target);
  emitter.allocate();
  forEachTile(b, emitter, call.sequences, call.numSequences, thread, numThreads, [&](const TileValues &tile) {
    emitter.loadQueries(tile, emitter.stepQueries(tile, call.q, call.qStride));
    emitter.loadPositions(tile, call.positions);
    KeyBlocks pages = emitter.pages(tile, call.kOffset, call.vOffset);
    emitter.forEachRow(tile, [&](Value, Value head, Value row) {
      emitter.beginTotal(emitter.totalState(row), b.add(tile.firstHead, head), call.sinks);
    });
    auto [begin, end] = emitter.visibleKeys(tile.sequence, tile.firstToken, tile.numTokens);
    auto mergeRows = [&] {
      emitter.forEachRow(tile, [&](Value, Value, Value row) {
        emitter.reduceSum(row);
        emitter.mergeInto(emitter.totalState(row), emitter.splitState(row));
      });
    };
    if (spec.storesScores) {
      emitter.attendStored(tile, {begin, end, pages}, {call.positions, {}}, {call.scores, call.keys});
      mergeRows();
    } else {
      Value firstSplit = b.divide(begin, spec.splitKv), endSplit = b.divideUp(end, spec.splitKv);
      b.loop(firstSplit, endSplit, 1, [&, begin = begin, end = end](Value split) {
        Value splitBegin = b.mul(split, spec.splitKv), splitEnd = b.add(splitBegin, spec.splitKv);
        emitter.attendSplit(tile, {b.max(begin, splitBegin), b.min(end, splitEnd), pages}, {call.positions, {}});
        mergeRows();
      });
    }
    emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
      Value to = outputRow(b, spec, call.out, call.outStride, stepRow(b, tile, token), b.add(tile.firstHead, head));
      emitter.storeOutput(emitter.totalState(row), to);
    });
  });
  emitter.finish();
  func::ReturnOp::create(b);
  return function;
}

func::FuncOp heddle::buildAttentionSplit(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                         const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  unsigned form = spec.positions.kind ? AttentionSplitCall::Positions : 0;
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<AttentionSplitCall>(b.getContext(), form));
  auto call = argumentsOf<AttentionSplitCall>(function, form);
  SplitStates states{call.outputs, call.maxima, call.sums, call.maxSplits};
  Value thread = b.extend(call.thread), numThreads = b.extend(call.numThreads);

  AttentionTile emitter(b, spec, target);
  emitter.allocate();
  auto count = [&](const SequenceValues &sequence) { return b.divideUp(sequence.length, spec.splitKv); };
  forEachSplit(b, emitter, call.sequences, call.numSequences, thread, numThreads, count,
               [&](const TileValues &tile, Value split) {
                 auto [begin, end] = emitter.visibleKeys(tile.sequence, tile.firstToken, tile.numTokens);
                 Value splitBegin = b.mul(split, spec.splitKv), splitEnd = b.add(splitBegin, spec.splitKv);
                 Value firstKey = b.max(begin, splitBegin), endKey = b.min(end, splitEnd);
                 b.ifThen(b.lessThan(firstKey, endKey), [&] {
                   emitter.loadQueries(tile, emitter.stepQueries(tile, call.q, call.qStride));
                   emitter.loadPositions(tile, call.positions);
                   emitter.attendSplit(tile, {firstKey, endKey, emitter.pages(tile, call.kOffset, call.vOffset)},
                                       {call.positions, {}});
                   emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
                     emitter.reduceSum(row);
                     Value inStep = stepRow(b, tile, token);
                     emitter.copyState(splitStateOf(b, spec, states, inStep, split, b.add(tile.firstHead, head)),
                                       emitter.splitState(row));
                   });
                 });
               });
  emitter.finish();
  func::ReturnOp::create(b);
  return function;
}

namespace {

class OnlineAttention : public KernelEmitterOf<OnlineAttentionOp> {
public:
  explicit OnlineAttention(const CpuTarget &target) : target(target) {}

  // A block is a part of a page, of groups of four vectors of scores, which the softmax takes at a time.
  bool canEmit(Operation *op, std::string &missing) const override {
    auto attention = dyn_cast<OnlineAttentionOp>(op);
    int64_t block = attention ? attention.getBlockKv() : HEDDLE_KV_PAGE_SIZE;
    if (HEDDLE_KV_PAGE_SIZE % block || block % (4 * int64_t(target.vectorLanes())))
      missing = "in blocks of " + std::to_string(block) + " keys";
    else if (attention && attention.getSplitKv().value_or(0) % HEDDLE_KV_PAGE_SIZE)
      missing = "in splits of " + std::to_string(*attention.getSplitKv()) + " keys";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(OnlineAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(OnlineAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    if (std::string error; failed(verifyAttention(spec, error)))
      return op.emitError(error);
    return oneKernel(module.once(name, [&] {
      return op.getSplitKv() ? buildAttentionSplit(module.code, name, spec, target)
                             : buildAttention(module.code, name, spec, target);
    }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::onlineAttention(const CpuTarget &target) {
  return std::make_unique<OnlineAttention>(target);
}
