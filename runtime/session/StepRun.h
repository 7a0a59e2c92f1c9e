// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What running a step is to a session and to an encoder alike.
#ifndef HEDDLE_RUNTIME_SESSION_STEPRUN_H
#define HEDDLE_RUNTIME_SESSION_STEPRUN_H

#include "runtime/model/ModelAbi.h"
#include "runtime/session/ThreadPool.h"

namespace heddle {

// Returns when every thread of `pool` has run `function` with `step`.
void runStepOn(ThreadPool &pool, heddle_step_function function, const heddle_step &step);

// Whether none of `values` is infinite or NaN.
bool allFinite(const float *values, int64_t count);

} // namespace heddle

#endif
