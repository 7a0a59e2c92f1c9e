// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/StepRun.h"

#include <cstring>

namespace heddle {

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

bool allFinite(const float *values, int64_t count) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return bad == 0;
}

} // namespace heddle
