// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of attention over tensors: FlashAttentionCall (compiler/codegen/kernel/KernelCalls.h) as C++ sees it.
#ifndef HEDDLE_TEST_EXECUTE_FLASHCALL_H
#define HEDDLE_TEST_EXECUTE_FLASHCALL_H

#include <cstdint>

namespace heddle::test {

struct FlashCall {
  struct Strides {
    int64_t batch, head, row;
  };
  // Strides of query, key, value, out and bias, in this order.
  using Function = void(const void *query, const void *key, const void *value, void *out, const float *bias,
                        const float *sinks, int64_t batch, int64_t queries, int64_t keys, int64_t, int64_t, int64_t,
                        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                        int64_t, int64_t, int64_t biasKey, int32_t thread, int32_t numThreads);

  void run(Function *kernel, int32_t thread, int32_t numThreads) const {
    kernel(query, key, value, out, bias, sinks, batch, queries, keys, queryStrides.batch, queryStrides.head,
           queryStrides.row, keyStrides.batch, keyStrides.head, keyStrides.row, valueStrides.batch, valueStrides.head,
           valueStrides.row, outStrides.batch, outStrides.head, outStrides.row, biasStrides.batch, biasStrides.head,
           biasStrides.row, biasKey, thread, numThreads);
  }

  const void *query, *key, *value;
  void *out;
  const float *bias, *sinks;
  int64_t batch, queries, keys;
  Strides queryStrides, keyStrides, valueStrides, outStrides, biasStrides;
  int64_t biasKey;
};

} // namespace heddle::test

#endif
