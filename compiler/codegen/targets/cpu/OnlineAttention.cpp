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

namespace {

// How the attention of a step is divided among threads. A tile of a sequence's tokens takes the heads in runs (AttentionTile::forEachHead), one by
// one where it has many rows. What is computed side by side changes no row's bits.
class AttentionItems {
public:
  AttentionItems(RawBuilder &b, AttentionTile &emitter, Value sequences, Value numSequences, Value thread,
                 Value numThreads)
      : b(b), emitter(emitter), sequences(sequences), numSequences(numSequences), thread(thread),
        numThreads(numThreads), headTiles(b.constant(emitter.headTiles())) {}

  // `body` for every (tile, run) that is this thread's: item i of the step belongs to thread i mod numThreads, as later tiles see more keys.
  void forEachRun(llvm::function_ref<void(const TileValues &)> body);
  // `body` for every (tile, split, run) that is this thread's. Of all (tile, split, head), of the splits that a row of their sequence sees, each thread
  // has an equal part of neighbours: the page that is asked for behind a split's last is mostly the one that is read next.
  void forEachSplit(int64_t splitKv, llvm::function_ref<void(const TileValues &, Value split)> body);

private:
  // The most heads of a run.
  Value mostHeads(const SequenceValues &sequence);
  // Heads [first, end) of tile number `tile`.
  TileValues runAt(const SequenceValues &sequence, Value tile, Value first, Value end);

  RawBuilder &b;
  AttentionTile &emitter;
  Value sequences, numSequences, thread, numThreads, headTiles;
};

} // namespace

Value AttentionItems::mostHeads(const SequenceValues &sequence) {
  // A sequence may have no rows.
  return emitter.maxHeadTiles(b.max(b.min(b.constant(emitter.tokens()), sequence.numRows), b.constant(1)));
}

TileValues AttentionItems::runAt(const SequenceValues &sequence, Value tile, Value first, Value end) {
  Value token = b.mul(tile, emitter.tokens()), firstHead = b.mul(first, emitter.group());
  TileValues run = {sequence, token, b.min(b.constant(emitter.tokens()), b.sub(sequence.numRows, token)),
                    b.divide(firstHead, emitter.headsPerKvHead()), firstHead};
  if (emitter.takesHeadRuns())
    run.headTiles = b.sub(end, first);
  return run;
}

void AttentionItems::forEachRun(llvm::function_ref<void(const TileValues &)> body) {
  b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange itemsBefore) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    // As many heads as leave each thread a run.
    Value heads = b.min(mostHeads(sequence), b.divideUp(headTiles, numThreads)), runs = b.divideUp(headTiles, heads);
    Value items = b.mul(b.divideUp(sequence.numRows, emitter.tokens()), runs);
    // The first item i of the sequence with (itemsBefore + i) mod numThreads = thread.
    Value ahead = b.remainder(itemsBefore[0], numThreads);
    Value first = b.remainder(b.sub(b.add(thread, numThreads), ahead), numThreads);
    b.loop(first, items, numThreads, [&](Value item) {
      Value head = b.mul(b.remainder(item, runs), heads);
      body(runAt(sequence, b.divide(item, runs), head, b.min(b.add(head, heads), headTiles)));
    });
    return SmallVector<Value>{b.add(itemsBefore[0], items)};
  });
}

