// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --profile: where the time of a phase goes, by kernel and by kind of kernel, beside what the machine could do at best.
#ifndef HEDDLE_RUNTIME_CLI_PROFILE_H
#define HEDDLE_RUNTIME_CLI_PROFILE_H

#include "runtime/cli/Peaks.h"
#include "runtime/session/StepProfile.h"

#include <string>

namespace heddle {

// What all threads together can do at most, per second.
struct MachineLimits {
  double readBandwidth = 0; // bytes
  std::vector<Peak> peaks;  // none: not known, as of a device
};

// Reading a prompt, or generating: sums over all rounds.
struct Phase {
  double seconds = 0, ticks = 0; // of the wall
  std::vector<KernelUse> uses;   // (kernels), of a graph and one more: its loops that are no kernel's

  void add(double roundSeconds, double roundTicks, const std::vector<KernelUse> &roundUses);
};

class PhaseProfile {
public:
  // Of one of `rounds` rounds.
  PhaseProfile(const Phase &phase, const package::Package &metadata, const MachineLimits &limits, int64_t rounds);
  // {"seconds": …, "kernel_seconds": …, "wait_seconds": …, "other_seconds": …, "classes": […], "kernels": […]}: seconds is the
  // sum of the three behind it, and those of the classes sum up to kernel_seconds and wait_seconds.
  std::string asJson() const;
  std::string asText(const std::string &title) const;
  // Of the kernel's time in that of all, waits included.
  double share(size_t kernel) const;

private:
  struct Cost {
    std::string name, arithmetic;
    double seconds = 0, waitSeconds = 0, launches = 0, bytes = 0, flops = 0;
    double limitSeconds = 0; // at the limits: of each kernel what takes longer, its reading or its arithmetic

    double allSeconds() const { return seconds + waitSeconds; }
    void add(const Cost &other);
  };
  std::string asJson(const Cost &cost) const;

  std::vector<Cost> kernels, classes; // classes: by kind, in the order of their first kernels
  Cost sum;
  double seconds = 0; // of the wall
  bool hasLimits;
};

// ,"peaks":{"f32":…,…}
std::string peaksAsJson(const MachineLimits &limits);

} // namespace heddle

#endif
