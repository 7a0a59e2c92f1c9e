// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/PageLayout.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "runtime/model/ModelAbi.h"

using namespace heddle;
using namespace heddle::cpu;

bool cpu::hasPairedPages(KvType kv, int64_t headDim, bool isLatent) {
  return (kv == KvType::BF16 || kv == KvType::Q8_0) && headDim % 2 == 0 && !isLatent;
}

bool cpu::hasPairedPages(KvCacheType cache) {
  return hasPairedPages(kvTypeOf(cache), cache.getHeadDim(), cache.isLatent());
}

bool cpu::hasPairedPages(const AttentionSpec &spec) {
  return !spec.isDense && hasPairedPages(spec.kv, spec.headDim, spec.valuesInKeys);
}

bool cpu::hasPairedPages(const KvAppendSpec &spec) {
  return hasPairedPages(spec.kv, spec.headDim, spec.isLatent);
}

int64_t cpu::valueRunColumns(int64_t columns) {
  return columns % 64 ? columns : 64;
}

PlaneOrder cpu::planeOrder(bool isPaired, bool isValue) {
  return !isPaired ? PlaneOrder::Rows : isValue ? PlaneOrder::TokenPairs : PlaneOrder::ColumnPairs;
}

int64_t cpu::elementOf(PlaneOrder order, int64_t columns, int64_t token, int64_t column) {
  switch (order) {
  case PlaneOrder::Rows:
    return token * columns + column;
  case PlaneOrder::ColumnPairs:
    return (column / 2 * HEDDLE_KV_PAGE_SIZE + token) * 2 + column % 2;
  case PlaneOrder::TokenPairs: {
    int64_t run = valueRunColumns(columns), row = column / run * (HEDDLE_KV_PAGE_SIZE / 2) + token / 2;
    return (row * run + column % run) * 2 + token % 2;
  }
  }
  llvm_unreachable("an order");
}

int64_t cpu::scaleOf(PlaneOrder order, int64_t columns, int64_t token, int64_t block) {
  int64_t blocks = columns / kvBlockColumns;
  int64_t index = order == PlaneOrder::ColumnPairs ? block * HEDDLE_KV_PAGE_SIZE + token
                                                   : (token / 2 * blocks + block) * 2 + token % 2;
  return HEDDLE_KV_PAGE_SIZE * columns + index * kvScaleBytes;
}
