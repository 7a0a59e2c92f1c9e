// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/KvAppend.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

namespace {

// Writes a row of a step, all heads of it, to a slot of a page.
class RowWriter {
public:
  RowWriter(RawBuilder &b, const KvAppendSpec &spec, unsigned lanes)
      : b(b), spec(spec), lanes(lanes), elementBytes(kvBytes(spec.kv)) {
    if (!cpu::hasPairedPages(spec))
      return;
    int64_t columns = std::max(spec.headDim, spec.valueDim());
    stored = b.stackScratch(columns * elementBytes);
    if (spec.kv == KvType::Q8_0)
      scales = b.stackScratch(columns / kvBlockColumns * kvScaleBytes);
  }

  // plane[head][slot] = row[head], a head's `dim` numbers in `planeDim` columns.
  void storeRows(int64_t dim, int64_t planeDim, Value row, Value plane, Value slot) {
    forEachHead(dim, planeDim, row, plane,
                [&](Value from, Value to) { storeRow(dim, from, b.at(to, slot, planeDim * elementBytes)); });
  }

  void storeColumnPairs(Value row, Value plane, Value slot) {
    int64_t dim = spec.headDim;
    forEachHead(dim, dim, row, plane, [&](Value from, Value to) {
      storeRow(dim, from, stored);
      scatter(stored, b.at(to, slot, 2 * elementBytes), dim / 2, 2 * elementBytes, pageTokens * 2 * elementBytes);
      if (scales)
        scatter(scales, b.at(b.at(to, pageTokens * dim), slot, kvScaleBytes), dim / kvBlockColumns, kvScaleBytes,
                pageTokens * kvScaleBytes);
    });
  }

  // Where no token of the step follows, the neighbour is what a weight of zero is multiplied by: zero.
  void storeTokenPairs(Value row, Value plane, Value slot, Value isLast) {
    int64_t dim = spec.valueDim();
    Value pair = b.divide(slot, 2), half = b.remainder(slot, b.constant(2));
    Value isAlone = arith::AndIOp::create(b, isLast, b.equal(half, b.constant(0)));
    forEachHead(dim, dim, row, plane, [&](Value from, Value to) {
      storeRow(dim, from, stored);
      int64_t run = cpu::valueRunColumns(dim), runBytes = run * 2 * elementBytes;
      b.loop(0, dim / run, 1, [&](Value index) {
        Value of = b.at(stored, index, run * elementBytes);
        Value pairs = b.at(b.at(to, index, pageTokens / 2 * runBytes), pair, runBytes);
        if (scales)
          scatter(of, b.at(pairs, half, elementBytes), run, elementBytes, 2 * elementBytes);
        else
          storePair(of, pairs, run, elementBytes, half, isAlone);
      });
      if (!scales)
        return;
      int64_t blocks = dim / kvBlockColumns;
      storePair(scales, b.at(b.at(to, pageTokens * dim), pair, blocks * 2 * kvScaleBytes), blocks, kvScaleBytes, half,
                isAlone);
    });
  }

private:
  void forEachHead(int64_t dim, int64_t planeDim, Value row, Value plane, function_ref<void(Value, Value)> body) {
    b.loop(0, spec.numKvHeads, 1, [&](Value head) {
      body(b.at(row, head, dim * sizeof(float)), b.at(plane, head, kvPlaneBytes(spec.kv, planeDim)));
    });
  }

  // `count` pieces of `bytes`, 1 or 2 or 4, at `from`, `apart` bytes from one to the next at `to`.
  void scatter(Value from, Value to, int64_t count, int64_t bytes, int64_t apart) {
    Type piece = b.getIntegerType(bytes * 8);
    b.loop(0, count, 1, [&](Value i) { b.store(b.load(piece, b.at(from, i, bytes)), b.at(to, i, apart)); });
  }

  // One half of `count` pairs at `pairs`, and zeros as the other where it stands alone.
  void storePair(Value from, Value pairs, int64_t count, int64_t bytes, Value half, Value isAlone) {
    Type pair = b.getIntegerType(2 * bytes * 8);
    b.ifThen(isAlone,
             [&] { b.loop(0, count, 1, [&](Value i) { b.store(b.constantZero(pair), b.at(pairs, i, 2 * bytes)); }); });
    scatter(from, b.at(pairs, half, bytes), count, bytes, 2 * bytes);
  }

