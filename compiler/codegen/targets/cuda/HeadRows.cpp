// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A lane has two columns of a head, and those 64 further. It reads the partners of its columns itself: nothing passes between lanes but the sum of
// a norm.

#include "compiler/codegen/targets/cuda/HeadRows.h"

#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

void HeadRows::addParameters(MLIRContext *context, SmallVectorImpl<Type> &types) {
  types.append(9, GpuBuilder::globalPointer(context));
  types.append(4, IntegerType::get(context, 64));
  types.push_back(IntegerType::get(context, 32));
}

// 1 / sqrt(mean x^2 + eps): a lane's columns in ascending order, then by pairs of lanes, so that every lane has the same bits.
Value HeadRows::scaleOf(Value from) {
  Value sum = b.constantF32(0);
  for (int64_t begin = 0; begin < spec.headDim; begin += 2 * warpSize) {
    Value column = b.add(b.mul(lane, 2), begin);
    auto add = [&] {
      std::array<Value, 2> pair = loadPair(column);
      return SmallVector<Value>{b.fma(pair[1], pair[1], b.fma(pair[0], pair[0], sum))};
    };
    bool isWhole = begin + 2 * warpSize <= spec.headDim;
    sum = (isWhole ? add() : b.ifElse(b.lessThan(column, b.constant(spec.headDim)), {sum}, add)).front();
  }
  for (int64_t mask = warpSize / 2; mask; mask /= 2)
    sum = b.addF(sum, b.shuffleXor(sum, mask));
  Value mean = b.divF(sum, b.constantF32(double(spec.headDim)));
  return b.divF(b.constantF32(1), b.sqrt(b.addF(mean, b.constantF32(spec.heads.eps))));
}

Value HeadRows::number(Value column) {
  Value x = b.load(b.getF32Type(), b.at(from, column, 4));
  if (!spec.heads.hasNorm)
    return x;
  Value factor = b.load(b.getF32Type(), b.at(norm, column, 4));
  if (spec.heads.weightOffset != 0)
    factor = b.addF(factor, b.constantF32(spec.heads.weightOffset));
  return b.mulF(b.mulF(x, scale), factor);
}

// x cos + partner (-+ sin), in the order of the kernels of any device (Algorithms.cpp): a column that is not rotated passes.
Value HeadRows::rotated(Value at) {
  int64_t half = spec.rotaryDim / 2;
  Value d = b.sub(at, b.constant(spec.offset));
  Value isFirst =
      spec.isInterleaved ? b.equal(b.remainder(at, 2), b.constant(spec.offset % 2)) : b.lessThan(d, b.constant(half));
  int64_t apart = spec.isInterleaved ? 1 : half;
  Value partner = b.select(isFirst, b.add(at, apart), b.sub(at, b.constant(apart)));
  Value pair = spec.isInterleaved ? b.shiftSigned(d, 1) : b.select(isFirst, d, b.sub(d, b.constant(half)));
  auto angle = [&](Value index) { return b.load(b.getF32Type(), b.at(angles, index, 4)); };
  Value x = number(at);
  auto turn = [&] {
    Value y = number(partner), cosine = angle(pair), sine = angle(b.add(pair, half));
    Value signedSine = b.select(isFirst, b.subF(b.constantF32(0), sine), sine);
    return SmallVector<Value>{b.addF(b.mulF(x, cosine), b.mulF(y, signedSine))};
  };
  if (spec.rotaryDim == spec.headDim)
    return turn().front();
  Value isRotated = b.bitAnd(b.lessThan(b.constant(-1), d), b.lessThan(d, b.constant(spec.rotaryDim)));
  return b.ifElse(isRotated, {x}, turn).front();
}

std::array<Value, 2> HeadRows::loadPair(Value column) {
  Value pair = b.load(VectorType::get({2}, b.getF32Type()), b.at(from, column, 4));
  return {b.element(pair, 0), b.element(pair, 1)};
}

// pages[page of row][plane][head][slot of row]
Value HeadRows::cachedAt(Value kvHead, Value row, Value planeOffset) {
  constexpr int64_t tokens = HEDDLE_KV_PAGE_SIZE;
  auto loadInt = [&](Value pointer, Value index) { return b.load(b.getI32Type(), b.at(pointer, index, 4)); };
  Value position = loadInt(argument(6), row), sequence = loadInt(argument(5), row);
  Value table = b.at(argument(4), b.mul(b.wide(sequence), b.wide(argument(13))), 4);
  Value page = b.wide(loadInt(table, b.divide(position, tokens)));
  Value plane = b.at(b.at(argument(3), b.mul(page, argument(11)), 1), planeOffset, 1);
  Value slot = b.add(b.mul(kvHead, tokens), b.remainder(position, tokens));
  return b.at(plane, b.mul(slot, spec.headDim), kvBytes());
}

void HeadRows::store(Value head, Value row, Value rowFrom) {
  from = rowFrom;
  Value position = b.load(b.getI32Type(), b.at(argument(1), row, 4));
  angles = b.at(argument(2), b.mul(b.wide(position), b.wide(b.constant(spec.rotaryDim))), 4);
  Value firstKey = b.constant(spec.numHeads), firstValue = b.constant(spec.numHeads + spec.numKvHeads);
  Value isQuery = b.lessThan(head, firstKey), isRotated = b.lessThan(head, firstValue);
  if (spec.heads.hasNorm) {
    norm = b.select(isQuery, argument(7), argument(8));
    scale = scaleOf(from);
  }
  Value kvHead = b.sub(head, b.select(isRotated, firstKey, firstValue));
  Value query = b.at(b.at(argument(0), b.mul(b.wide(row), argument(12)), 4), b.mul(head, spec.headDim), 4);
  for (int64_t begin = 0; begin < spec.headDim; begin += 2 * warpSize) {
    Value column = b.add(b.mul(lane, 2), begin);
    auto storePair = [&] {
      std::array<Value, 2> raw = loadPair(column);
      SmallVector<Value> pair = b.ifElse(
          isRotated, {raw[0], raw[1]}, [&] { return SmallVector<Value>{rotated(column), rotated(b.add(column, 1))}; });
      Value numbers = b.vector(pair);
      b.ifThen(isQuery, [&] { b.store(numbers, b.at(query, column, 4)); });
      b.ifThen(b.equal(isQuery, b.constantBool(false)), [&] {
        Value to = cachedAt(kvHead, row, b.select(isRotated, argument(9), argument(10)));
        Value cached = spec.kv == KvType::BF16  ? b.packBf16(pair[0], pair[1])
                       : spec.kv == KvType::F16 ? b.roundToHalves(numbers)
                                                : numbers;
        b.store(cached, b.at(to, column, kvBytes()));
      });
    };
    if (begin + 2 * warpSize <= spec.headDim)
      storePair();
    else
      b.ifThen(b.lessThan(column, b.constant(spec.headDim)), storePair);
  }
}