void AttentionItems::forEachSplit(int64_t splitKv, llvm::function_ref<void(const TileValues &, Value split)> body) {
  struct Splits {
    Value first, count;
  };
  auto splitsOf = [&](const SequenceValues &sequence) {
    auto [begin, end] = emitter.visibleKeys(sequence, b.constant(0), sequence.numRows);
    Value first = b.divide(begin, splitKv);
    return Splits{first, b.max(b.sub(b.divideUp(end, splitKv), first), b.constant(0))};
  };
  auto forEachSequence =
      [&](llvm::function_ref<void(const SequenceValues &, Splits, Value before, Value count)> visit) {
        return b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange before) {
          SequenceValues sequence = loadSequence(b, sequences, index);
          Splits splits = splitsOf(sequence);
          Value groups = b.mul(b.divideUp(sequence.numRows, emitter.tokens()), splits.count);
          Value count = b.mul(groups, headTiles);
          visit(sequence, splits, before[0], count);
          return SmallVector<Value>{b.add(before[0], count)};
        })[0];
      };
  Value total = forEachSequence([](const SequenceValues &, Splits, Value, Value) {});
  Value begin = b.divide(b.mul(total, thread), numThreads);
  Value end = b.divide(b.mul(total, b.add(thread, 1)), numThreads);
  forEachSequence([&](const SequenceValues &sequence, Splits splits, Value before, Value count) {
    auto inSequence = [&](Value item) { return b.min(b.max(b.sub(item, before), b.constant(0)), count); };
    Value first = inSequence(begin), last = inSequence(end);
    Value heads = mostHeads(sequence);
    // A group is the heads of a tile and a split; of the first and the last, a thread may have a part.
    b.loop(b.divide(first, headTiles), b.divideUp(last, headTiles), 1, [&](Value group) {
      Value before = b.mul(group, headTiles), endHead = b.min(b.sub(last, before), headTiles);
      Value tile = b.divide(group, splits.count), split = b.add(b.remainder(group, splits.count), splits.first);
      b.loop(b.max(b.sub(first, before), b.constant(0)), endHead, heads,
             [&](Value head) { body(runAt(sequence, tile, head, b.min(b.add(head, heads), endHead)), split); });
    });
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
  emitter.allocate(/*forHeadRuns=*/true);
  AttentionItems items(b, emitter, call.sequences, call.numSequences, thread, numThreads);
  items.forEachRun([&](const TileValues &run) {
    emitter.forEachHead(run, [&](const TileValues &tile) {
      emitter.loadQueries(tile, emitter.stepQueries(tile, call.q, call.qStride));
      emitter.loadPositions(tile, call.positions);
      emitter.forEachRow(tile, [&](Value, Value head, Value row) {
        emitter.beginTotal(emitter.totalState(row), b.add(tile.firstHead, head), call.sinks);
      });
    });
    KeyBlocks pages = emitter.pages(run, call.kOffset, call.vOffset);
    auto [begin, end] = emitter.visibleKeys(run.sequence, run.firstToken, run.numTokens);
    auto mergeRows = [&](const TileValues &tile) {
      emitter.forEachRow(tile, [&](Value, Value, Value row) {
        emitter.reduceSum(row);
        emitter.mergeInto(emitter.totalState(row), emitter.splitState(row));
      });
    };
    if (spec.storesScores) {
      emitter.attendStored(run, {begin, end, pages}, {call.positions, {}}, {call.scores, call.keys});
      mergeRows(run);
    } else {
      Value firstSplit = b.divide(begin, spec.splitKv), endSplit = b.divideUp(end, spec.splitKv);
      b.loop(firstSplit, endSplit, 1, [&, begin = begin, end = end](Value split) {
        Value splitBegin = b.mul(split, spec.splitKv), splitEnd = b.add(splitBegin, spec.splitKv);
        emitter.attendSplit(run, {b.max(begin, splitBegin), b.min(end, splitEnd), pages}, {call.positions, {}});
        emitter.forEachHead(run, mergeRows);
      });
    }
    emitter.forEachHead(run, [&](const TileValues &tile) {
      emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
        Value to = outputRow(b, spec, call.out, call.outStride, stepRow(b, tile, token), b.add(tile.firstHead, head));
        emitter.storeOutput(emitter.totalState(row), to);
      });
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
  emitter.allocate(/*forHeadRuns=*/true);
  AttentionItems items(b, emitter, call.sequences, call.numSequences, thread, numThreads);
  items.forEachSplit(spec.splitKv, [&](const TileValues &run, Value split) {
    auto [begin, end] = emitter.visibleKeys(run.sequence, run.firstToken, run.numTokens);
    Value splitBegin = b.mul(split, spec.splitKv), splitEnd = b.add(splitBegin, spec.splitKv);
    Value firstKey = b.max(begin, splitBegin), endKey = b.min(end, splitEnd);
    b.ifThen(b.lessThan(firstKey, endKey), [&] {
      emitter.forEachHead(run, [&](const TileValues &tile) {
        emitter.loadQueries(tile, emitter.stepQueries(tile, call.q, call.qStride));
        emitter.loadPositions(tile, call.positions);
      });
      emitter.attendSplit(run, {firstKey, endKey, emitter.pages(run, call.kOffset, call.vOffset)},
                          {call.positions, {}});
      emitter.forEachHead(run, [&](const TileValues &tile) {
        emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
          emitter.reduceSum(row);
          Value inStep = stepRow(b, tile, token);
          emitter.copyState(splitStateOf(b, spec, states, inStep, split, b.add(tile.firstHead, head)),
                            emitter.splitState(row));
        });
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
