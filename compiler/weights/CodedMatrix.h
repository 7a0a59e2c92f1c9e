// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs matrices of codes whose scales and zeros lie elsewhere (dialect/Codes.h).
#ifndef HEDDLE_COMPILER_WEIGHTS_CODEDMATRIX_H
#define HEDDLE_COMPILER_WEIGHTS_CODEDMATRIX_H

#include "compiler/weights/PackedLayout.h"
#include "dialect/Codes.h"

namespace heddle {

// A matrix in mapped files, as rows that a packed matmul multiplies: (rows, columns).
class CodedMatrix {
public:
  // The matrix whose codes lie at `storage`. Fails, with an error at `op`, if a part of it lies in no file of the model, or has a type that
  // codes and scales do not have.
  static mlir::FailureOr<CodedMatrix> locate(mlir::Operation *op, const Checkpoint &checkpoint, StorageAttr storage,
                                             const Codes &codes, int64_t rows, int64_t columns);
  int64_t numRows() const { return rows; }
  float number(int64_t row, int64_t column) const;
  // Row `row` as lane `lane` of a panel of `layout`, of codes as wide as these: whose blocks have one scale and one min, f32, or which has none.
  void packRow(const PackedLayout &layout, int64_t row, int64_t lane, uint8_t *panel) const;

private:
  struct Element {
    int code, zero; // as stored
    float scale;
  };
  Element at(int64_t row, int64_t column) const;
  void packBytes(const PackedLayout &layout, int64_t row, int64_t lane, uint8_t *panel) const;
  int codeAt(const uint8_t *base, int64_t row, int64_t width, int64_t column) const;

  StorageAttr storage;
  Codes codes;
  int64_t rows = 0, columns = 0;
  bool transposed = false, isSigned = false;
  const uint8_t *data = nullptr, *scales = nullptr, *zeros = nullptr;
  TensorType scaleType = TensorType::F32;
};

// The format that kernels read a (out_features, in_features) matrix of codes in: codes4 or codes8, which have an f32 scale and min for 32 codes;
// f32 where 32 neighbours of a row may have several scales.
llvm::StringRef packedFormatOf(const Codes &codes, bool transposed, int64_t inFeatures);
// Whether "bytes" holds such a matrix: codes of 8 bits without scales, with a zero for each row of it or for all.
bool isOfBytes(const Codes &codes, bool transposed, int64_t inFeatures);

} // namespace heddle

#endif
