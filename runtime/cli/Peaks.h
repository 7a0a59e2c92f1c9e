// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fast this machine multiplies, for the benchmark's denominators. Bandwidth.h has how fast it reads.
#ifndef HEDDLE_RUNTIME_CLI_PEAKS_H
#define HEDDLE_RUNTIME_CLI_PEAKS_H

#include "runtime/session/ThreadPool.h"

#include <string_view>
#include <vector>

namespace heddle {

struct Peak {
  const char *name;       // f32, bf16, int16, int8, amx-bf16, amx-int8
  const char *arithmetic; // what is multiplied, as the package's table of kernels says it
  double perSecond;       // operations of all threads: a multiply-add is two
};

// Multiply-adds of registers in independent chains by the widest instructions that the CPU has, best of `rounds` of about 10 ms each. What it
// has no instruction for is left out.
std::vector<Peak> measurePeaks(ThreadPool &pool, int rounds);

// The most operations per second that this arithmetic can have: numbers of any type can be multiplied as f32.
double peakOf(const std::vector<Peak> &peaks, std::string_view arithmetic);

} // namespace heddle

#endif
