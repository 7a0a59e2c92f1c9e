// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/Bf16Pairs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

// The upper half of the bits, rounded: just under half a unit is added, half of one where the last bit kept is odd. A NaN
// is made quiet instead, since the addition could carry it into infinity.
Value Bf16Pairs::roundHalf(Value real) {
  Value bits = b.bitcast(b.v16i32, real);
  Value odd = b.maskBits(b.shiftRight(bits, 16), 1);
  Value rounded = b.add(bits, b.add(odd, b.splatInt(0x7fff)));
  Value quiet = arith::OrIOp::create(b, bits, b.splatInt(0x400000));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, real, real);
  return b.maskBits(arith::SelectOp::create(b, isNan, quiet, rounded), 0xffff0000);
}

Value Bf16Pairs::round(Value low, Value high) {
  SmallVector<int64_t> interleaved;
  for (int64_t lane = 0; lane < 16; ++lane)
    interleaved.append({lane, 16 + lane});
  switch (instructions) {
  case PairDot::None:
    return arith::OrIOp::create(b, b.shiftRight(roundHalf(low), 16), roundHalf(high));
  case PairDot::Avx512: {
    // The instruction leaves all low values before all high ones.
    Value rounded = b.intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", b.vec(32, b.getBF16Type()), {high, low});
    Value words = b.bitcast(b.vec(32, b.i16), rounded);
    return b.bitcast(b.v16i32, vector::ShuffleOp::create(b, words, words, interleaved));
  }
  case PairDot::Neon: {
    auto words = [&](Value real) -> Value { // bfcvtn
      Value rounded = arith::TruncFOp::create(b, b.vec(16, b.getBF16Type()), real);
      return b.bitcast(b.vec(16, b.i16), rounded);
    };
    return b.bitcast(b.v16i32, vector::ShuffleOp::create(b, words(low), words(high), interleaved));
  }
  }
  llvm_unreachable("every kind returns");
}

Value Bf16Pairs::round(Value real) {
  VectorType words = b.vec(16, b.i16);
  switch (instructions) {
  case PairDot::None:
    return arith::TruncIOp::create(b, words, b.shiftRight(roundHalf(real), 16));
  case PairDot::Avx512: {
    Value both = b.intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", b.vec(32, b.getBF16Type()), {real, real});
    return vector::ExtractStridedSliceOp::create(b, b.bitcast(b.vec(32, b.i16), both), 0, 16, 1);
  }
  case PairDot::Neon:
    return b.bitcast(words, arith::TruncFOp::create(b, b.vec(16, b.getBF16Type()), real).getResult());
  }
  llvm_unreachable("every kind returns");
}

Value Bf16Pairs::dot(Value acc, Value x, Value y) {
  if (instructions == PairDot::Neon)
    return b.inParts(4, {acc, x, y}, [&](ArrayRef<Value> parts) {
      Type halves = b.vec(8, b.getBF16Type());
      return b.intrinsic("llvm.aarch64.neon.bfdot", b.vec(4, b.f32),
                         {parts[0], b.bitcast(halves, parts[1]), b.bitcast(halves, parts[2])});
    });
  if (instructions == PairDot::Avx512) {
    Type halves = b.vec(32, b.getBF16Type());
    return b.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", b.v16f32, {acc, b.bitcast(halves, x), b.bitcast(halves, y)});
  }
  auto high = [&](Value pairs) { return b.bitcast(b.v16f32, b.maskBits(pairs, 0xffff0000)); };
  auto low = [&](Value pairs) { return b.bitcast(b.v16f32, arith::ShLIOp::create(b, pairs, b.splatInt(16))); };
  return b.fma(low(x), low(y), b.fma(high(x), high(y), acc));
}

//===- two rows with two columns of W --------------------------------------===//

static Value shuffle(KernelBuilder &b, Value x, Value y, function_ref<int64_t(int64_t lane)> order) {
  return vector::ShuffleOp::create(b, x, y, llvm::map_to_vector(llvm::seq<int64_t>(16), order));
}

// Lane 4c + 2r + i of the first 8 columns: row r, column 2c + i.
void Bf16Pairs::interleave(Value &first, Value &second) {
  auto half = [&](int64_t columns) {
    return shuffle(b, first, second,
                   [&](int64_t lane) { return columns + lane / 4 * 2 + lane % 2 + (lane % 4 < 2 ? 0 : 16); });
  };
  Value low = half(0), high = half(8);
  first = low;
  second = high;
}

void Bf16Pairs::separate(Value &first, Value &second) {
  auto row = [&](int64_t number) {
    return shuffle(b, first, second,
                   [&](int64_t column) { return column / 8 * 16 + column % 8 / 2 * 4 + 2 * number + column % 2; });
  };
  Value upper = row(0), lower = row(1);
  first = upper;
  second = lower;
}

std::pair<Value, Value> Bf16Pairs::matrices(Value line, Value next) {
  auto half = [&](int64_t columns) {
    return shuffle(b, line, next, [&](int64_t lane) { return columns + lane / 2 + lane % 2 * 16; });
  };
  return {half(0), half(8)};
}

Value Bf16Pairs::loadMatrix(Value firstRow, Value secondRow) {
  Type pairs = b.vec(2, b.i32);
  Value first = b.load(pairs, firstRow, 2), second = b.load(pairs, secondRow, 2);
  return vector::ShuffleOp::create(b, first, second, ArrayRef<int64_t>{0, 1, 2, 3});
}

Value Bf16Pairs::dotMatrices(Value acc, Value weights, Value rows) {
  Type halves = b.vec(8, b.getBF16Type());
  return b.inParts(4, {acc, weights}, [&](ArrayRef<Value> parts) {
    return b.intrinsic("llvm.aarch64.neon.bfmmla", b.vec(4, b.f32),
                       {parts[0], b.bitcast(halves, rows), b.bitcast(halves, parts[1])});
  });
}
