// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A causal depthwise convolution: for a vector of channels its taps and the last tokens stay in registers while rows go by.

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/StateKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// Rows lie in pages of their own, where no processor sees what is going to be read.
static constexpr int64_t rowsAhead = 8;

namespace {

class ConvWriter {
public:
  ConvWriter(RawBuilder &b, const ConvSpec &spec, const ConvCall &call)
      : b(b), spec(spec), call(call), zeros(b.stackScratch(64)) {
    b.store(b.constantF32(0, 64 / floatBytes), zeros);
  }

  // Of one sequence the channels [first, first + lanes).
  void write(const SequenceValues &sequence, Value first, unsigned lanes) {
    StatePlaces state(b, sequence, call.stateOffset);
    Value bytes = b.mul(first, floatBytes);
    SmallVector<Value> taps = tapsOf(first, lanes), history;
    Value bias = spec.hasBias ? b.loadFloats(b.at(call.bias, bytes), lanes) : Value();
    for (int64_t j = 0; j + 1 < spec.width; ++j)
      history.push_back(b.loadFloats(b.select(state.isFresh, zeros, tokenOf(state.from, j, bytes)), lanes));
    history = b.fold(b.constant(0), sequence.numRows, history, [&](Value index, ValueRange before) {
      auto inputOf = [&](Value row) { return b.at(b.at(call.input, b.mul(row, call.inputStride), floatBytes), bytes); };
      auto outOf = [&](Value row) { return b.at(b.at(call.out, b.mul(row, call.outStride), floatBytes), bytes); };
      Value row = b.add(sequence.firstRow, index), ahead = b.add(row, rowsAhead);
      b.prefetch(inputOf(ahead), CacheLevel::First);
      b.prefetch(outOf(ahead), CacheLevel::First);
      SmallVector<Value> tokens(before);
      tokens.push_back(b.loadFloats(inputOf(row), lanes));
      b.store(result(tokens, taps, bias), outOf(row));
      tokens.erase(tokens.begin());
      return tokens;
    });
    for (auto [j, token] : llvm::enumerate(history))
      b.store(token, tokenOf(state.to, int64_t(j), bytes));
  }

private:
  Value tokenOf(Value state, int64_t token, Value bytes) {
    return b.at(b.at(state, token * spec.channels * floatBytes), bytes);
  }

  // Weights lie channel by channel: those of each tap side by side.
  SmallVector<Value> tapsOf(Value first, unsigned lanes) {
    Value all = b.loadFloats(b.at(call.weight, first, spec.width * floatBytes), unsigned(lanes * spec.width));
    SmallVector<Value> taps;
    for (int64_t tap = 0; tap < spec.width; ++tap) {
      SmallVector<int64_t> lanesOfTap;
      for (int64_t lane = 0; lane < int64_t(lanes); ++lane)
        lanesOfTap.push_back(lane * spec.width + tap);
      taps.push_back(vector::ShuffleOp::create(b, all, all, lanesOfTap));
    }
    return taps;
  }

  Value result(ArrayRef<Value> tokens, ArrayRef<Value> taps, Value bias) {
    Value sum = bias ? b.fma(tokens[0], taps[0], bias) : b.mulF(tokens[0], taps[0]);
    for (size_t tap = 1; tap < taps.size(); ++tap)
      sum = b.fma(tokens[tap], taps[tap], sum);
    return spec.hasSilu ? b.mulF(sum, emitSigmoid(b, sum)) : sum;
  }

  RawBuilder &b;
  const ConvSpec &spec;
  const ConvCall &call;
  Value zeros;
};

} // namespace

func::FuncOp heddle::buildRaggedConv(ModuleOp module, StringRef name, const ConvSpec &spec, const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<ConvCall>(b.getContext()));
  auto call = argumentsOf<ConvCall>(function);
  ConvWriter writer(b, spec, call);
  auto lanes = int64_t(target.vectorLanes());
  int64_t whole = spec.channels / lanes, rest = spec.channels % lanes;
  auto [begin, end] = shareOf(b, whole + (rest != 0), call.thread, call.numThreads);
  b.loop(b.constant(0), call.numSequences, 1, [&, begin = begin, end = end](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    b.loop(begin, b.min(end, b.constant(whole)), 1,
           [&](Value vector) { writer.write(sequence, b.mul(vector, lanes), unsigned(lanes)); });
    if (!rest)
      return;
    b.ifThen(b.lessThan(b.constant(whole), end), [&] {
      b.ifThen(b.lessThan(begin, end), [&] {
        for (ColumnRun run : columnRuns(rest, unsigned(lanes)))
          writer.write(sequence, b.constant(whole * lanes + run.begin), run.lanes);
      });
    });
  });
  func::ReturnOp::create(b);
  return function;
}

namespace {

class RaggedConv : public KernelEmitterOf<RaggedConvOp> {
public:
  explicit RaggedConv(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(RaggedConvOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RaggedConvOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    return oneKernel(module.once(name, [&] { return buildRaggedConv(module.code, name, specOf(op), target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::raggedConv(const CpuTarget &target) {
  return std::make_unique<RaggedConv>(target);
}
