// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/StepRun.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

struct Observation {
  ThreadPool &pool;
  const KernelObserver &observer;
  const heddle_step &step;
  int64_t done;
};

// Each kernel ends with a barrier.
void kernelEnded(void *user, int32_t thread) {
  auto &running = *static_cast<Observation *>(user);
  ThreadPool::waitInStep(running.pool.stepBarrier(), thread);
  if (thread == 0)
    running.observer.observe(running.observer.user, running.step, ++running.done);
  ThreadPool::waitInStep(running.pool.stepBarrier(), thread);
}

} // namespace

void runStepOn(ThreadPool &pool, heddle_step_function function, const heddle_step &step) {
  struct Call {
    heddle_step_function function;
    const heddle_step *step;
  } call = {function, &step};
  pool.run(
      [](void *user, int32_t thread, int32_t numThreads) {
        auto &call = *static_cast<Call *>(user);
        call.function(call.step, thread, numThreads);
      },
      &call);
}

void runStepOn(ThreadPool &pool, heddle_step_function function, heddle_step &step, const KernelObserver &observer) {
  Observation observation = {pool, observer, step, 0};
  step.barrier_wait = observer.observe ? kernelEnded : ThreadPool::waitInStep;
  step.barrier = observer.observe ? &observation : pool.stepBarrier();
  step.waits_for_each = observer.observe != nullptr;
  if (observer.observe)
    observer.observe(observer.user, step, 0);
  runStepOn(pool, function, step);
}

bool allFinite(const float *values, int64_t count) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return bad == 0;
}

int32_t indexOfLargest(const float *values, int64_t count) {
  return int32_t(std::max_element(values, values + count) - values);
}

} // namespace heddle
