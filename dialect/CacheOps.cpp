// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of the cache ops. Comments cite the constraint in CacheOps.td that a check enforces.

#include "dialect/HeddleDialect.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

// A layer that is a constant is one of the cache's.
template <typename Op> static LogicalResult verifyLayer(Op op) {
  llvm::APInt layer;
  int64_t numLayers = op.getCache().getType().getNumLayers();
  if (matchPattern(op.getLayer(), m_ConstantInt(&layer)) && (layer.isNegative() || layer.sge(numLayers))) // kv_append_c2, kv_view_c2
    return op.emitOpError("layer (") << layer.getSExtValue() << ") must be less than the cache's layers (" << numLayers << ")";
  return success();
}

LogicalResult KvAppendOp::verify() {
  int64_t width = getCache().getType().getNumKvHeads() * getCache().getType().getHeadDim();
  for (Value operand : {getKey(), getValue()}) {
    auto type = cast<ShapedType>(operand.getType());
    if (type.getRank() != 2 || type.getDimSize(1) != width) // kv_append_c1
      return emitOpError("key and value must be (rows, ") << width << "), got " << type;
  }
  return verifyLayer(*this);
}

LogicalResult KvViewOp::verify() {
  KvCacheType cache = getCache().getType();
  for (Value result : getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    if (type.getDimSize(1) != cache.getNumKvHeads() || type.getDimSize(3) != cache.getHeadDim()) // kv_view_c1
      return emitOpError("view ") << type << " must have num_kv_heads " << cache.getNumKvHeads() << " and head_dim "
                                  << cache.getHeadDim();
  }
  return verifyLayer(*this);
}
