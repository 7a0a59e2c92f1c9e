// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What running a step is to a session and to an encoder alike.
#ifndef HEDDLE_RUNTIME_SESSION_STEPRUN_H
#define HEDDLE_RUNTIME_SESSION_STEPRUN_H

#include "runtime/model/ModelAbi.h"
#include "runtime/schema/package_generated.h"
#include "runtime/session/ThreadPool.h"

namespace heddle {

// Told of the kernels of a step, on thread 0 while the other threads wait: before the first and behind each, with those that have run.
// On a device, of steps that count their kernels alone, whose addresses `step` has.
struct KernelObserver {
  void (*observe)(void *user, const heddle_step &step, int64_t done) = nullptr;
  void *user = nullptr;
};

// Called between the chunks of a long prompt with the tokens done so far; false interrupts the call.
struct Progress {
  bool (*report)(void *user, int64_t done, int64_t total) = nullptr;
  void *user = nullptr;
};

// Returns when every thread of `pool` has run `function` with `step`, whose kernels wait for each other as it says.
void runStepOn(ThreadPool &pool, heddle_step_function function, const heddle_step &step);

// The same; kernels wait for each other at the pool's barrier, and `observer`, if it has a function, is told of them.
void runStepOn(ThreadPool &pool, heddle_step_function function, heddle_step &step, const KernelObserver &observer);

// How far the scratch memory of a thread lies from the next one's.
inline int64_t scratchStride(const package::MemoryPlan &plan) {
  return int64_t(plan.per_thread() + 63) / 64 * 64;
}

// Whether none of `values` is infinite or NaN.
bool allFinite(const float *values, int64_t count);

// The index of the largest of `values`, of equal ones the first.
int32_t indexOfLargest(const float *values, int64_t count);

} // namespace heddle

#endif
