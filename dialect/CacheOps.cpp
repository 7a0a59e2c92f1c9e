// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of the cache ops. Comments cite the constraint in CacheOps.td that a check enforces.

#include "dialect/HeddleDialect.h"

using namespace mlir;
using namespace heddle;

LogicalResult KvAppendOp::verify() {
  int64_t width = getCache().getType().getNumKvHeads() * getCache().getType().getHeadDim();
  for (Value operand : {getKey(), getValue()}) {
    auto type = cast<ShapedType>(operand.getType());
    if (type.getRank() != 2 || type.getDimSize(1) != width) // kv_append_c1
      return emitOpError("key and value must be (rows, ") << width << "), got " << type;
  }
  return success();
}

LogicalResult KvViewOp::verify() {
  KvCacheType cache = getCache().getType();
  for (Value result : getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    if (type.getDimSize(1) != cache.getNumKvHeads() || type.getDimSize(3) != cache.getHeadDim()) // kv_view_c1
      return emitOpError("view ") << type << " must have num_kv_heads " << cache.getNumKvHeads() << " and head_dim "
                                  << cache.getHeadDim();
  }
  return success();
}
