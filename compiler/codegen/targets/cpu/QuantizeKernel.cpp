// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/QuantizeKernel.h"

#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

Value heddle::magnitudesOf(KernelBuilder &b, Value values) {
  return b.maskBits(b.bitcast(b.v16i32, values), 0x7fffffff);
}

Rounding heddle::roundingOf(KernelBuilder &b, Value magnitudes, float largestCode) {
  Value bits = vector::ReductionOp::create(b, vector::CombiningKind::MAXSI, magnitudes);
  Value largest = arith::BitcastOp::create(b, b.f32, bits);
  Value visible = arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, largest, b.real(1e-30f));
  auto orZero = [&](Value ratio) { return arith::SelectOp::create(b, visible, ratio, b.real(0)); };
  return {orZero(arith::DivFOp::create(b, b.real(largestCode), largest)),
          orZero(arith::DivFOp::create(b, largest, b.real(largestCode)))};
}

Value Rounding::round(KernelBuilder &b, Value values) const {
  Value scaled = math::RoundEvenOp::create(b, b.mul(values, b.splat(inverse)));
  return arith::FPToSIOp::create(b, b.v16i32, scaled);
}

QuantizedBlock heddle::quantizeBlock(KernelBuilder &b, Value in, float largestCode) {
  Value halves[2] = {b.load(b.v16f32, in), b.load(b.v16f32, b.at(in, 64))};
  Value magnitudes = arith::MaxSIOp::create(b, magnitudesOf(b, halves[0]), magnitudesOf(b, halves[1]));
  Rounding rounding = roundingOf(b, magnitudes, largestCode);
  return {{rounding.round(b, halves[0]), rounding.round(b, halves[1])}, rounding.scale};
}

// 32 values at `in`: codes, scale, and the sums of both halves.
static void storeBlock(KernelBuilder &b, Value in, Value codes, Value scale, Value sums) {
  QuantizedBlock block = quantizeBlock(b, in, 127);
  b.store(block.scale, scale);
  for (auto [half, ints] : llvm::enumerate(block.halves)) {
    b.store(vector::ReductionOp::create(b, vector::CombiningKind::ADD, ints), b.at(sums, 4 * half));
    b.store(arith::TruncIOp::create(b, b.vec(16, b.i8), ints), b.at(codes, 16 * half));
  }
}

func::FuncOp heddle::buildQuantizeRows(ModuleOp module, StringRef name, int64_t k) {
  assert(k % 32 == 0 && "activations are quantised 32 at a time");
  KernelBuilder b(module, name, parameterTypes<QuantizeCall>(module.getContext()));
  auto call = argumentsOf<QuantizeCall>(b.function);
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    Value rowIn = b.at(call.in, b.mul(b.mul(row, call.inStride), 4)), rowCodes = b.at(call.codes, b.mul(row, k));
    Value rowScales = b.at(call.scales, b.mul(row, k / 32 * 4)), rowSums = b.at(call.sums, b.mul(row, k / 16 * 4));
    b.loop(b.index(0), b.index(k / 32), 1, [&](Value block) {
      storeBlock(b, b.at(rowIn, b.mul(block, 128)), b.at(rowCodes, b.mul(block, 32)), b.at(rowScales, b.mul(block, 4)),
                 b.at(rowSums, b.mul(block, 8)));
    });
  });
  return b.finish();
}
