// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/LastBlock.h"

using namespace mlir;
using namespace heddle;

LastBlock::LastBlock(GpuBuilder &builder, Value counters, Value first, Value last, int64_t most,
                     function_ref<Value(Value)> blocksOf, int64_t shared)
    : b(builder), first(first), last(last), shared(shared) {
  b.barrier(); // all threads have stored
  Value thread = b.threadIndex(), whole = b.add(first, thread);
  Value isCounting = b.bitAnd(b.lessThan(thread, b.constant(most)), b.lessThan(whole, b.add(last, 1)));
  b.ifThen(isCounting, [&] {
    Value others = b.sub(blocksOf(whole), b.constant(1));
    b.fence(); // what the block has stored comes before the count
    Value before = b.countUp(b.at(counters, whole, 4), others);
    b.fence(); // what is read comes behind it
    Value isLast = b.select(b.equal(before, others), b.constant(1), b.constant(0));
    b.store(isLast, b.shared(b.add(b.mul(thread, 4), shared)));
  });
  b.barrier(); // all threads know
}

Value LastBlock::isLastOf(int64_t i) {
  Value isLast = b.equal(b.load(b.getI32Type(), b.shared(b.constant(shared + 4 * i))), b.constant(1));
  return b.bitAnd(isLast, b.lessThan(b.add(first, i), b.add(last, 1)));
}
