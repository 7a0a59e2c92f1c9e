// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the reference interpreter: floats are held as f64, integers as int64_t, both rounded to the element type.
#ifndef HEDDLE_COMPILER_INTERPRETER_TENSOR_H
#define HEDDLE_COMPILER_INTERPRETER_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace heddle {

// One element; which member counts follows from the type beside it.
struct Scalar {
  double real = 0;
  int64_t integer = 0; // i1 is 0 or 1, other widths are sign-extended
};

// `value` as the nearest number (ties to even) of `type`; integers wrap to their width.
Scalar roundTo(mlir::Type type, Scalar value);

// Bits of an integer type; an index has 64.
unsigned integerWidth(mlir::Type type);

// Row-major. A scalar is a tensor of rank 0.
struct Tensor {
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape;
  std::vector<double> reals;     // (product of shape) if the element type is a float
  std::vector<int64_t> integers; // (product of shape) otherwise

  static Tensor zeros(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);
  static Tensor scalar(mlir::Type elementType, Scalar value);

  // What is none of the integers is a float: asking whether it is one takes a search, and every element asks.
  bool isFloat() const { return !llvm::isa<mlir::IntegerType, mlir::IndexType>(elementType); }
  int64_t size() const { return isFloat() ? reals.size() : integers.size(); }
  int64_t rank() const { return shape.size(); }
  int64_t dim(int64_t i) const { return shape[i]; }
  int64_t lastDim() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const { return lastDim() ? size() / lastDim() : 0; } // all dimensions but the last

  Scalar get(int64_t i) const { return isFloat() ? Scalar{reals[i], 0} : Scalar{0, integers[i]}; }
  void set(int64_t i, Scalar value) { // rounds
    if (isFloat())
      reals[i] = roundTo(elementType, value).real;
    else
      integers[i] = roundTo(elementType, value).integer;
  }
  void setReal(int64_t i, double value) { reals[i] = roundTo(elementType, {value, 0}).real; }
  void round(); // every element
};

// The bytes of `tensor`, signed or not, less the byte `zero`, which may be null.
std::vector<int64_t> centredBytes(const Tensor &tensor, const Tensor *zero, bool isUnsigned);

// Elements between neighbours along each dimension.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);

// Calls `visit` with each index of `shape`, the last dimension fastest.
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

} // namespace heddle

#endif
