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
  if (!hasDot)
    return arith::OrIOp::create(b, b.shiftRight(roundHalf(low), 16), roundHalf(high));
  // The instruction leaves all low values before all high ones.
  Value rounded = b.intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", b.vec(32, b.getBF16Type()), {high, low});
  SmallVector<int64_t> interleaved;
  for (int64_t lane = 0; lane < 16; ++lane)
    interleaved.append({lane, 16 + lane});
  Value words = b.bitcast(b.vec(32, b.i16), rounded);
  return b.bitcast(b.v16i32, vector::ShuffleOp::create(b, words, words, interleaved));
}

Value Bf16Pairs::dot(Value acc, Value x, Value y) {
  if (hasDot) {
    Type halves = b.vec(32, b.getBF16Type());
    return b.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", b.v16f32, {acc, b.bitcast(halves, x), b.bitcast(halves, y)});
  }
  auto high = [&](Value pairs) { return b.bitcast(b.v16f32, b.maskBits(pairs, 0xffff0000)); };
  auto low = [&](Value pairs) { return b.bitcast(b.v16f32, arith::ShLIOp::create(b, pairs, b.splatInt(16))); };
  return b.fma(low(x), low(y), b.fma(high(x), high(y), acc));
}
