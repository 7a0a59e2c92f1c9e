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
  if (matchPattern(op.getLayer(), m_ConstantInt(&layer)) &&
      (layer.isNegative() || layer.sge(numLayers))) // kv_append_c2, kv_view_c2
    return op.emitOpError("layer (") << layer.getSExtValue() << ") must be less than the cache's layers (" << numLayers
                                     << ")";
  return success();
}

// kv_append_c3, kv_view_c3
template <typename Op> static LogicalResult verifyHoldsTokens(Op op) {
  return op.getCache().getType().isState() ? op.emitOpError("needs a cache of tokens, got ") << op.getCache().getType()
                                           : LogicalResult(success());
}

LogicalResult KvAppendOp::verify() {
  KvCacheType cache = getCache().getType();
  if (failed(verifyHoldsTokens(*this)))
    return failure();
  int64_t keyWidth = cache.getNumKvHeads() * cache.getKeyDim(),
          valueWidth = cache.getNumKvHeads() * cache.getValueDim();
  auto isRows = [](Value operand, int64_t width) {
    auto type = cast<ShapedType>(operand.getType());
    return type.getRank() == 2 && type.getDimSize(1) == width;
  };
  if (!isRows(getKey(), keyWidth)) // kv_append_c1
    return emitOpError("key must be (rows, ") << keyWidth << "), got " << getKey().getType();
  if (bool(getValue()) != (valueWidth > 0)) // kv_append_c1
    return emitOpError("must have a value of ") << valueWidth << " columns";
  if (getValue() && !isRows(getValue(), valueWidth)) // kv_append_c1
    return emitOpError("value must be (rows, ") << valueWidth << "), got " << getValue().getType();
  return verifyLayer(*this);
}

LogicalResult KvViewOp::verify() {
  KvCacheType cache = getCache().getType();
  if (failed(verifyHoldsTokens(*this)))
    return failure();
  for (auto [result, headDim] : {std::pair(getKey(), cache.getKeyDim()), std::pair(getValue(), cache.getValueDim())}) {
    auto type = cast<RankedTensorType>(result.getType());
    if (type.getDimSize(1) != cache.getNumKvHeads() || type.getDimSize(3) != headDim) // kv_view_c1
      return emitOpError("view ") << type << " must have num_kv_heads " << cache.getNumKvHeads() << " and head_dim "
                                  << headDim;
  }
  return verifyLayer(*this);
}
