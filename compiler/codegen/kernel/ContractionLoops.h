// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions of f32 buffers, which a kernel for any sizes and strides computes (ContractionCall): what each of their loops does.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_CONTRACTIONLOOPS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_CONTRACTIONLOOPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <vector>

namespace heddle {

struct ContractionLoops {
  // The operands of c += a b. B's place and A's are exchanged where c's columns come from A.
  enum Operand { A, B, C };
  // Loops that run as one: each step of all but the last is a whole run of those behind it, in every operand.
  using Group = llvm::SmallVector<unsigned>;

  mlir::linalg::GenericOp op;
  llvm::SmallVector<mlir::AffineMap, 3> maps;
  unsigned operands[3]; // of the op, for A, B, C
  std::vector<Group> rows, columns, depth, repeats;

  mlir::Value buffer(Operand x) const { return mlir::linalg::GenericOp(op)->getOperand(operands[x]); }
  mlir::MemRefType type(Operand x) const { return mlir::cast<mlir::MemRefType>(buffer(x).getType()); }
  mlir::AffineMap map(Operand x) const { return maps[operands[x]]; }
  // The dimension of an operand that `loop` walks, -1 for none.
  int64_t position(Operand x, unsigned loop) const;
};

// Fails where `op` does not sum products of two f32 buffers, where a loop is neither one of rows, columns, depth nor repetition, or c's
// columns do not lie side by side.
mlir::FailureOr<ContractionLoops> contractionLoopsOf(mlir::linalg::GenericOp op);

// Whether there are such loops.
bool isKernelContraction(mlir::linalg::GenericOp op);

} // namespace heddle

#endif
