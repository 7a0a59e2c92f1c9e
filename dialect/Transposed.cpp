// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/Transposed.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

Value heddle::transposed(OpBuilder &b, Location loc, Value tensor, ArrayRef<int64_t> permutation) {
  if (isIdentityPermutation(permutation))
    return tensor;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, tensor);
  Value room = tensor::EmptyOp::create(b, loc, applyPermutation(ArrayRef(sizes), permutation),
                                       cast<RankedTensorType>(tensor.getType()).getElementType());
  return linalg::TransposeOp::create(b, loc, tensor, room, permutation)->getResult(0);
}
