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

private:
  enum class Instruction { Vnni, Neon, PairsOfBytes, PairsOfWords };
  mlir::Value emitPart(mlir::Value acc, mlir::Value codes, mlir::Value activations, int64_t lanes);

  KernelBuilder &b;
  Instruction instruction;
  int64_t lanesPerInstruction;
  int32_t bias = 0;
};

} // namespace heddle

#endif
