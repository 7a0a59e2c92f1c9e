// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over the cache: whole, in splits that are merged, or over latents.

#include "compiler/codegen/host/HostFunction.h"

#include "compiler/codegen/SequenceAccess.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

std::pair<Value, Value> HostFunction::planes(KvCacheType cache, Value layer) {
  Value key = b.mul(scalars.lookup(layer), cache.getLayerBytes());
  return {key, b.add(key, cache.getPlaneBytes())};
}

LogicalResult HostFunction::lowerAttention(OnlineAttentionOp op) {
  if (op.getSplitKv())
    return lowerSplitAttention(op);
  FailureOr<func::FuncOp> kernel = kernels.attention(op);
  if (failed(kernel))
    return failure();
  auto query = cast<MemRefType>(op.getQuery().getType()), output = cast<MemRefType>(op.getInits()[0].getType());
  auto [key, value] = planes(op.getCache().getType(), op.getLayer());
  SmallVector<Value> arguments = {pointerOf(op.getQuery()),
                                  pointerOf(op.getInits()[0]),
                                  field(offsetof(heddle_step, sequences), b.pointerType()),
                                  field(offsetof(heddle_step, num_sequences), b.getI64Type()),
                                  key,
                                  value,
                                  b.constant(rowStride(query)),
                                  b.constant(rowStride(output)),
                                  op.getSinks() ? pointerOf(op.getSinks()) : null()};
  if (op.storesScores()) {
    Value scores = op.getInits()[1];
    arguments.append({pointerOf(scores), b.constant(rowStride(cast<MemRefType>(scores.getType())) / op.getNumHeads())});
  }
  arguments.append({thread, numThreads});
  launch(op, *kernel, arguments);
  finishKernel();
  return success();
}

// Splits that buffers of (max_rows, splits * num_heads) have room for.
static int64_t maxSplits(Value maxima, int64_t numHeads) {
  return cast<MemRefType>(maxima.getType()).getDimSize(1) / numHeads;
}

LogicalResult HostFunction::lowerSplitAttention(OnlineAttentionOp op) {
  FailureOr<func::FuncOp> kernel = kernels.attention(op);
  if (failed(kernel))
    return failure();
  auto query = cast<MemRefType>(op.getQuery().getType());
  auto [key, value] = planes(op.getCache().getType(), op.getLayer());
  OperandRange states = op.getInits(); // outputs, maxima, sums
  launch(op, *kernel,
         {pointerOf(op.getQuery()), pointerOf(states[0]), pointerOf(states[1]), pointerOf(states[2]),
          field(offsetof(heddle_step, sequences), b.pointerType()),
          field(offsetof(heddle_step, num_sequences), b.getI64Type()), key, value, b.constant(rowStride(query)),
          b.constant(maxSplits(states[1], op.getNumHeads())), thread, numThreads});
  finishKernel();
  return success();
}

LogicalResult HostFunction::lowerCombine(CombineSplitsOp op) {
  FailureOr<func::FuncOp> kernel = kernels.combineSplits(op);
  if (failed(kernel))
    return failure();
  auto output = cast<MemRefType>(op.getInits()[0].getType());
  launch(op, *kernel,
         {pointerOf(op.getOutputs()), pointerOf(op.getMaxima()), pointerOf(op.getSums()), pointerOf(op.getInits()[0]),
          field(offsetof(heddle_step, sequences), b.pointerType()),
          field(offsetof(heddle_step, num_sequences), b.getI64Type()), b.constant(rowStride(output)),
          b.constant(maxSplits(op.getMaxima(), op.getNumHeads())), op.getSinks() ? pointerOf(op.getSinks()) : null(),
          thread, numThreads});
  finishKernel();
  return success();
}

LogicalResult HostFunction::lowerLatentAttention(OnlineLatentAttentionOp op) {
  FailureOr<KernelLibrary::LatentKernels> kernel = kernels.latentAttention(op);
  if (failed(kernel))
    return failure();
  auto first = [&](OperandRange ups) { return ups.empty() ? null() : pointerOf(ups.front()); };
  auto query = cast<MemRefType>(op.getQuery().getType()), output = cast<MemRefType>(op.getInits()[0].getType());
  SmallVector<Value> arguments = {pointerOf(op.getQuery()),
                                  pointerOf(op.getInits()[0]),
                                  pointerOf(op.getInits()[1]),
                                  first(op.getKeyUps()),
                                  op.getKeyFolds() ? pointerOf(op.getKeyFolds()) : null(),
                                  first(op.getValueUps()),
                                  field(offsetof(heddle_step, sequences), b.pointerType()),
                                  field(offsetof(heddle_step, num_sequences), b.getI64Type()),
                                  planes(op.getCache().getType(), op.getLayer()).first,
                                  b.constant(rowStride(query)),
                                  b.constant(rowStride(output)),
                                  field(offsetof(heddle_step, fixed_forms), b.getI64Type()),
                                  thread,
                                  numThreads};
  for (func::FuncOp body : {kernel->fold, kernel->attend, kernel->project, kernel->rebuild})
    if (body) {
      launch(op, body, arguments);
      finishKernel();
    }
  return success();
}

// Every thread comes to the same answer.
LogicalResult HostFunction::lowerPreference(PreferSplitsOp op) {
  Value sequences = field(offsetof(heddle_step, sequences), b.pointerType());
  Value count = field(offsetof(heddle_step, num_sequences), b.getI64Type());
  Value longest = b.fold(b.constant(0), count, {b.constant(0)}, [&](Value index, ValueRange longest) {
    return SmallVector<Value>{b.max(longest[0], loadSequence(b, sequences, index).length)};
  })[0];
  Value threads = arith::ExtSIOp::create(b, b.getI64Type(), numThreads);
  Value items = b.mul(count, op.getCache().getType().getNumKvHeads());
  Value answer = b.lessThan(scalars.lookup(op.getRows()), b.constant(op.getMaxRows() + 1));
  for (Value condition : {b.lessThan(b.constant(op.getSplitKv()), longest), b.lessThan(b.constant(1), threads),
                          b.lessThan(items, b.mul(threads, op.getItemsPerThread()))})
    answer = arith::AndIOp::create(b, answer, condition);
  scalars[op] = answer;
  return success();
}

// All threads take the same side, so barriers may stand in it.
LogicalResult HostFunction::lowerBranch(scf::IfOp op) {
  if (op.getNumResults())
    return op.emitError("a branch on buffers has no results");
  LogicalResult result = success();
  auto side = [&](Region &region, Value isTaken) {
    b.ifThen(isTaken, [&] {
      for (Operation &inner : region.getOps())
        if (succeeded(result))
          result = lower(&inner);
    });
  };
  Value condition = scalars.lookup(op.getCondition());
  side(op.getThenRegion(), condition);
  if (!op.getElseRegion().empty())
    side(op.getElseRegion(), arith::XOrIOp::create(b, condition, arith::ConstantOp::create(b, b.getBoolAttr(true))));
  return result;
}
