// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fast this machine reads memory, for the benchmark's denominators.
#ifndef HEDDLE_RUNTIME_CLI_BANDWIDTH_H
#define HEDDLE_RUNTIME_CLI_BANDWIDTH_H

#include "runtime/session/ThreadPool.h"

namespace heddle {

// Bytes per second that all threads of the pool read together, best of `rounds` passes over 512 MiB with 64-byte
// loads. 0 without memory.
double measureReadBandwidth(ThreadPool &pool, int rounds);

double secondsNow(); // monotonic

} // namespace heddle

#endif
