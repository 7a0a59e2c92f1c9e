// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantised matrices as ONNX stores them: codes in one place, their scales and zeros in others.
#ifndef HEDDLE_DIALECT_CODES_H
#define HEDDLE_DIALECT_CODES_H

#include "dialect/HeddleDialect.h"

namespace heddle {

// On a heddle.weight: its numbers keep the type that their file has, whatever the model's others take (--weights).
constexpr llvm::StringLiteral keepsTypeAttr = "heddle.keeps_type";

// What the integers of a stored matrix stand for: (code - zero) * scale. Codes are 8 bits wide, or 4: two to a byte then, the lower bits
// first, and each stored row begins a byte. Along dimension `axis` of the matrix as it is stored, `size` neighbours have a scale and a
// zero in common; with size 0 all of the matrix has. Where `scales` (`zeros`, as wide as codes) are given, they are a matrix like that
// of the codes with one row or column for each `size` of it; else all are `scale` (`zero`).
struct Codes {
  int64_t bits = 8, axis = 0, size = 0;
  StorageAttr scales, zeros;
  double scale = 1;
  int64_t zero = 0;

  // A `weight` of numbers carries the codes that it is stored as; packed, it carries a list with an entry per source.
  static constexpr char attrName[] = "heddle.codes";
  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  static std::optional<Codes> fromAttr(mlir::Attribute attr);
  // Of source `source` of a packed or stored weight; nothing where it is stored as numbers.
  static std::optional<Codes> of(WeightOp weight, unsigned source = 0);

  // Groups that share a scale in a stored matrix (rows, columns): how many there are along each dimension, and which one an element is of.
  std::array<int64_t, 2> groups(int64_t rows, int64_t columns) const;
  std::array<int64_t, 2> groupOf(int64_t row, int64_t column) const;
};

} // namespace heddle

#endif
