// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights as operands of model ops.
#ifndef HEDDLE_COMPILER_RAISE_WEIGHTS_H
#define HEDDLE_COMPILER_RAISE_WEIGHTS_H

#include "compiler/raise/Arrange.h"
#include "dialect/HeddleDialect.h"

#include "mlir/IR/Builders.h"

namespace heddle {

// Whether `value` is stored with the model: a weight, or a constant.
bool isStored(mlir::Value value);
// The elements of a constant, or of a weight that says them; null for others.
mlir::DenseElementsAttr elementsOf(mlir::Value value);
// Of a weight whose rows along its last dimension are straight lines (`heddle.lines`), the first element of each and by how much the next is greater;
// null for others.
mlir::DenseF64ArrayAttr linesOf(mlir::Value value);
// `expr` with the elements at known places of weights that say them.
Expr resolveElements(ExprContext &exprs, Expr expr);
// The first of the elements that a stored tensor says, along dimensions along which all are equal to `element`; other elements as they are.
Expr firstOfEqual(ExprContext &exprs, Expr element);
// Matrices are weights of the model, whose storage says how to read them, since a constant of the module is in no file to pack from:
// what is computed with one stays a contraction.

// The stored matrix (rows, columns) whose element [row, column] is `element`; its transpose is one with another storage. Null if
// `element` is something else.
mlir::Value storedMatrix(mlir::OpBuilder &b, Expr element, Expr row, Expr column);
// The matrix whose element [row, column] is `element`, a part of a stored tensor of any rank: the same bytes with another storage.
// Null if `element` is something else, or its rows and columns both lie apart.
mlir::Value storedPart(mlir::OpBuilder &b, Expr element, const Axis &row, const Axis &column);
// The weight or constant, a vector, whose element [index] is `element`; null if it is something else.
mlir::Value storedVector(Expr element, Expr index);
// The same where a matmul takes it as its bias: a weight, to be packed like the matrix.
mlir::Value storedBias(Expr element, Expr index);
// The vector whose element [index] is `element`, a part of a stored tensor of any rank: the same bytes with another storage. Null if `element` is
// something else, or its values lie apart.
mlir::Value storedVectorPart(mlir::OpBuilder &b, Expr element, const Axis &index);
// The vector of the numbers of such a part, those of one row behind those of the other. Null if they do not lie so.
mlir::Value storedRows(mlir::OpBuilder &b, Expr element, const Axis &row, const Axis &column);
// The decimal that a 32-bit float was written as: 1e-6, not 9.99999997e-7. Configs say it so.
double asWritten(double value);

} // namespace heddle

#endif
