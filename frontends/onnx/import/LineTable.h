// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tables whose rows are straight lines, as biases of positions (ALiBi) are.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_LINETABLE_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_LINETABLE_H

#include "frontends/onnx/OnnxModel.h"

#include "llvm/ADT/SmallVector.h"

namespace heddle {

// Of each row along a tensor's last dimension, in row-major order, its first element and how much the next one is greater, if every element is on
// that line to the precision of 32 bits; empty for other tensors, and where no row grows.
llvm::SmallVector<double> lineTableOf(const OnnxModel &model, const OnnxTensor &tensor);

} // namespace heddle

#endif
