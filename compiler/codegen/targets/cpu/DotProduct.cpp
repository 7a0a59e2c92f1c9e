// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/DotProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

DotProduct::DotProduct(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode)
    : b(builder), lanesPerInstruction(target.vectorLanes()) {
  if (target.isAArch64()) {
    instruction = Instruction::Neon;
    bias = maxCode > 127 ? 128 : 0;
  } else if (target.hasAvx512() && target.has("avx512vnni")) {
    instruction = Instruction::Vnni;
  } else {
    // vpmaddubsw adds two products in 16 bits: they must not saturate.
    bool fits = 2 * 127 * int32_t(maxCode) <= 32767;
    instruction = fits ? Instruction::PairsOfBytes : Instruction::PairsOfWords;
  }
}

Value DotProduct::prepareCodes(Value codes) {
  return bias ? arith::XOrIOp::create(b, codes, b.splatInt(0x80808080)).getResult() : codes;
}

Value DotProduct::emit(Value acc, Value codes, Value activations) {
  if (lanesPerInstruction == 16)
    return emitPart(acc, codes, activations, 16);
  Value whole = b.splatInt(0);
  for (int64_t lane = 0; lane < 16; lane += lanesPerInstruction) {
    auto part = [&](Value vector) {
      return vector::ExtractStridedSliceOp::create(b, vector, lane, lanesPerInstruction, int64_t(1)).getResult();
    };
    Value sum = emitPart(part(acc), part(codes), part(activations), lanesPerInstruction);
    whole = vector::InsertStridedSliceOp::create(b, sum, whole, lane, int64_t(1));
  }
  return whole;
}

Value DotProduct::emitPart(Value acc, Value codes, Value activations, int64_t lanes) {
  Type sums = b.vec(lanes, b.i32), bytes = b.vec(4 * lanes, b.i8), words = b.vec(2 * lanes, b.i16);
  bool wide = lanes == 16;
  switch (instruction) {
  case Instruction::Vnni:
    return b.intrinsic("llvm.x86.avx512.vpdpbusd.512", sums,
                       {acc, b.bitcast(bytes, codes), b.bitcast(bytes, activations)});
  case Instruction::Neon:
    return b.intrinsic("llvm.aarch64.neon.sdot", sums, {acc, b.bitcast(bytes, codes), b.bitcast(bytes, activations)});
  case Instruction::PairsOfBytes: {
    Value pairs = b.intrinsic(wide ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw", words,
                              {b.bitcast(bytes, codes), b.bitcast(bytes, activations)});
    Value ones = b.bitcast(words, b.splatInt(0x00010001, lanes));
    return b.add(acc,
                 b.intrinsic(wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd", sums, {pairs, ones}));
  }
  case Instruction::PairsOfWords: {
    // Bytes 0 and 2, then 1 and 3, widened to 16 bits where they lie.
    Value eight = arith::ConstantOp::create(b, DenseElementsAttr::get(cast<ShapedType>(words), b.getI16IntegerAttr(8)));
    Value codeWords = b.bitcast(words, codes), actWords = b.bitcast(words, activations);
    Value lowBytes = b.bitcast(words, b.splatInt(0x00ff00ff, lanes));
    Value evenCodes = arith::AndIOp::create(b, codeWords, lowBytes);
    Value oddCodes = arith::ShRUIOp::create(b, codeWords, eight);
    Value evenActs = arith::ShRSIOp::create(b, arith::ShLIOp::create(b, actWords, eight), eight);
    Value oddActs = arith::ShRSIOp::create(b, actWords, eight);
    StringRef multiply = wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    acc = b.add(acc, b.intrinsic(multiply, sums, {evenCodes, evenActs}));
    return b.add(acc, b.intrinsic(multiply, sums, {oddCodes, oddActs}));
  }
  }
  llvm_unreachable("every instruction returns");
}
