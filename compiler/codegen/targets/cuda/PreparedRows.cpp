// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/PreparedRows.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t numWarps = preparingThreads / warpSize, loadsAtOnce = 4;

// Of the thread's columns, preparingThreads apart, in ascending order; then of a warp by pairs of lanes, so that every lane has the same bits.
Value PreparedRows::sumOfSquares(Value row) {
  auto add = [&](ArrayRef<Value> numbers, Value sum) {
    for (Value number : numbers)
      sum = b.fma(number, number, sum);
    return sum;
  };
  auto load = [&](Value column) { return b.load(b.getF32Type(), b.at(row, column, 4)); };
  int64_t perRound = preparingThreads * loadsAtOnce, rounds = k / perRound;
  Value sum = b.constantF32(0);
  if (rounds)
    sum = b.fold(b.constant(0), b.constant(rounds), {sum}, [&](Value round, ValueRange before) {
      Value first = b.add(b.mul(round, perRound), b.threadIndex());
      SmallVector<Value> numbers;
      for (int64_t i = 0; i < loadsAtOnce; ++i)
        numbers.push_back(load(b.add(first, i * preparingThreads)));
      return SmallVector<Value>{add(numbers, before[0])};
    })[0];
  for (int64_t begin = rounds * perRound; begin < k; begin += preparingThreads) {
    Value column = b.add(b.threadIndex(), begin);
    sum = b.ifElse(b.lessThan(column, b.constant(k)), {sum},
                   [&] { return SmallVector<Value>{add({load(column)}, sum)}; })[0];
  }
  for (int64_t mask = warpSize / 2; mask; mask /= 2)
    sum = b.addF(sum, b.shuffleXor(sum, mask));
  return sum;
}

// scale = 1 / sqrt(sum x^2 / k + eps), the sums of warps added in ascending order
void PreparedRows::begin(ArrayRef<Value> rows, int64_t shared) {
  if (!preparation.hasNorm)
    return;
  Value lane = b.remainder(b.threadIndex(), warpSize), warp = b.divide(b.threadIndex(), warpSize);
  for (auto [i, row] : llvm::enumerate(rows)) {
    Value sum = sumOfSquares(row), to = b.add(b.mul(warp, 4), shared + int64_t(i) * numWarps * 4);
    b.ifThen(b.equal(lane, b.constant(0)), [&] { b.store(sum, b.shared(to)); });
  }
  b.barrier(); // the sums of all warps are there
  for (size_t i = 0; i < rows.size(); ++i) {
    Value sum;
    for (int64_t w = 0; w < numWarps; ++w) {
      Value ofWarp = b.load(b.getF32Type(), b.shared(b.constant(shared + (int64_t(i) * numWarps + w) * 4)));
      sum = sum ? b.addF(sum, ofWarp) : ofWarp;
    }
    Value mean = b.divF(sum, b.constantF32(double(k)));
    scales.push_back(b.divF(b.constantF32(1), b.sqrt(b.addF(mean, b.constantF32(preparation.eps)))));
  }
}

SmallVector<Value> PreparedRows::factors(Value column, int64_t count) {
  SmallVector<Value> numbers;
  if (!preparation.hasNorm)
    return numbers;
  Type type = count == 1 ? Type(b.getF32Type()) : VectorType::get({count}, b.getF32Type());
  Value loaded = b.load(type, b.at(weight, column, 4));
  for (int64_t i = 0; i < count; ++i) {
    Value number = count == 1 ? loaded : b.element(loaded, i);
    numbers.push_back(preparation.weightOffset == 0 ? number : b.addF(number, b.constantF32(preparation.weightOffset)));
  }
  return numbers;
}

SmallVector<Value> PreparedRows::prepare(int64_t row, ArrayRef<Value> numbers, ArrayRef<Value> factors) {
  SmallVector<Value> prepared(numbers);
  for (size_t i = 0; i < factors.size(); ++i)
    prepared[i] = b.mulF(b.mulF(prepared[i], scales[row]), factors[i]);
  for (size_t i = 0; rounds && i < prepared.size(); i += 2) {
    std::array<Value, 2> pair = b.unpackBf16(b.packBf16(prepared[i], prepared[i + 1]));
    prepared[i] = pair[0];
    prepared[i + 1] = pair[1];
  }
  return prepared;
}

// A block has a row, a thread a pair of columns of it, or one where nothing is rounded.
gpu::GPUFuncOp heddle::buildGpuPreparation(gpu::GPUModuleOp module, StringRef name, const RowPreparation &preparation,
                                           bool rounds, int64_t k) {
  SmallVector<Type> types(3, GpuBuilder::globalPointer(module.getContext()));
  types.append(2, IntegerType::get(module.getContext(), 64));
  GpuBuilder b(module, name, types, preparingThreads, PreparedRows::sharedBytes(preparation, 1));
  PreparedRows rows(b, preparation, rounds, k, b.argument(2));
  Value row = b.wide(b.blockIndex(0)), x = b.at(b.argument(0), b.mul(row, b.argument(3)), 4);
  Value out = b.at(b.argument(1), b.mul(row, b.argument(4)), rounds ? 2 : 4);
  rows.begin({x}, 0);
  int64_t columns = rounds ? 2 : 1;
  auto finish = [&](Value column) {
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < columns; ++i)
      numbers.push_back(b.load(b.getF32Type(), b.at(x, b.add(column, i), 4)));
    SmallVector<Value> prepared = rows.prepare(0, numbers, rows.factors(column, columns));
    b.store(rounds ? b.packBf16(prepared[0], prepared[1]) : prepared[0], b.at(out, column, rounds ? 2 : 4));
  };
  int64_t perRound = preparingThreads * columns, rounded = k / perRound;
  Value first = b.mul(b.threadIndex(), columns);
  if (rounded)
    b.fold(b.constant(0), b.constant(rounded), {}, [&](Value round, ValueRange) {
      finish(b.add(b.mul(round, perRound), first));
      return SmallVector<Value>();
    });
  if (k % perRound) {
    Value column = b.add(first, rounded * perRound);
    b.ifThen(b.lessThan(column, b.constant(k)), [&] { finish(column); });
  }
  return b.finish();
}
