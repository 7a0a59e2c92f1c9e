// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The best schedule of a kernel on this machine, by measurement.
#ifndef HEDDLE_COMPILER_TUNE_TUNEKERNEL_H
#define HEDDLE_COMPILER_TUNE_TUNEKERNEL_H

#include "bytes/Status.h"
#include "compiler/tune/KernelProbe.h"

namespace heddle {

struct TunedKernel {
  struct Times {
    std::string shape;
    double base, best; // seconds of a call
  };
  ScheduleAttr best; // what is to be merged into the table's (TunedSchedules.h); null: the table's own is as good
  std::vector<Times> times; // of the table's schedule and of the best that was found, side by side
  size_t candidates = 0;    // that were measured
};

// `base` is the kernel's schedule in the table. A candidate is taken where one shape is faster by more than the noise, and none slower.
// `linker`: an ld.lld.
Status tuneKernel(KernelProbe &probe, ScheduleAttr base, const CpuTarget &target, const TuneSettings &settings,
                  const std::string &linker, TunedKernel &out);

} // namespace heddle

#endif
