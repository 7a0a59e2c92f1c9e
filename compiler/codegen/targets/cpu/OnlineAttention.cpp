// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/OnlineAttention.h"

#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/SequenceAccess.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);

LogicalResult heddle::verifyAttention(const AttentionSpec &spec, std::string &error) {
  auto fail = [&](const Twine &message) {
    error = message.str();
    return failure();
  };
  if (spec.numHeads < 1 || spec.numKvHeads < 1 || spec.numHeads % spec.numKvHeads)
    return fail("num_heads (" + Twine(spec.numHeads) + ") must be a positive multiple of num_kv_heads (" +
                Twine(spec.numKvHeads) + ")");
  if (spec.headDim < 1 || spec.headDim > 1024 || spec.valueDim() < 1 || spec.valueDim() > 1024)
    return fail("head_dim (" + Twine(spec.headDim) + ", values " + Twine(spec.valueDim()) +
                ") must be between 1 and 1024");
  if (spec.valuesInKeys && spec.valueDim() > spec.headDim)
    return fail("values (" + Twine(spec.valueDim()) + ") in keys must not be wider than these (" + Twine(spec.headDim) +
                ")");
  if (spec.tileHeads < 0 || spec.group() % spec.headsOfTile())
    return fail("tile_heads (" + Twine(spec.tileHeads) + ") must divide the group (" + Twine(spec.group()) + ")");
  if (!std::isfinite(spec.scale) || !std::isfinite(spec.softcap) || spec.softcap < 0)
    return fail("scale must be finite, softcap finite and not negative");
  if (spec.window < 0 || spec.window > INT32_MAX || spec.blockQ < 0 || spec.blockQ > 1024)
    return fail("window (" + Twine(spec.window) + ") must not be negative, block_q (" + Twine(spec.blockQ) +
                ") at most 1024");
  if (spec.products == Products::Bf16 && (spec.kv != KvType::BF16 || spec.headDim % 2))
    return fail("bf16 products need a bf16 cache and an even head_dim (" + Twine(spec.headDim) + ")");
  return success();
}

namespace {
// The parameter types of a kernel, and its arguments in the same order.
class Signature {
public:
  explicit Signature(RawBuilder &b) : b(b) {}
  Signature &pointers(unsigned count) { return append(b.pointerType(), count); }
  Signature &sizes(unsigned count) { return append(b.getI64Type(), count); }
  Signature &threads() { return append(b.getI32Type(), 2); }
  ArrayRef<Type> types() const { return parameters; }

private:
  Signature &append(Type type, unsigned count) {
    parameters.append(count, type);
    return *this;
  }
  RawBuilder &b;
  SmallVector<Type> parameters;
};

// Takes the arguments of a kernel one after another.
struct Arguments {
  RawBuilder &b;
  func::FuncOp function;
  unsigned next = 0;
  Value take() { return function.getArgument(next++); }
  Value takeThread() { return arith::ExtSIOp::create(b, b.getI64Type(), take()); }
};
} // namespace

// `body` for every (token tile, split, head tile) of the step that is this thread's: item i of the step belongs to
// thread i mod numThreads. `splits` is how many items a (token tile, head tile) of the sequence counts for.
static void forEachTile(RawBuilder &b, AttentionTile &emitter, Value sequences, Value numSequences, Value thread,
                        Value numThreads, llvm::function_ref<Value(const SequenceValues &)> splits,
                        llvm::function_ref<void(const TileValues &, Value split)> body) {
  int64_t headTiles = emitter.headTiles();
  b.fold(b.constant(0), numSequences, {b.constant(0)}, [&](Value index, ValueRange itemsBefore) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    Value tiles = b.divideUp(sequence.numRows, emitter.tokens());
    Value splitCount = splits(sequence);
    Value items = b.mul(b.mul(tiles, splitCount), headTiles);
    // The first item i of the sequence with (itemsBefore + i) mod numThreads = thread.
    Value ahead = b.remainder(itemsBefore[0], numThreads);
    Value first = b.remainder(b.sub(b.add(thread, numThreads), ahead), numThreads);
    b.loop(first, items, numThreads, [&](Value item) {
      Value headTile = b.remainder(item, b.constant(headTiles)), rest = b.divide(item, headTiles);
      Value split = b.remainder(rest, splitCount), token = b.mul(b.divide(rest, splitCount), emitter.tokens());
      Value firstHead = b.mul(headTile, emitter.group());
      Value kvHead = b.divide(firstHead, emitter.headsPerKvHead());
      Value count = b.min(b.constant(emitter.tokens()), b.sub(sequence.numRows, token));
      body({sequence, token, count, kvHead, firstHead}, split);
    });
    return SmallVector<Value>{b.add(itemsBefore[0], items)};
  });
}

