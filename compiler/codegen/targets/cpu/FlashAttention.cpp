// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An item is a tile of queries of the heads that share a KV head. Items of one KV head follow each other, and a thread takes items
// that follow each other: it finds keys and values in its cache. Tiles are made equal, so that threads are.

#include "compiler/codegen/targets/cpu/FlashAttention.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);

namespace {

class FlashAttentionEmitter {
public:
  FlashAttentionEmitter(RawBuilder &b, const FlashAttentionCall &call, const AttentionSpec &spec,
                        const CpuTarget &target)
      : b(b), call(call), spec(spec), tile(b, spec, target) {}
  void emit();

private:
  // Strides in bytes.
  struct Strides {
    Value batch, head, row;
  };
  Strides strides(Value batch, Value head, Value row, int64_t element);
  Value at(Value base, const Strides &strides, Value head, Value row);
  RowPlaces places(Value base, const Strides &strides, const TileValues &values);
  KeyBlocks blocks(const TileValues &values);
  void emitItem(Value item);
  void attend(const TileValues &values);

  RawBuilder &b;
  const FlashAttentionCall &call;
  const AttentionSpec &spec;
  AttentionTile tile;
  Value biasKeyBytes;
  Strides queryStrides, keyStrides, valueStrides, outStrides, biasStrides;
  Value batch;            // of the item
  Value tokens, numTiles; // of a tile, and of the queries
};

} // namespace

FlashAttentionEmitter::Strides FlashAttentionEmitter::strides(Value batch, Value head, Value row, int64_t element) {
  return {b.mul(batch, element), b.mul(head, element), b.mul(row, element)};
}

// Row `row` of `head` of the item's batch entry.
Value FlashAttentionEmitter::at(Value base, const Strides &strides, Value head, Value row) {
  Value bytes = b.add(b.mul(batch, strides.batch), b.mul(head, strides.head));
  return b.at(base, b.add(bytes, b.mul(row, strides.row)));
}

RowPlaces FlashAttentionEmitter::places(Value base, const Strides &strides, const TileValues &values) {
  return {at(base, strides, values.firstHead, values.firstToken), strides.row, strides.head};
}

KeyBlocks FlashAttentionEmitter::blocks(const TileValues &values) {
  Value zero = b.constant(0), headKeys = at(call.key, keyStrides, values.kvHead, zero),
        headValues = at(call.value, valueStrides, values.kvHead, zero);
  auto find = [this, headKeys, headValues](Value index) {
    Value token = b.mul(index, tile.blockKeys());
    return std::make_pair(b.at(headKeys, b.mul(token, keyStrides.row)),
                          b.at(headValues, b.mul(token, valueStrides.row)));
  };
  return {find, keyStrides.row, valueStrides.row};
}

void FlashAttentionEmitter::emit() {
  // setup
  queryStrides = strides(call.queryBatch, call.queryHead, call.queryRow, kvBytes(spec.rows));
  keyStrides = strides(call.keyBatch, call.keyHead, call.keyRow, kvBytes(spec.kv));
  valueStrides = strides(call.valueBatch, call.valueHead, call.valueRow, kvBytes(spec.kv));
  outStrides = strides(call.outBatch, call.outHead, call.outRow, kvBytes(spec.rows));
  biasStrides = strides(call.biasBatch, call.biasHead, call.biasRow, floatBytes);
  biasKeyBytes = b.mul(call.biasKey, floatBytes);
  Value thread = b.extend(call.thread), numThreads = b.extend(call.numThreads), queries = call.queries;
  tile.allocate();
  // The fewest tiles, of as many tokens each as make whole blocks of rows.
  Value fewest = b.max(b.divideUp(queries, tile.tokens()), b.constant(1));
  Value even = b.divide(b.add(queries, b.sub(fewest, b.constant(1))), fewest);
  tokens = b.max(b.mul(b.divideUp(even, tile.tokenStep()), tile.tokenStep()), b.constant(1));
  tokens = b.min(tokens, b.constant(tile.tokens()));
  numTiles = b.divide(b.add(queries, b.sub(tokens, b.constant(1))), tokens);
  // compute
  Value items = b.mul(b.mul(call.batch, tile.headTiles()), numTiles);
  Value begin = b.divide(b.mul(items, thread), numThreads), end = b.divide(b.mul(items, b.add(thread, 1)), numThreads);
  b.loop(begin, end, 1, [&](Value item) { emitItem(item); });
}

void FlashAttentionEmitter::emitItem(Value item) {
  Value heads = b.constant(tile.headTiles()), rest = b.divide(item, numTiles);
  batch = b.divide(rest, heads);
  TileValues values;
  values.sequence.numRows = call.queries;
  values.sequence.length = call.keys;
  values.sequence.past = b.sub(call.keys, call.queries);
  values.firstToken = b.mul(b.remainder(item, numTiles), tokens);
  values.numTokens = b.min(tokens, b.sub(call.queries, values.firstToken));
  values.firstHead = b.mul(b.remainder(rest, heads), tile.group());
  values.kvHead = b.divide(values.firstHead, tile.headsPerKvHead());
  attend(values);
}

void FlashAttentionEmitter::attend(const TileValues &values) {
  tile.loadQueries(values, places(call.query, queryStrides, values));
  tile.forEachRow(values, [&](Value, Value head, Value row) {
    tile.beginTotal(tile.totalState(row), b.add(values.firstHead, head), call.sinks);
  });
  ScoreTerms terms;
  if (spec.hasBias)
    terms = {Value(), places(call.bias, biasStrides, values), biasKeyBytes};
  KeyBlocks found = blocks(values);
  auto [begin, end] = tile.visibleKeys(values.sequence, values.firstToken, values.numTokens);
  Value firstSplit = b.divide(begin, spec.splitKv), endSplit = b.divideUp(end, spec.splitKv);
  b.loop(firstSplit, endSplit, 1, [&, begin = begin, end = end](Value split) {
    Value splitBegin = b.mul(split, spec.splitKv), splitEnd = b.add(splitBegin, spec.splitKv);
    tile.attendSplit(values, {b.max(begin, splitBegin), b.min(end, splitEnd), found}, terms);
    tile.forEachRow(values, [&](Value, Value, Value row) {
      tile.reduceSum(row);
      tile.mergeInto(tile.totalState(row), tile.splitState(row));
    });
  });
  RowPlaces to = places(call.out, outStrides, values);
  tile.forEachRow(values, [&](Value token, Value head, Value row) {
    Value bytes = b.add(b.mul(token, to.tokenBytes), b.mul(head, to.headBytes));
    tile.storeOutput(tile.totalState(row), b.at(to.base, bytes));
  });
}

func::FuncOp heddle::buildFlashAttention(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                         const CpuTarget &target) {
  AttentionSpec dense = spec;
  dense.isDense = true;
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<FlashAttentionCall>(b.getContext()));
  auto call = argumentsOf<FlashAttentionCall>(function);
  FlashAttentionEmitter(b, call, dense, target).emit();
  func::ReturnOp::create(b);
  return function;
}

namespace {

class FlashAttention : public KernelEmitterOf<FlashAttentionOp> {
public:
  explicit FlashAttention(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(FlashAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(FlashAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    return oneKernel(module.once(name, [&] { return buildFlashAttention(module.code, name, spec, target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::flashAttention(const CpuTarget &target) {
  return std::make_unique<FlashAttention>(target);
}
