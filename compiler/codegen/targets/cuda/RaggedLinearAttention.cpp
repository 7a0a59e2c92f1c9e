// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A column of a head's state is in registers of neighbouring lanes while a sequence's rows go by, up to 32 numbers in each; sums over the key go from
// lane to lane. So blocks wait for nobody, and the bits of a row do not depend on how its sequence is cut into steps.

#include "compiler/codegen/targets/cuda/RaggedLinearAttention.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"
#include "runtime/model/ModelAbi.h"

#include <cmath>
#include <cstddef>

using namespace mlir;
using namespace heddle;

static constexpr int64_t laneNumbers = 32, chains = 4;

// Lanes that share a column: a power of two.
static int64_t lanesOf(const LinearAttentionSpec &spec) {
  return int64_t(llvm::PowerOf2Ceil(llvm::divideCeil(spec.keyDim, laneNumbers)));
}

int64_t heddle::gpuStateColumns(const LinearAttentionSpec &spec) {
  return gpuStateThreads / lanesOf(spec);
}

namespace {

enum Argument : unsigned {
  Query,
  Key,
  Val,
  Out,
  Decay,
  Beta,
  Cache,
  PageTable,
  SequenceRows,
  CachePositions,
  QueryStride,
  KeyStride,
  ValueStride,
  OutStride,
  DecayStride,
  BetaStride,
  StateOffset,
  PageStride,
  PagesPerSequence,
};

class StateEmitter {
public:
  StateEmitter(gpu::GPUModuleOp module, StringRef name, const LinearAttentionSpec &spec)
      : spec(spec), lanes(lanesOf(spec)), numbers(llvm::divideCeil(spec.keyDim, lanes)),
        b(module, name, parameters(module.getContext()), gpuStateThreads, /*sharedBytes=*/0) {}
  gpu::GPUFuncOp emit();

private:
  static SmallVector<Type> parameters(MLIRContext *context) {
    SmallVector<Type> types(QueryStride, GpuBuilder::globalPointer(context));
    types.append(PagesPerSequence - QueryStride, IntegerType::get(context, 64));
    types.push_back(IntegerType::get(context, 32));
    return types;
  }

  Value loadFloat(Value pointer, Value index) { return b.load(b.getF32Type(), b.at(pointer, index, 4)); }
  Value loadInt(Value pointer, Value index) { return b.load(b.getI32Type(), b.at(pointer, index, 4)); }
  Value ofRow(Argument rows, Argument stride, Value row, Value column) {
    return b.at(b.at(b.argument(rows), b.mul(b.wide(row), b.argument(stride)), 4), column, 4);
  }

  // Number i of a lane is the key's column i * lanes + its place; what lies behind the key's last is 0.
  Value keyColumn(int64_t i) { return b.add(part, i * lanes); }
  bool isWhole(int64_t i) const { return (i + 1) * lanes <= spec.keyDim; }
  Value guarded(int64_t i, function_ref<Value()> load) {
    if (isWhole(i))
      return load();
    Value isInside = b.lessThan(keyColumn(i), b.constant(spec.keyDim));
    return b.ifElse(isInside, {b.constantF32(0)}, [&] { return SmallVector<Value>{load()}; }).front();
  }
  SmallVector<Value> loadKey(Value from) {
    SmallVector<Value> key;
    for (int64_t i = 0; i < numbers; ++i)
      key.push_back(guarded(i, [&] { return loadFloat(from, keyColumn(i)); }));
    return key;
  }

  // The column's number of key column `i` in the page of token `position`.
  Value stateAt(Value page, int64_t i) { return b.at(page, b.mul(keyColumn(i), spec.valueDim), 4); }
  Value pageOf(Value position) {
    Value table = b.mul(b.wide(sequence), b.wide(b.argument(PagesPerSequence)));
    Value page = loadInt(b.at(b.argument(PageTable), table, 4), b.divide(position, HEDDLE_KV_PAGE_SIZE));
    Value state =
        b.at(b.at(b.argument(Cache), b.mul(b.wide(page), b.argument(PageStride)), 1), b.argument(StateOffset), 1);
    return b.at(b.at(state, b.mul(b.wide(head), b.wide(b.constant(spec.keyDim * spec.valueDim))), 4), column, 4);
  }

  // Over all of the key: number i in chain i mod 4, chains in pairs, then lanes in pairs, so that each has the same bits.
  Value dot(ArrayRef<Value> x, ValueRange y) {
    SmallVector<Value> sums(chains, b.constantF32(0));
    for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(x, y)))
      sums[i % chains] = b.fma(std::get<0>(pair), std::get<1>(pair), sums[i % chains]);
    Value sum = b.addF(b.addF(sums[0], sums[1]), b.addF(sums[2], sums[3]));
    for (int64_t mask = 1; mask < lanes; mask *= 2)
      sum = b.addF(sum, b.shuffleXor(sum, mask));
    return sum;
  }

  SmallVector<Value> begun(Value past);
  SmallVector<Value> step(Value row, ValueRange before);

  const LinearAttentionSpec &spec;
  const int64_t lanes, numbers;
  GpuBuilder b;
  Value sequence, head, keyHead, part;
  Value column, isMine; // a lane whose column is behind the last computes the last, and stores nothing
};

} // namespace

