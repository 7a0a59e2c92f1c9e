// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every emitter of attention asks of a specification.

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "runtime/model/ModelAbi.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

int64_t heddle::kvBytes(KvType type) {
  return type == KvType::F32 ? 4 : type == KvType::Q8_0 ? 1 : 2;
}

int64_t heddle::kvPlaneBytes(KvType type, int64_t columns) {
  int64_t scales = type == KvType::Q8_0 ? columns / kvBlockColumns * kvScaleBytes : 0;
  return HEDDLE_KV_PAGE_SIZE * (columns * kvBytes(type) + scales);
}

LogicalResult heddle::verifyAttention(const AttentionSpec &spec, std::string &error) {
  auto fail = [&](const Twine &message) {
    error = message.str();
    return failure();
  };
  if (spec.numHeads < 1 || spec.numKvHeads < 1 || spec.numHeads % spec.numKvHeads)
    return fail("num_heads (" + Twine(spec.numHeads) + ") must be a positive multiple of num_kv_heads (" +
                Twine(spec.numKvHeads) + ")");
  if (spec.headDim < 1 || spec.headDim > 1024 || spec.valueDim() < 1 || spec.valueDim() > 1024)
    return fail("head_dim (" + Twine(spec.headDim) + ", values " + Twine(spec.valueDim()) +
                ") must be between 1 and 1024");
  if (spec.valuesInKeys && spec.valueDim() > spec.headDim)
    return fail("values (" + Twine(spec.valueDim()) + ") in keys must not be wider than these (" + Twine(spec.headDim) +
                ")");
  if (spec.tileHeads < 0 || spec.group() % spec.headsOfTile())
    return fail("tile_heads (" + Twine(spec.tileHeads) + ") must divide the group (" + Twine(spec.group()) + ")");
  if (!std::isfinite(spec.scale) || !std::isfinite(spec.softcap) || spec.softcap < 0)
    return fail("scale must be finite, softcap finite and not negative");
  if (spec.window < 0 || spec.window > INT32_MAX || spec.blockQ < 0 || spec.blockQ > 1024)
    return fail("window (" + Twine(spec.window) + ") must not be negative, block_q (" + Twine(spec.blockQ) +
                ") at most 1024");
  if (spec.ahead < 0 || spec.ahead > INT32_MAX || (spec.causal && spec.ahead))
    return fail("ahead (" + Twine(spec.ahead) + ") must not be negative, and 0 where attention is causal");
  if (spec.chunk < 0 || spec.chunk > INT32_MAX || (spec.chunk && (!spec.causal || spec.window)))
    return fail("chunk (" + Twine(spec.chunk) + ") must not be negative, and is of causal attention without a window");
  bool isBlocks = spec.kv == KvType::Q8_0;
  if (isBlocks &&
      (spec.headDim % kvBlockColumns || spec.valueDim() % kvBlockColumns || spec.isDense || spec.valuesInKeys))
    return fail("blocks of " + Twine(kvBlockColumns) + " columns need pages of keys and values, and a head_dim (" +
                Twine(spec.headDim) + ", values " + Twine(spec.valueDim()) + ") that is a multiple of them");
  if (spec.products == Products::Bf16 && ((spec.kv != KvType::BF16 && !isBlocks) || spec.headDim % 2))
    return fail("bf16 products need a bf16 or q8_0 cache and an even head_dim (" + Twine(spec.headDim) + ")");
  return success();
}
