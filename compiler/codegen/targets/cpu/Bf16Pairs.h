// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectors of 16 lanes of two bf16, neighbours along K: what bf16 products multiply.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_BF16PAIRS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_BF16PAIRS_H

#include "compiler/codegen/machine/Target.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

namespace heddle {

// One or two instructions each where the target has avx512bf16 or AArch64's bf16, which take subnormals for zero; elsewhere the same sums in
// plain arithmetic, slower than f32 products.
class Bf16Pairs {
public:
  Bf16Pairs(KernelBuilder &builder, const CpuTarget &target) : b(builder), instructions(target.pairDot()) {}

  // Two vector<16xf32>, rounded to nearest even, as vector<16xi32>: `low` in the low halves. NaN stays NaN.
  mlir::Value round(mlir::Value low, mlir::Value high);
  // One vector<16xf32> likewise, as vector<16xi16>.
  mlir::Value round(mlir::Value real);
  // acc + high(x) high(y) + low(x) low(y): the high halves first, or in NEON both of them before `acc`.
  mlir::Value dot(mlir::Value acc, mlir::Value x, mlir::Value y);

  // Whether one instruction adds four columns of K to the sums of two rows with two columns of W (bfmmla), as `dot` adds one pair and then the other.
  bool hasMatrices() const { return instructions == PairDot::Neon; }
  // The sums of two rows, one after the other, as `dotMatrices` adds to them, and back: 2 x 2 of them are neighbours.
  void interleave(mlir::Value &first, mlir::Value &second);
  void separate(mlir::Value &first, mlir::Value &second);
  // Two lines of W, neighbours along K: those of the first 8 columns, of the last 8.
  std::pair<mlir::Value, mlir::Value> matrices(mlir::Value line, mlir::Value next);
  // The four bf16 at each of two addresses, in rows.
  mlir::Value loadMatrix(mlir::Value firstRow, mlir::Value secondRow);
  mlir::Value dotMatrices(mlir::Value acc, mlir::Value weights, mlir::Value rows);

private:
  mlir::Value roundHalf(mlir::Value real);

  KernelBuilder &b;
  const PairDot instructions;
};

} // namespace heddle

#endif
