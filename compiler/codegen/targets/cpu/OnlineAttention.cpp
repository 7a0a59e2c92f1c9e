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

// How the attention of a step is divided: an item is a tile of a sequence's tokens, a run of heads (AttentionTile::forEachHead) and a split of the
// keys. Tiles of many rows take heads one by one. What is computed side by side changes no row's bits.
class AttentionItems {
public:
  AttentionItems(RawBuilder &b, AttentionTile &emitter, Value sequences, Value numSequences, Value thread,
                 Value numThreads)
      : b(b), emitter(emitter), sequences(sequences), numSequences(numSequences), thread(thread),
        numThreads(numThreads) {}

  // `body` for every (tile, run) that is this thread's: item i of the step belongs to thread i mod numThreads, as later tiles see more keys.
  void forEachRun(llvm::function_ref<void(const TileValues &)> body);
  // `body` for every (tile, run, split) that is this thread's, where a sequence has `splits`: an equal part of neighbours each, so that the page
  // that is asked for behind a split's last is the one that is read next.
  void forEachSplit(llvm::function_ref<Value(const SequenceValues &)> splits,
                    llvm::function_ref<void(const TileValues &, Value split)> body);

private:
  // Of a sequence: heads of a run, runs, and items.
  struct Plan {
    Value heads, runs, items;
  };
  Plan plan(const SequenceValues &sequence, Value splits);
  TileValues runAt(const SequenceValues &sequence, const Plan &plan, Value index);

  RawBuilder &b;
  AttentionTile &emitter;
  Value sequences, numSequences, thread, numThreads;
};

} // namespace

// As many heads as leave each thread a run.
AttentionItems::Plan AttentionItems::plan(const SequenceValues &sequence, Value splits) {
  Value tokens = b.constant(emitter.tokens()), headTiles = b.constant(emitter.headTiles()), one = b.constant(1);
  auto divideUp = [&](Value a, Value by) { return b.divide(b.add(a, b.sub(by, one)), by); };
  Plan plan = {one, headTiles, Value()};
  if (emitter.takesHeadRuns()) {
    // A sequence may have no rows, or no keys.
    Value ofThread = b.max(divideUp(b.mul(headTiles, splits), numThreads), one);
    Value most = b.min(emitter.maxHeadTiles(b.max(b.min(tokens, sequence.numRows), one)), ofThread);
    plan.runs = divideUp(headTiles, most);
    plan.heads = divideUp(headTiles, plan.runs);
    plan.runs = divideUp(headTiles, plan.heads);
  }
  plan.items = b.mul(b.mul(b.divideUp(sequence.numRows, emitter.tokens()), plan.runs), splits);
  return plan;
}

TileValues AttentionItems::runAt(const SequenceValues &sequence, const Plan &plan, Value index) {
  Value token = b.mul(b.divide(index, plan.runs), emitter.tokens());
  Value headTile = b.mul(b.remainder(index, plan.runs), plan.heads);
  Value firstHead = b.mul(headTile, emitter.group());
  TileValues run = {sequence, token, b.min(b.constant(emitter.tokens()), b.sub(sequence.numRows, token)),
                    b.divide(firstHead, emitter.headsPerKvHead()), firstHead};
  if (emitter.takesHeadRuns())
    run.headTiles = b.min(plan.heads, b.sub(b.constant(emitter.headTiles()), headTile));
  return run;
}

void AttentionItems::forEachRun(llvm::function_ref<void(const TileValues &)> body) {
  b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange itemsBefore) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    Plan plan = this->plan(sequence, b.constant(1));
    // The first item i of the sequence with (itemsBefore + i) mod numThreads = thread.
    Value ahead = b.remainder(itemsBefore[0], numThreads);
    Value first = b.remainder(b.sub(b.add(thread, numThreads), ahead), numThreads);
    b.loop(first, plan.items, numThreads, [&](Value item) { body(runAt(sequence, plan, item)); });
    return SmallVector<Value>{b.add(itemsBefore[0], plan.items)};
  });
}

void AttentionItems::forEachSplit(llvm::function_ref<Value(const SequenceValues &)> splits,
                                  llvm::function_ref<void(const TileValues &, Value split)> body) {
  auto forEachSequence = [&](llvm::function_ref<void(const SequenceValues &, const Plan &, Value before)> visit) {
    return b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange before) {
      SequenceValues sequence = loadSequence(b, sequences, index);
      Plan plan = this->plan(sequence, splits(sequence));
      visit(sequence, plan, before[0]);
      return SmallVector<Value>{b.add(before[0], plan.items)};
    })[0];
  };
  Value total = forEachSequence([](const SequenceValues &, const Plan &, Value) {});
  Value begin = b.divide(b.mul(total, thread), numThreads);
  Value end = b.divide(b.mul(total, b.add(thread, 1)), numThreads);
  forEachSequence([&](const SequenceValues &sequence, const Plan &plan, Value before) {
    Value first = b.max(b.sub(begin, before), b.constant(0)), last = b.min(b.sub(end, before), plan.items);
    Value count = splits(sequence);
    b.loop(first, last, 1,
           [&](Value item) { body(runAt(sequence, plan, b.divide(item, count)), b.remainder(item, count)); });
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
  auto count = [&](const SequenceValues &sequence) { return b.divideUp(sequence.length, spec.splitKv); };
  items.forEachSplit(count, [&](const TileValues &run, Value split) {
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
