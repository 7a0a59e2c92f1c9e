// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of the rows of tokens with the matrices of experts, and the biases that are added to them.
#ifndef HEDDLE_COMPILER_RAISE_ROWMATMUL_H
#define HEDDLE_COMPILER_RAISE_ROWMATMUL_H

#include "compiler/raise/Arrange.h"
#include "compiler/raise/ElementTrace.h"

namespace heddle {

// An element of a stored tensor of which a token may say one index alone, such as a matrix of its expert.
struct NumberedElement {
  Expr element = nullptr;
  Expr number = nullptr;  // that index; null where no token says any
  unsigned dimension = 0; // of which it is the index
};

// An element of a product of rows with a matrix: sum over k of rows[…, k] * matrix[row, k], plus bias[row].
struct RowMatmul {
  Expr rows = nullptr; // an element, in `k`
  NumberedElement matrix;
  Axis k;
  std::optional<NumberedElement> bias;
};

class RowMatmulReader {
public:
  // `tokens` are the symbols that tell tokens apart.
  RowMatmulReader(ExprContext &exprs, llvm::ArrayRef<Expr> tokens)
      : exprs(exprs), layout(exprs, TraceDepth::Layout), tokens(tokens) {}

  // One more symbol that tells tokens apart, and one that is the number of an expert as a token says it.
  void addToken(Expr symbol) { tokens.push_back(symbol); }
  void addNumber(Expr symbol) { numbers.push_back(symbol); }
  // What elements that are looked up, such as the place of a token, stand for.
  llvm::DenseMap<Expr, Expr> known;
  Expr elementOf(mlir::Value value, llvm::ArrayRef<Expr> indices) {
    return exprs.substitute(layout.element(value, indices), known);
  }

  // Whether `part` is an element of a product, or of one to which a vector is added.
  bool isProduct(Expr part) { return productAndBias(part).first != nullptr; }
  // `element` of a product, whose summed index is symbol `symbol`; nothing if it is no such element.
  std::optional<RowMatmul> read(Expr element, int64_t symbol);
  // The matrix of `product`, or its bias, as a tensor of its own: those of `expert`, where tokens number it. Null where it is no part of one
  // stored tensor.
  mlir::Value matrixOf(mlir::OpBuilder &b, mlir::Location loc, const RowMatmul &product, Axis row, Axis column,
                       int64_t expert);
  mlir::Value biasOf(mlir::OpBuilder &b, const RowMatmul &product, Axis row, int64_t expert);

private:
  std::pair<Expr, Expr> productAndBias(Expr part);
  std::optional<RowMatmul> readProduct(Expr element, int64_t symbol);
  bool hasNumber(Expr part);
  bool hasToken(Expr part);
  std::optional<NumberedElement> findNumber(Expr part);
  std::optional<NumberedElement> readBias(Expr bias);

  ExprContext &exprs;
  ElementTrace layout;
  llvm::SmallVector<Expr> tokens, numbers;
};

} // namespace heddle

#endif
