// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An item is a tile of queries of the heads that share a KV head. Items of one KV head follow each other, and a thread takes items
// that follow each other: it finds keys and values in its cache. Tiles are made equal, so that threads are. Sequences of a ragged batch
// are batches of one, one after the other, whose items are counted through.

#include "compiler/codegen/targets/cpu/FlashAttention.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);

namespace {

class FlashAttentionEmitter {
public:
  FlashAttentionEmitter(RawBuilder &b, const AttentionSpec &spec, const CpuTarget &target)
      : b(b), spec(spec), tile(b, spec, target) {}
  void emit(const FlashAttentionCall &whole);
  void emitSequences(const RaggedAttentionCall &batch);

private:
  // Strides in bytes.
  struct Strides {
    Value batch, head, row;
  };
  Strides strides(Value batch, Value head, Value row, int64_t element);
  void begin();
  // This thread's [begin, end) of `items` that follow each other.
  std::pair<Value, Value> share(Value items, Value thread, Value numThreads);
  // Divides the queries of the call into tiles; how many items they are.
  Value planTiles();
  // The call that attends to sequence `index` alone.
  void enterSequence(const RaggedAttentionCall &batch, Value index);
  Value at(Value base, const Strides &strides, Value head, Value row);
  RowPlaces places(Value base, const Strides &strides, const TileValues &values);
  KeyBlocks blocks();
  void emitItem(Value item);
  // Tokens [first, second) of the tile of the sequence: from its first global token to its last.
  std::pair<Value, Value> globalTokens(const TileValues &values);
  Value isGlobal(Value token);
  void attend(const TileValues &values);

  RawBuilder &b;
  FlashAttentionCall call;
  const AttentionSpec &spec;
  AttentionTile tile;
  Value biasKeyBytes;
  Value positions;  // the table of RaggedAttentionCall, or what the sequence's tokens give
  Value tokenBytes; // from what a token gives to the next one's
  Value globals;    // of the sequence
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

KeyBlocks FlashAttentionEmitter::blocks() {
  Value zero = b.constant(0);
  auto find = [this, zero](Value index, Value kvHead) {
    Value headKeys = at(call.key, keyStrides, kvHead, zero), headValues = at(call.value, valueStrides, kvHead, zero);
    Value token = b.mul(index, tile.blockKeys());
    return std::make_pair(b.at(headKeys, b.mul(token, keyStrides.row)),
                          b.at(headValues, b.mul(token, valueStrides.row)));
  };
  return {find, keyStrides.row, valueStrides.row};
}

void FlashAttentionEmitter::begin() {
  queryStrides = strides(call.queryBatch, call.queryHead, call.queryRow, kvBytes(spec.rows));
  keyStrides = strides(call.keyBatch, call.keyHead, call.keyRow, kvBytes(spec.kv));
  valueStrides = strides(call.valueBatch, call.valueHead, call.valueRow, kvBytes(spec.kv));
  outStrides = strides(call.outBatch, call.outHead, call.outRow, kvBytes(spec.rows));
  biasStrides = strides(call.biasBatch, call.biasHead, call.biasRow, floatBytes);
  biasKeyBytes = b.mul(call.biasKey, floatBytes);
  tile.allocate();
}

std::pair<Value, Value> FlashAttentionEmitter::share(Value items, Value thread, Value numThreads) {
  Value index = b.extend(thread), count = b.extend(numThreads);
  return {b.divide(b.mul(items, index), count), b.divide(b.mul(items, b.add(index, 1)), count)};
}

// The fewest tiles, of as many tokens each as make whole blocks of rows.
Value FlashAttentionEmitter::planTiles() {
  Value queries = call.queries;
  Value fewest = b.max(b.divideUp(queries, tile.tokens()), b.constant(1));
  Value even = b.divide(b.add(queries, b.sub(fewest, b.constant(1))), fewest);
  tokens = b.max(b.mul(b.divideUp(even, tile.tokenStep()), tile.tokenStep()), b.constant(1));
  tokens = b.min(tokens, b.constant(tile.tokens()));
  numTiles = b.divide(b.add(queries, b.sub(tokens, b.constant(1))), tokens);
  return b.mul(b.mul(call.batch, tile.headTiles()), numTiles);
}

void FlashAttentionEmitter::emit(const FlashAttentionCall &whole) {
  call = whole;
  begin();
  auto [first, last] = share(planTiles(), call.thread, call.numThreads);
  b.loop(first, last, 1, [&](Value item) { emitItem(item); });
}

void FlashAttentionEmitter::enterSequence(const RaggedAttentionCall &batch, Value index) {
  Value place = b.at(batch.sequences, index, 2 * sizeof(int32_t));
  Value first = b.loadIndex(place), rows = b.loadIndex(b.at(place, sizeof(int32_t)));
  call.query = b.at(batch.query, b.mul(first, queryStrides.row));
  call.key = b.at(batch.key, b.mul(first, keyStrides.row));
  call.value = b.at(batch.value, b.mul(first, valueStrides.row));
  call.out = b.at(batch.out, b.mul(first, outStrides.row));
  call.queries = call.keys = rows;
  if (tokenBytes)
    positions = b.at(batch.positions, b.mul(first, tokenBytes));
  if (spec.globals != GlobalTokens::None)
    globals = b.at(batch.globals, first, sizeof(int32_t));
}

void FlashAttentionEmitter::emitSequences(const RaggedAttentionCall &batch) {
  // setup
  Value zero = b.constant(0), keyHead = b.constant(spec.headDim), valueHead = b.constant(spec.valueDim());
  call.batch = b.constant(1);
  call.sinks = batch.sinks;
  positions = batch.positions;
  if (spec.positions.kind == PositionSpec::Tokens)
    tokenBytes = b.mul(batch.positionsRow, floatBytes);
  call.queryBatch = call.keyBatch = call.valueBatch = call.outBatch = zero;
  call.queryHead = call.keyHead = keyHead;
  call.valueHead = call.outHead = valueHead;
  call.queryRow = batch.queryRow, call.keyRow = batch.keyRow;
  call.valueRow = batch.valueRow, call.outRow = batch.outRow;
  call.biasBatch = call.biasHead = call.biasRow = call.biasKey = zero;
  begin();
  // compute
  auto countItems = [&](llvm::function_ref<void(Value before, Value items)> body) {
    return b.fold(zero, batch.numSequences, {zero}, [&](Value index, ValueRange before) {
      enterSequence(batch, index);
      Value items = planTiles();
      body(before[0], items);
      return SmallVector<Value>{b.add(before[0], items)};
    })[0];
  };
  auto [first, last] = share(countItems([](Value, Value) {}), batch.thread, batch.numThreads);
  countItems([&, first = first, last = last](Value before, Value items) {
    b.loop(b.max(b.sub(first, before), zero), b.min(b.sub(last, before), items), 1,
           [&](Value item) { emitItem(item); });
  });
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
  values.globals = globals;
  if (spec.globals != GlobalTokens::Queries)
    return attend(values);
  auto [begin, end] = globalTokens(values);
  values.firstToken = begin;
  values.numTokens = b.sub(end, begin);
  b.ifThen(b.lessThan(begin, end), [&] { attend(values); });
}

Value FlashAttentionEmitter::isGlobal(Value token) {
  Value number = b.loadIndex(b.at(globals, token, sizeof(int32_t)));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, number, b.constant(0));
}

std::pair<Value, Value> FlashAttentionEmitter::globalTokens(const TileValues &values) {
  Value first = values.firstToken, end = b.add(first, values.numTokens);
  auto found = b.fold(first, end, {end, first}, [&](Value token, ValueRange range) -> SmallVector<Value> {
    Value isOne = isGlobal(token);
    return {b.select(isOne, b.min(range[0], token), range[0]), b.select(isOne, b.add(token, 1), range[1])};
  });
  return {found[0], found[1]};
}

void FlashAttentionEmitter::attend(const TileValues &values) {
  tile.loadQueries(values, places(call.query, queryStrides, values));
  tile.loadPositions(values, positions);
  tile.forEachRow(values, [&](Value, Value head, Value row) {
    tile.beginTotal(tile.totalState(row), b.add(values.firstHead, head), call.sinks);
  });
  ScoreTerms terms{positions, {}};
  terms.tokenBytes = tokenBytes;
  if (spec.hasBias)
    terms = {positions, places(call.bias, biasStrides, values), biasKeyBytes};
  KeyBlocks found = blocks();
  auto [begin, end] = tile.visibleKeys(values.sequence, values.firstToken, values.numTokens);
  if (spec.globals == GlobalTokens::Keys) // which may lie anywhere
    begin = b.constant(0), end = call.keys;
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
    auto store = [&] {
      Value bytes = b.add(b.mul(token, to.tokenBytes), b.mul(head, to.headBytes));
      tile.storeOutput(tile.totalState(row), b.at(to.base, bytes));
    };
    if (spec.globals == GlobalTokens::Queries)
      b.ifThen(isGlobal(b.add(values.firstToken, token)), store);
    else
      store();
  });
}

