// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integers that stand for reals, as ops of several domains compute with them.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_QUANTIZED_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_QUANTIZED_H

#include "frontends/onnx/import/GraphImporter.h"

namespace heddle {

// x = (codes - zero) * scale; without a zero point it is 0.
struct Quantized {
  GraphValue codes, scale, zero;
};

// Whether a scale or a zero point, which may be missing, is one number for the whole tensor.
inline bool isOneNumber(const GraphValue &v) {
  return !v || v.rank() == 0 || (v.rank() == 1 && v.dims[0].is(1));
}

// What DequantizeLinear made `real` of: the scale and the zero point are one number each, or one for each index of `axis`.
struct Dequantized {
  Quantized integers;
  int64_t axis;
  mlir::Value real;

  // Of `x`, whose value is still that; null for others.
  static const Dequantized *of(const GraphValue &x) {
    return x.dequantized && x.value && x.dequantized->real == x.value ? x.dequantized.get() : nullptr;
  }
};

// Types that floats are rounded to: bytes, and 16 bits.
bool isQuantized(OnnxType type);
// round(x) + zero, in the range of `type`; ties to even.
GraphValue saturated(GraphBuilder &g, const GraphValue &x, const GraphValue &zero, OnnxType type);
// The range of x, which always contains 0, over the 256 numbers of uint8.
Quantized quantizedDynamically(GraphBuilder &g, const GraphValue &x);
// Zero points or scales beside a matrix: one for all, one per row, or one per column.
GraphValue besideMatrix(GraphBuilder &g, const GraphValue &v, bool isRows);
// The matmul of two matrices of codes, each without its zero point, in int32; scales are not read. With `isTransposed` B is (columns, K).
GraphValue integerMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b, bool isTransposed = false);
// The same of a stored B, read where it lies, of which each row may have further dimensions with `isTransposed`. Nothing where B is computed, other integers
// than bytes are multiplied, a zero point of A is of a row, or one of B is not of a column.
GraphValue storedMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b, bool isTransposed);
// The product of two quantised matrices as reals, in f32.
GraphValue realMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b);
// The matmul of what was dequantised of bytes, as integers: activations with one scale, and weights of the file with one for each column or for all. Nothing for
// other operands.
GraphValue matmulOfDequantized(GraphBuilder &g, const GraphValue &a, const GraphValue &b, bool isTransposed);

// The ops of these names, which two domains have.
void quantizeLinear(NodeImport &n);
void dequantizeLinear(NodeImport &n);

} // namespace heddle

#endif