static Value stepRow(RawBuilder &b, const TileValues &tile, Value token) {
  return b.add(b.add(tile.sequence.firstRow, tile.firstToken), token);
}

static RowState splitState(RawBuilder &b, const AttentionSpec &spec, const SplitStates &states, Value stepRow,
                           Value split, Value head) {
  Value index = b.add(b.mul(b.add(b.mul(stepRow, states.maxSplits), split), spec.numHeads), head);
  return {b.at(states.maxima, index, floatBytes), b.at(states.sums, index, floatBytes),
          b.at(states.outputs, index, spec.valueDim() * floatBytes)};
}

static Value outputRow(RawBuilder &b, const AttentionSpec &spec, Value out, Value outStride, Value row, Value head) {
  return b.at(out, b.add(b.mul(row, outStride), b.mul(head, spec.valueDim())), floatBytes);
}

func::FuncOp heddle::buildAttention(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                    const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  Signature signature(b);
  signature.pointers(3).sizes(5).pointers(spec.hasAlibiSlopes ? 2 : 1);
  if (spec.storesScores)
    signature.pointers(1).sizes(1);
  signature.threads();
  func::FuncOp function = beginFunction(b, module, name, signature.types());
  Arguments arguments{b, function};
  Value q = arguments.take(), out = arguments.take(), sequences = arguments.take(), numSequences = arguments.take();
  Value kOffset = arguments.take(), vOffset = arguments.take(), qStride = arguments.take();
  Value outStride = arguments.take(), sinks = arguments.take();
  Value slopes = spec.hasAlibiSlopes ? arguments.take() : Value();
  StoredScores stored;
  if (spec.storesScores)
    stored = {arguments.take(), arguments.take()};
  Value thread = arguments.takeThread(), numThreads = arguments.takeThread();

  AttentionTile emitter(b, spec, target);
  emitter.allocate();
  auto one = [&](const SequenceValues &) { return b.constant(1); };
  forEachTile(b, emitter, sequences, numSequences, thread, numThreads, one, [&](const TileValues &tile, Value) {
    emitter.loadQueries(tile, emitter.stepQueries(tile, q, qStride));
    KeyBlocks pages = emitter.pages(tile, kOffset, vOffset);
    emitter.forEachRow(tile, [&](Value, Value head, Value row) {
      emitter.beginTotal(emitter.totalState(row), b.add(tile.firstHead, head), sinks);
    });
    auto [begin, end] = emitter.visibleKeys(tile.sequence, tile.firstToken, tile.numTokens);
    auto mergeRows = [&] {
      emitter.forEachRow(tile, [&](Value, Value, Value row) {
        emitter.reduceSum(row);
        emitter.mergeInto(emitter.totalState(row), emitter.splitState(row));
      });
    };
    if (spec.storesScores) {
      emitter.attendStored(tile, {begin, end, pages}, {slopes, {}}, stored);
      mergeRows();
    } else {
      Value firstSplit = b.divide(begin, attentionSplitTokens), endSplit = b.divideUp(end, attentionSplitTokens);
      b.loop(firstSplit, endSplit, 1, [&, begin = begin, end = end](Value split) {
        Value splitBegin = b.mul(split, attentionSplitTokens), splitEnd = b.add(splitBegin, attentionSplitTokens);
        emitter.attendSplit(tile, {b.max(begin, splitBegin), b.min(end, splitEnd), pages}, {slopes, {}});
        mergeRows();
      });
    }
    emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
      Value to = outputRow(b, spec, out, outStride, stepRow(b, tile, token), b.add(tile.firstHead, head));
      emitter.storeOutput(emitter.totalState(row), to);
    });
  });
  func::ReturnOp::create(b);
  return function;
}