SmallVector<Value> StateEmitter::begun(Value past) {
  SmallVector<Value> zeros(numbers, b.constantF32(0));
  return b.ifElse(b.lessThan(b.constant(0), past), zeros, [&] {
    Value page = pageOf(b.sub(past, b.constant(1)));
    SmallVector<Value> state;
    for (int64_t i = 0; i < numbers; ++i)
      state.push_back(guarded(i, [&] { return b.load(b.getF32Type(), stateAt(page, i)); }));
    return state;
  });
}

SmallVector<Value> StateEmitter::step(Value row, ValueRange before) {
  Value firstKey = b.mul(keyHead, spec.keyDim), ofValue = b.add(b.mul(head, spec.valueDim), column);
  SmallVector<Value> key = loadKey(ofRow(Key, KeyStride, row, firstKey)),
                     query = loadKey(ofRow(Query, QueryStride, row, firstKey)), state(before);
  auto exp = [&](Value log) { return b.exp2(b.mulF(log, b.constantF32(std::log2(std::exp(1.0))))); };
  if (spec.decaysByKey) {
    SmallVector<Value> decay = loadKey(ofRow(Decay, DecayStride, row, b.mul(head, spec.keyDim)));
    for (auto [number, log] : llvm::zip_equal(state, decay))
      number = b.mulF(number, exp(log));
  } else if (spec.hasDecay) {
    Value decay = exp(b.load(b.getF32Type(), ofRow(Decay, DecayStride, row, head)));
    for (Value &number : state)
      number = b.mulF(number, decay);
  }
  Value added = b.load(b.getF32Type(), ofRow(Val, ValueStride, row, ofValue));
  if (spec.hasBeta)
    added = b.mulF(b.subF(added, dot(key, state)), b.load(b.getF32Type(), ofRow(Beta, BetaStride, row, head)));
  for (auto [number, ofKey] : llvm::zip_equal(state, key))
    number = b.fma(ofKey, added, number);
  Value result = b.mulF(dot(query, state), b.constantF32(spec.scale));
  b.ifThen(b.bitAnd(isMine, b.equal(part, b.constant(0))),
           [&] { b.store(result, ofRow(Out, OutStride, row, ofValue)); });
  return state;
}

gpu::GPUFuncOp StateEmitter::emit() {
  Value thread = b.threadIndex();
  head = b.blockIndex(1), sequence = b.blockIndex(2), part = b.remainder(thread, lanes);
  keyHead = b.divide(head, spec.numHeads / spec.numKeyHeads);
  Value asked = b.add(b.mul(b.blockIndex(0), gpuStateColumns(spec)), b.divide(thread, lanes));
  isMine = b.lessThan(asked, b.constant(spec.valueDim));
  column = b.min(asked, b.constant(spec.valueDim - 1));
  Value rows = b.mul(sequence, 2), first = loadInt(b.argument(SequenceRows), rows);
  Value count = loadInt(b.argument(SequenceRows), b.add(rows, 1));
  Value past = loadInt(b.argument(CachePositions), first);
  SmallVector<Value> state =
      b.fold(first, b.add(first, count), begun(past), [&](Value row, ValueRange before) { return step(row, before); });
  Value page = pageOf(b.sub(b.add(past, count), b.constant(1)));
  for (int64_t i = 0; i < numbers; ++i) {
    Value writes = isWhole(i) ? isMine : b.bitAnd(isMine, b.lessThan(keyColumn(i), b.constant(spec.keyDim)));
    b.ifThen(writes, [&] { b.store(state[i], stateAt(page, i)); });
  }
  return b.finish();
}

gpu::GPUFuncOp heddle::buildGpuLinearAttention(gpu::GPUModuleOp module, StringRef name,
                                               const LinearAttentionSpec &spec) {
  return StateEmitter(module, name, spec).emit();
}

static func::FuncOp launchLinearAttention(Location loc, ModuleOp code, GpuKernels &gpu, StringRef name,
                                          const LinearAttentionSpec &spec) {
  std::string kernel = (name + "_gpu").str();
  buildGpuLinearAttention(gpu.kernels, kernel, spec);
  HostKernelOf<LinearAttentionCall, LaunchBuilder> l(loc, code, name);
  const LinearAttentionCall &call = l.call;
  RawBuilder &b = l.builder();
  for (Value argument : {call.query, call.key, call.value, call.out, call.decay, call.beta})
    l.add(argument);
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, sequence_rows), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  for (Value argument : {call.queryStride, call.keyStride, call.valueStride, call.outStride, call.decayStride,
                         call.betaStride, call.stateOffset})
    l.add(argument);
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
  l.launch(l.entry(kernel),
           {b.constant(llvm::divideCeil(spec.valueDim, gpuStateColumns(spec))), b.constant(spec.numHeads),
            l.number(offsetof(heddle_step, num_sequences))},
           b.constant(gpuStateThreads));
  return l.finish();
}

namespace {

class RaggedLinearAttention : public KernelEmitterOf<RaggedLinearAttentionOp> {
public:
  explicit RaggedLinearAttention(std::optional<GpuKernels> &gpu) : gpu(gpu) {}

protected:
  FailureOr<std::string> nameOf(RaggedLinearAttentionOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RaggedLinearAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    return oneKernel(
        module.once(name, [&] { return launchLinearAttention(op.getLoc(), module.code, *gpu, name, specOf(op)); }));
  }

private:
  std::optional<GpuKernels> &gpu;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cuda::raggedLinearAttention(std::optional<GpuKernels> &gpu) {
  return std::make_unique<RaggedLinearAttention>(gpu);
}