  void storeRow(int64_t dim, Value from, Value to) {
    if (scales)
      return b.loop(0, dim / kvBlockColumns, 1, [&](Value block) {
        storeBlock(b.at(from, block, kvBlockColumns * sizeof(float)), b.at(to, block, kvBlockColumns),
                   b.at(scales, block, kvScaleBytes));
      });
    for (ColumnRun run : columnRuns(dim, lanes))
      b.storeKv(spec.kv, b.loadFloats(b.at(from, run.begin * sizeof(float)), run.lanes),
                b.at(to, run.begin * elementBytes));
  }

  // scale = max |x| / 127 as f16; codes = x / scale, to the nearest. A number that is none makes the scale one.
  void storeBlock(Value from, Value codes, Value scale) {
    SmallVector<Value> parts;
    Value largest = b.constantF32(0, lanes);
    for (int64_t first = 0; first < kvBlockColumns; first += lanes) {
      parts.push_back(b.loadFloats(b.at(from, first * sizeof(float)), lanes));
      largest = arith::MaximumFOp::create(b, math::AbsFOp::create(b, parts.back()), largest);
    }
    largest = vector::ReductionOp::create(b, vector::CombiningKind::MAXIMUMF, largest);
    Value half = arith::TruncFOp::create(b, b.getF16Type(), b.mulF(largest, b.constantF32(1.0 / 127)));
    b.store(half, scale);
    Value rounded = arith::ExtFOp::create(b, b.getF32Type(), half), zero = b.constantF32(0);
    Value inverse = b.select(b.equalF(rounded, zero), zero, b.divF(b.constantF32(1), rounded));
    for (auto [i, part] : llvm::enumerate(parts)) {
      Value scaled = math::RoundEvenOp::create(b, b.mulF(part, b.broadcast(inverse, lanes)));
      Value least = b.maxF(scaled, b.constantF32(-127, lanes)); // where one is no number, too
      Value code = arith::MinNumFOp::create(b, least, b.constantF32(127, lanes));
      Value wide = arith::FPToSIOp::create(b, b.ints(lanes), code);
      b.store(arith::TruncIOp::create(b, VectorType::get({lanes}, b.getI8Type()), wide), b.at(codes, i * lanes));
    }
  }

  RawBuilder &b;
  const KvAppendSpec &spec;
  const unsigned lanes;
  const int64_t elementBytes;
  Value stored; // a head's row, as it is stored
  Value scales; // of its blocks, of q8_0
};

} // namespace

func::FuncOp heddle::buildKvAppend(ModuleOp module, StringRef name, const KvAppendSpec &spec, const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  func::FuncOp function = beginFunction(b, module, name, parameterTypes<KvAppendCall>(b.getContext()));
  auto call = argumentsOf<KvAppendCall>(function);
  RowWriter writer(b, spec, target.vectorLanes());
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    SequenceValues sequence =
        loadSequence(b, call.sequences, b.loadIndex(b.at(call.rowSequence, row, sizeof(int32_t))));
    Value position = b.loadIndex(b.at(call.cachePositions, row, sizeof(int32_t)));
    Value page = loadPage(b, sequence.pages, b.divide(position, pageTokens));
    Value slot = b.remainder(position, b.constant(pageTokens));
    int64_t keyDim = spec.headDim, valueDim = spec.valueDim();
    Value key = b.at(call.key, b.mul(row, call.keyStride), sizeof(float)), keys = b.at(page, call.kOffset);
    Value value = valueDim ? b.at(call.value, b.mul(row, call.valueStride), sizeof(float)) : Value();
    if (cpu::hasPairedPages(spec)) {
      writer.storeColumnPairs(key, keys, slot);
      writer.storeTokenPairs(value, b.at(page, call.vOffset), slot, b.equal(b.add(position, 1), sequence.length));
    } else if (spec.isLatent) {
      writer.storeRows(keyDim, keyDim + valueDim, key, keys, slot);
      if (valueDim)
        writer.storeRows(valueDim, keyDim + valueDim, value, b.at(keys, keyDim * kvBytes(spec.kv)), slot);
    } else {
      writer.storeRows(keyDim, keyDim, key, keys, slot);
      writer.storeRows(valueDim, valueDim, value, b.at(page, call.vOffset), slot);
    }
  });
  func::ReturnOp::create(b);
  return function;
}

namespace {

class KvAppend : public KernelEmitterOf<KvAppendOp> {
public:
  explicit KvAppend(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(KvAppendOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(KvAppendOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override {
    return oneKernel(module.once(name, [&] { return buildKvAppend(module.code, name, specOf(op), target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::kvAppend(const CpuTarget &target) {
  return std::make_unique<KvAppend>(target);
}
