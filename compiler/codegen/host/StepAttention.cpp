// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over the cache: whole, in splits that are merged, or over latents; and within the sequences of a batch without one.

#include "compiler/codegen/host/StepLauncher.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

std::pair<Value, Value> StepLauncher::planes(KvCacheType cache, Value layer) {
  Value key = b.add(b.mul(toInteger(b, layer), cache.getLayerBytes()), cache.getBegin());
  return {key, b.add(key, cache.getPlaneBytes())};
}

LogicalResult StepLauncher::lowerAttention(OnlineAttentionOp op) {
  if (op.getSplitKv())
    return lowerSplitAttention(op);
  AttentionCall call;
  call.q = pointer(op.getQuery());
  call.out = pointer(op.getInits()[0]);
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  std::tie(call.kOffset, call.vOffset) = planes(op.getCache().getType(), op.getLayer());
  call.qStride = rowStride(op.getQuery());
  call.outStride = rowStride(op.getInits()[0]);
  call.sinks = pointer(op.getSinks());
  call.positions = pointer(op.getPositions());
  unsigned form = op.getPositions() ? AttentionCall::Positions : 0;
  if (!op.storesScores())
    return launch(op, CallOperands::of(call, form));
  Value scores = op.getInits()[1];
  call.scores = pointer(scores);
  call.keys = b.divide(rowStride(scores), op.getNumHeads());
  return launch(op, CallOperands::of(call, form | AttentionCall::StoredScores));
}

// Splits that buffers of (max_rows, splits * columns) have room for.
static int64_t maxSplits(Value states, int64_t columns) {
  return cast<MemRefType>(states.getType()).getDimSize(1) / columns;
}

LogicalResult StepLauncher::lowerSplitAttention(OnlineAttentionOp op) {
  OperandRange states = op.getInits(); // outputs, maxima, sums
  AttentionSplitCall call;
  call.q = pointer(op.getQuery());
  call.outputs = pointer(states[0]);
  call.maxima = pointer(states[1]);
  call.sums = pointer(states[2]);
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  std::tie(call.kOffset, call.vOffset) = planes(op.getCache().getType(), op.getLayer());
  call.qStride = rowStride(op.getQuery());
  call.maxSplits = b.constant(maxSplits(states[1], op.getNumHeads()));
  call.positions = pointer(op.getPositions());
  return launch(op, CallOperands::of(call, op.getPositions() ? AttentionSplitCall::Positions : 0));
}

LogicalResult StepLauncher::lowerRaggedAttention(RaggedAttentionOp op) {
  RaggedAttentionCall call;
  call.query = pointer(op.getQuery());
  call.key = pointer(op.getKey());
  call.value = pointer(op.getValue());
  call.out = pointer(op.getInits()[0]);
  call.sinks = pointer(op.getSinks());
  call.positions = pointer(op.getPositions());
  call.globals = pointer(op.getGlobals());
  call.sequences = pointer(op.getSequences());
  call.numSequences = numSequences();
  call.queryRow = rowStride(op.getQuery());
  call.keyRow = rowStride(op.getKey());
  call.valueRow = rowStride(op.getValue());
  call.outRow = rowStride(op.getInits()[0]);
  unsigned form =
      (op.getPositions() ? RaggedAttentionCall::Positions : 0) | (op.getGlobals() ? RaggedAttentionCall::Globals : 0);
  if (op.getPositions() && cast<ShapedType>(op.getPositions().getType()).isDynamicDim(0)) {
    call.positionsRow = rowStride(op.getPositions());
    form |= RaggedAttentionCall::TokenPositions;
  }
  return launch(op, CallOperands::of(call, form));
}

LogicalResult StepLauncher::lowerCombine(CombineSplitsOp op) {
  CombineSplitsCall call;
  call.outputs = pointer(op.getOutputs());
  call.maxima = pointer(op.getMaxima());
  call.sums = pointer(op.getSums());
  call.out = pointer(op.getInits()[0]);
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  call.outStride = rowStride(op.getInits()[0]);
  call.maxSplits = b.constant(maxSplits(op.getMaxima(), op.getNumHeads()));
  call.sinks = pointer(op.getSinks());
  return launch(op, CallOperands::of(call));
}

LogicalResult StepLauncher::lowerLatentAttention(OnlineLatentAttentionOp op) {
  auto first = [&](OperandRange ups) { return ups.empty() ? Value() : pointer(ups.front()); };
  LatentAttentionCall call;
  call.q = pointer(op.getQuery());
  call.out = pointer(op.getInits()[0]);
  call.scratch = pointer(op.getInits()[1]);
  call.keyUps = first(op.getKeyUps());
  call.keyFolds = pointer(op.getKeyFolds());
  call.valueUps = first(op.getValueUps());
  call.sequences = sequences(op.getCache().getType());
  call.numSequences = numSequences();
  call.kOffset = planes(op.getCache().getType(), op.getLayer()).first;
  call.qStride = rowStride(op.getQuery());
  call.outStride = rowStride(op.getInits()[0]);
  call.isFixed = isFixed();
  if (!op.getSplitKv())
    return launch(op, CallOperands::of(call));
  Value states = op.getInits()[2]; // of all rows and splits outputs, then maxima, then sums
  LatentDims dims = op.getDims();
  int64_t splits = maxSplits(states, dims.numHeads * (dims.rank + 2));
  int64_t plane = cast<MemRefType>(states.getType()).getDimSize(0) * splits * dims.numHeads * int64_t(sizeof(float));
  call.outputs = pointer(states);
  call.maxima = b.at(call.outputs, plane * dims.rank);
  call.sums = b.at(call.maxima, plane);
  call.maxSplits = b.constant(splits);
  return launch(op, CallOperands::of(call, LatentAttentionCall::Splits));
}

// Every thread comes to the same answer.
LogicalResult StepLauncher::lowerPreference(PreferSplitsOp op) {
  Value all = sequences(op.getCache().getType()), count = numSequences();
  Value longest = b.fold(b.constant(0), count, {b.constant(0)}, [&](Value index, ValueRange longest) {
    return SmallVector<Value>{b.max(longest[0], loadSequence(b, all, index).length)};
  })[0];
  // A device has more threads than anybody counts: its items are compared with what fills it.
  Value threads = target.isDevice() ? b.constant(1) : b.extend(frame.numThreads);
  Value items = b.mul(count, int64_t(op.getItems()));
  Value answer = b.lessThan(toInteger(b, op.getRows()), b.constant(op.getMaxRows() + 1));
  SmallVector<Value> conditions = {b.lessThan(b.constant(op.getSplitKv()), longest),
                                   b.lessThan(items, b.mul(threads, op.getItemsPerThread()))};
  if (!target.isDevice())
    conditions.push_back(b.lessThan(b.constant(1), threads));
  for (Value condition : conditions)
    answer = arith::AndIOp::create(b, answer, condition);
  op.replaceAllUsesWith(answer);
  return success();
}