// The function that is called with a `Call`; `emit` writes its body.
template <typename Call>
static func::FuncOp buildTiled(ModuleOp module, StringRef name, const AttentionSpec &spec, const CpuTarget &target,
                               unsigned form, void (FlashAttentionEmitter::*emit)(const Call &)) {
  AttentionSpec dense = spec;
  dense.isDense = true;
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<Call>(b.getContext(), form));
  FlashAttentionEmitter emitter(b, dense, target);
  (emitter.*emit)(argumentsOf<Call>(function, form));
  func::ReturnOp::create(b);
  return function;
}

func::FuncOp heddle::buildFlashAttention(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                         const CpuTarget &target) {
  return buildTiled<FlashAttentionCall>(module, name, spec, target, 0, &FlashAttentionEmitter::emit);
}

func::FuncOp heddle::buildRaggedAttention(ModuleOp module, StringRef name, const AttentionSpec &spec,
                                          const CpuTarget &target) {
  unsigned form = (spec.positions.kind ? RaggedAttentionCall::Positions : 0) |
                  (spec.globals != GlobalTokens::None ? RaggedAttentionCall::Globals : 0) |
                  (spec.positions.kind == PositionSpec::Tokens ? RaggedAttentionCall::TokenPositions : 0);
  return buildTiled<RaggedAttentionCall>(module, name, spec, target, form, &FlashAttentionEmitter::emitSequences);
}

std::unique_ptr<KernelEmitter> heddle::cpu::flashAttention(const CpuTarget &target) {
  return std::make_unique<TiledAttentionEmitter<FlashAttentionOp>>(target, buildFlashAttention);
}
