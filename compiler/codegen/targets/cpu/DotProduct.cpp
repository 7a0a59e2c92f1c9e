// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/DotProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>
#include <cstdint>

using namespace mlir;
using namespace heddle;

DotProduct::DotProduct(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode)
    : b(builder), lanesPerInstruction(target.vectorLanes()) {
  if (target.isAArch64()) {
    // usdot multiplies as many bytes as sdot: codes that fit a signed byte need neither.
    instruction = !target.has("dotprod")                ? Instruction::Smull
                  : maxCode > 127 && target.has("i8mm") ? Instruction::Usdot
                                                        : Instruction::Sdot;
    bias = maxCode > 127 && instruction != Instruction::Usdot ? 128 : 0;
  } else if (target.hasByteDot()) {
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
  return b.inParts(lanesPerInstruction, {acc, codes, activations},
                   [&](ArrayRef<Value> x) { return emitPart(x[0], x[1], x[2], lanesPerInstruction); });
}

Value DotProduct::emitPart(Value acc, Value codes, Value activations, int64_t lanes) {
  Type sums = b.vec(lanes, b.i32), bytes = b.vec(4 * lanes, b.i8), words = b.vec(2 * lanes, b.i16);
  bool wide = lanes == 16;
  switch (instruction) {
  case Instruction::Vnni:
    return b.intrinsic(wide ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256", sums,
                       {acc, b.bitcast(bytes, codes), b.bitcast(bytes, activations)});
  case Instruction::Usdot:
  case Instruction::Sdot: {
    StringRef name = instruction == Instruction::Usdot ? "llvm.aarch64.neon.usdot" : "llvm.aarch64.neon.sdot";
    return b.intrinsic(name, sums, {acc, b.bitcast(bytes, codes), b.bitcast(bytes, activations)});
  }
  case Instruction::Smull: {
    // Two products of bytes fit 16 bits, their sum may not.
    Value x = b.bitcast(bytes, codes), y = b.bitcast(bytes, activations);
    auto pairs = [&](int64_t first) {
      auto half = [&](Value whole) -> Value {
        return vector::ExtractStridedSliceOp::create(b, whole, first, int64_t(8), int64_t(1));
      };
      Value products = b.intrinsic("llvm.aarch64.neon.smull", b.vec(8, b.i16), {half(x), half(y)});
      return b.intrinsic("llvm.aarch64.neon.saddlp", sums, products);
    };
    return b.add(acc, b.intrinsic("llvm.aarch64.neon.addp", sums, {pairs(0), pairs(8)}));
  }
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

//===- 16-bit activations -------------------------------------------------===//

WideDotProduct::WideDotProduct(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode)
    : b(builder), bytes(builder, target, maxCode), lanesPerInstruction(target.vectorLanes()),
      mostPairs(INT16_MAX / (int64_t(2) * 128 * std::max<int64_t>(maxCode, 1))),
      addsWords(target.isX86() && target.hasByteDot()) {
  form = bytes.isOfSignedBytes() ? Form::Bytes : mostPairs >= 2 ? Form::PairsOfBytes : Form::PairsOfWords;
}

WideDotProduct WideDotProduct::ofWords(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode) {
  WideDotProduct dot(builder, target, maxCode);
  dot.form = Form::PairsOfWords;
  return dot;
}

std::pair<Value, Value> WideDotProduct::planes(Value columns) {
  VectorType sixteenBytes = b.vec(16, b.i8);
  if (form != Form::PairsOfWords) { // columns = 256 * high + low
    Value rounded = b.add(columns, b.splatInt(128));
    return {arith::TruncIOp::create(b, sixteenBytes, b.shiftRight(rounded, 8)),
            arith::TruncIOp::create(b, sixteenBytes, columns)};
  }
  Value words = arith::TruncIOp::create(b, b.vec(16, b.i16), columns);
  auto every = [&](int64_t first) -> Value {
    SmallVector<int64_t> lanes;
    for (int64_t lane = first; lane < 16; lane += 2)
      lanes.push_back(lane);
    return b.bitcast(sixteenBytes, vector::ShuffleOp::create(b, words, words, lanes));
  };
  return {every(0), every(1)};
}

void WideDotProduct::add(Sums &sums, Value codes, Value plane0, Value plane1) {
  switch (form) {
  case Form::Bytes:
    if (!sums.ofPlanes[0])
      sums.ofPlanes[0] = b.splatInt(0);
    sums.ofPlanes[0] = bytes.emit(sums.ofPlanes[0], codes, plane0);
    sums.total = bytes.emit(sums.total, codes, plane1);
    return;
  case Form::PairsOfBytes:
    return addPairsOfBytes(sums, codes, {plane0, plane1});
  case Form::PairsOfWords:
    auto [even, odd] = words(codes, 0);
    sums.total = multiplyWords(multiplyWords(sums.total, even, plane0), odd, plane1);
    return;
  }
}

void WideDotProduct::addPairsOfBytes(Sums &sums, Value codes, ArrayRef<Value> planes) {
  if (sums.pairs == mostPairs)
    sums = {total(sums)};
  for (auto [plane, sum] : llvm::zip_equal(planes, sums.ofPlanes)) {
    SmallVector<Value> operands = {codes, plane};
    if (sum)
      operands.push_back(sum);
    sum = b.inParts(lanesPerInstruction, operands, [&](ArrayRef<Value> x) {
      Type lanes = b.vec(lanesPerInstruction, b.i32);
      Type ofBytes = b.vec(4 * lanesPerInstruction, b.i8), ofWords = b.vec(2 * lanesPerInstruction, b.i16);
      StringRef multiply = lanesPerInstruction == 16 ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw";
      Value pairs = b.intrinsic(multiply, ofWords, {b.bitcast(ofBytes, x[0]), b.bitcast(ofBytes, x[1])});
      return b.bitcast(lanes, sum ? b.add(b.bitcast(ofWords, x[2]), pairs) : pairs);
    });
  }
  ++sums.pairs;
}

std::pair<Value, Value> WideDotProduct::words(Value codes, uint8_t zero) {
  auto centred = [&](Value ofCodes) -> Value {
    if (!zero)
      return ofCodes;
    VectorType halves = b.vec(32, b.i16);
    return b.bitcast(b.v16i32, b.sub(b.bitcast(halves, ofCodes), b.bitcast(halves, b.splatInt(zero * 0x00010001))));
  };
  return {centred(b.maskBits(codes, 0x00ff00ff)), centred(b.maskBits(b.shiftRight(codes, 8), 0x00ff00ff))};
}

Value WideDotProduct::multiplyWords(Value sum, Value words, Value plane) {
  bool wide = lanesPerInstruction == 16;
  Type halves = b.vec(2 * lanesPerInstruction, b.i16), lanes = b.vec(lanesPerInstruction, b.i32);
  if (addsWords)
    return b.inParts(lanesPerInstruction, {sum ? sum : b.splatInt(0), words, plane}, [&](ArrayRef<Value> x) {
      StringRef name = wide ? "llvm.x86.avx512.vpdpwssd.512" : "llvm.x86.avx512.vpdpwssd.256";
      return b.intrinsic(name, lanes, {x[0], b.bitcast(halves, x[1]), b.bitcast(halves, x[2])});
    });
  SmallVector<Value> operands = {words, plane};
  if (sum)
    operands.push_back(sum);
  return b.inParts(lanesPerInstruction, operands, [&](ArrayRef<Value> x) {
    StringRef name = wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    Value products = b.intrinsic(name, lanes, {b.bitcast(halves, x[0]), b.bitcast(halves, x[1])});
    return sum ? b.add(x[2], products) : products;
  });
}

Value WideDotProduct::total(Sums sums) {
  auto [high, low] = sums.ofPlanes;
  if (!high)
    return sums.total;
  if (form == Form::Bytes)
    return b.add(arith::ShLIOp::create(b, high, b.splatInt(8)), sums.total);
  Value ones = b.splatInt(0x00010001), highPlace = b.splatInt(0x01000100); // 256
  return multiplyWords(multiplyWords(sums.total, high, highPlace), low, ones);
}
