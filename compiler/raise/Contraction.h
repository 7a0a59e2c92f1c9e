// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of tensors, seen through their loops.
#ifndef HEDDLE_COMPILER_RAISE_CONTRACTION_H
#define HEDDLE_COMPILER_RAISE_CONTRACTION_H

#include "compiler/raise/ElementTrace.h"

namespace heddle {

// A product of two tensors over one loop. One that is added to something else than 0 is none: who reads it reads the sum as well.
struct Contraction {
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<unsigned> outLoops; // of each result dimension
  unsigned contracted;

  static std::optional<Contraction> of(mlir::Operation *candidate) {
    if (!isContraction(candidate))
      return std::nullopt;
    Contraction product{llvm::cast<mlir::linalg::LinalgOp>(candidate), {}, 0};
    llvm::SmallVector<unsigned> contracted;
    product.op.getReductionDims(contracted);
    if (contracted.size() != 1 || !startsAtZero(product.op))
      return std::nullopt;
    product.contracted = contracted[0];
    for (mlir::AffineExpr expr : product.op.getMatchingIndexingMap(product.op.getDpsInitOperand(0)).getResults()) {
      auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
      if (!dim)
        return std::nullopt;
      product.outLoops.push_back(dim.getPosition());
    }
    return product;
  }
  static bool startsAtZero(mlir::linalg::LinalgOp op) {
    ExprContext exprs;
    ElementTrace trace(exprs);
    mlir::Value init = op.getDpsInitOperand(0)->get();
    return trace.element(init, trace.indexSymbols(init))->isConstant(0);
  }
  // The indices of an operand's element at `loops`; empty if the map is no projection.
  llvm::SmallVector<Expr> indices(unsigned operand, llvm::ArrayRef<Expr> loops) {
    llvm::SmallVector<Expr> result;
    for (mlir::AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInputOperand(operand)).getResults()) {
      auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
      if (!dim)
        return {};
      result.push_back(loops[dim.getPosition()]);
    }
    return result;
  }
  mlir::Value input(unsigned operand) { return op.getDpsInputOperand(operand)->get(); }
};

} // namespace heddle

#endif