func::FuncOp heddle::buildAttentionSplit(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                         const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  Signature signature(b);
  signature.pointers(5).sizes(5).pointers(spec.hasAlibiSlopes ? 1 : 0).threads();
  func::FuncOp function = beginFunction(b, module, name, signature.types());
  Arguments arguments{b, function};
  Value q = arguments.take();
  SplitStates states{arguments.take(), arguments.take(), arguments.take(), Value()};
  Value sequences = arguments.take(), numSequences = arguments.take(), kOffset = arguments.take(),
        vOffset = arguments.take();
  Value qStride = arguments.take();
  states.maxSplits = arguments.take();
  Value slopes = spec.hasAlibiSlopes ? arguments.take() : Value();
  Value thread = arguments.takeThread(), numThreads = arguments.takeThread();

  AttentionTile emitter(b, spec, target);
  emitter.allocate();
  auto count = [&](const SequenceValues &sequence) { return b.divideUp(sequence.length, attentionSplitTokens); };
  forEachTile(b, emitter, sequences, numSequences, thread, numThreads, count, [&](const TileValues &tile, Value split) {
    auto [begin, end] = emitter.visibleKeys(tile.sequence, tile.firstToken, tile.numTokens);
    Value splitBegin = b.mul(split, attentionSplitTokens), splitEnd = b.add(splitBegin, attentionSplitTokens);
    Value firstKey = b.max(begin, splitBegin), endKey = b.min(end, splitEnd);
    b.ifThen(b.lessThan(firstKey, endKey), [&] {
      emitter.loadQueries(tile, emitter.stepQueries(tile, q, qStride));
      emitter.attendSplit(tile, {firstKey, endKey, emitter.pages(tile, kOffset, vOffset)}, {slopes, {}});
      emitter.forEachRow(tile, [&](Value token, Value head, Value row) {
        emitter.reduceSum(row);
        Value inStep = stepRow(b, tile, token);
        emitter.copyState(splitState(b, spec, states, inStep, split, b.add(tile.firstHead, head)),
                          emitter.splitState(row));
      });
    });
  });
  func::ReturnOp::create(b);
  return function;
}

func::FuncOp heddle::buildCombineSplits(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                        const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  Signature signature(b);
  signature.pointers(5).sizes(3).pointers(1).threads();
  func::FuncOp function = beginFunction(b, module, name, signature.types());
  Arguments arguments{b, function};
  SplitStates states{arguments.take(), arguments.take(), arguments.take(), Value()};
  Value out = arguments.take(), sequences = arguments.take(), numSequences = arguments.take();
  Value outStride = arguments.take();
  states.maxSplits = arguments.take();
  Value sinks = arguments.take(), thread = arguments.takeThread(), numThreads = arguments.takeThread();

  AttentionTile emitter(b, spec, target);
  RowState total{b.stackScratch(floatBytes), b.stackScratch(floatBytes),
                 b.stackScratch(llvm::alignTo(spec.valueDim(), 16) * floatBytes)};
  b.loop(b.constant(0), numSequences, 1, [&](Value index) {
    SequenceValues sequence = loadSequence(b, sequences, index);
    // Item (token, head) of a sequence belongs to thread item mod numThreads.
    b.loop(thread, b.mul(sequence.numRows, spec.numHeads), numThreads, [&](Value item) {
      Value token = b.divide(item, spec.numHeads), head = b.remainder(item, b.constant(spec.numHeads));
      Value row = b.add(sequence.firstRow, token);
      emitter.beginTotal(total, head, sinks);
      // Splits that this row sees nothing of have no state or an empty one, which would change nothing.
      auto [begin, end] = emitter.visibleKeys(sequence, token, b.constant(1));
      b.loop(b.divide(begin, attentionSplitTokens), b.divideUp(end, attentionSplitTokens), 1,
             [&](Value split) { emitter.mergeInto(total, splitState(b, spec, states, row, split, head)); });
      emitter.storeOutput(total, outputRow(b, spec, out, outStride, row, head));
    });
  });
  func::ReturnOp::create(b);
  return function;
}
