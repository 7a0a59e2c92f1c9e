// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of four byte products per lane, with the instructions that the target has.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DOTPRODUCT_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DOTPRODUCT_H

#include "compiler/codegen/machine/Target.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

namespace heddle {

// acc[lane] + sum over j of codes[lane][j] * activations[lane][j], exact in i32. The operands are vector<16xi32> of
// four bytes each: codes unsigned, at most maxCode; activations signed, in [-127, 127].
class DotProduct {
public:
  DotProduct(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode);

  // Where only signed bytes multiply signed ones, codes above 127 are read as code - 128: `emit` then yields the
  // product with code - codeBias(), and the caller's zero point is that much lower.
  int32_t codeBias() const { return bias; }
  mlir::Value prepareCodes(mlir::Value codes);
  mlir::Value emit(mlir::Value acc, mlir::Value codes, mlir::Value activations);

  // Whether products of signed bytes are exact whatever the bytes are.
  bool isOfSignedBytes() const {
    return instruction != Instruction::PairsOfBytes && instruction != Instruction::PairsOfWords;
  }

private:
  enum class Instruction { Vnni, Usdot, Sdot, Smull, PairsOfBytes, PairsOfWords };
  mlir::Value emitPart(mlir::Value acc, mlir::Value codes, mlir::Value activations, int64_t lanes);

  KernelBuilder &b;
  Instruction instruction;
  int64_t lanesPerInstruction;
  int32_t bias = 0;
};

// The same with activations of 16 bits: integers of at most `largest` in magnitude, as two planes of four bytes for four columns.
class WideDotProduct {
public:
  static constexpr int32_t largest = 127 * 256; // a high byte of at most 127 beside a low one in [-128, 127]

  WideDotProduct(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode);
  // Of codes that `multiplyWords` takes.
  static WideDotProduct ofWords(KernelBuilder &builder, const CpuTarget &target, uint8_t maxCode);

  int32_t codeBias() const { return bytes.codeBias(); }
  mlir::Value prepareCodes(mlir::Value codes) { return bytes.prepareCodes(codes); }
  // Both planes of 16 consecutive columns, vector<16xi32>, as 16 bytes each.
  std::pair<mlir::Value, mlir::Value> planes(mlir::Value columns);

  // Sums to which products are added, vector<16xi32> each: the total, and of each plane what the total lacks yet, or null.
  struct Sums {
    mlir::Value total;
    mlir::Value ofPlanes[2];
    int64_t pairs = 0; // that each 16 bits of ofPlanes hold
  };
  // Adds the products of four columns; planes as vector<16xi32>.
  void add(Sums &sums, mlir::Value codes, mlir::Value plane0, mlir::Value plane1);
  mlir::Value total(Sums sums);
  // The codes of columns 0 and 2, and of 1 and 3, as 16-bit words, less `zero`.
  std::pair<mlir::Value, mlir::Value> words(mlir::Value codes, uint8_t zero);
  // Whether an instruction adds what it multiplies of words.
  bool accumulatesWords() const { return addsWords; }
  // sum + words[0] * plane[0] + words[1] * plane[1] of each lane's halves; null is a sum of nothing.
  mlir::Value multiplyWords(mlir::Value sum, mlir::Value words, mlir::Value plane);

private:
  // What the planes are, and what sums of them are.
  enum class Form {
    Bytes,        // high bytes and low ones; four products an instruction, exact in 32 bits
    PairsOfBytes, // the same; two products in 16 bits, of which `mostPairs` are added up there
    PairsOfWords  // 16-bit columns 0 and 2, and 1 and 3; two products in 32 bits
  };
  void addPairsOfBytes(Sums &sums, mlir::Value codes, llvm::ArrayRef<mlir::Value> planes);

  KernelBuilder &b;
  DotProduct bytes;
  int64_t lanesPerInstruction;
  Form form;
  int64_t mostPairs;
  bool addsWords; // in the instruction that multiplies them
};

} // namespace heddle

#endif
