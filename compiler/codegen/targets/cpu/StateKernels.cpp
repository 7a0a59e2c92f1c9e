// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/StateKernels.h"

#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

// A page's first token follows the state of the page before it.
static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

StatePlaces::StatePlaces(RawBuilder &b, const SequenceValues &sequence, Value offset) {
  auto pageOf = [&](Value token) { return b.at(loadPage(b, sequence.pages, b.divide(token, pageTokens)), offset); };
  Value zero = b.constant(0);
  isFresh = b.equal(sequence.past, zero);
  from = pageOf(b.max(b.sub(sequence.past, b.constant(1)), zero));
  to = pageOf(b.sub(sequence.length, b.constant(1)));
}

std::pair<Value, Value> heddle::shareOf(RawBuilder &b, int64_t count, Value thread, Value numThreads) {
  Value index = b.extend(thread), threads = b.extend(numThreads), all = b.constant(count);
  return {b.divide(b.mul(all, index), threads), b.divide(b.mul(all, b.add(index, 1)), threads)};
}
