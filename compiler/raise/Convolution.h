// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions as products of their windows.
#ifndef HEDDLE_COMPILER_RAISE_CONVOLUTION_H
#define HEDDLE_COMPILER_RAISE_CONVOLUTION_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

// Makes `linear` of a convolution of one group with stored weights, with the stored vector that is added to each of its channels, and a contraction of
// windows of one whose weights are computed, and replaces the op. False if `op`, whose destination is zeros, is no such convolution. Kernels of any rank, strides and dilations.
bool raiseConvolution(mlir::linalg::GenericOp op);

} // namespace heddle

#endif
