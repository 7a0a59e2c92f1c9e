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

// Types that floats are rounded to: bytes, and 16 bits.
bool isQuantized(OnnxType type);
// round(x) + zero, in the range of `type`; ties to even.
GraphValue saturated(GraphBuilder &g, const GraphValue &x, const GraphValue &zero, OnnxType type);
// The range of x, which always contains 0, over the 256 numbers of uint8.
Quantized quantizedDynamically(GraphBuilder &g, const GraphValue &x);
// Zero points or scales beside a matrix: one for all, one per row, or one per column.
GraphValue besideMatrix(GraphBuilder &g, const GraphValue &v, bool isRows);
// The matmul of two matrices of codes, each without its zero point, in int32; scales are not read.
GraphValue integerMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b);
// The product of two quantised matrices as reals, in f32.
GraphValue realMatmul(GraphBuilder &g, const Quantized &a, const Quantized &b);

// The ops of these names, which two domains have.
void quantizeLinear(NodeImport &n);
void dequantizeLinear(NodeImport &n);

} // namespace heddle

#endif
