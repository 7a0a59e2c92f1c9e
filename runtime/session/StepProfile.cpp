// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step counts times, launches and rows of each kernel. What attention costs also depends on how many keys its rows see, which follows
// from the sequences of the step and the window of the kernel.
#include "runtime/session/StepProfile.h"

#include <algorithm>
#include <cmath>

namespace heddle {

uint64_t profileTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

double KernelUse::flops(const package::Kernel &kernel) const {
  return rows * double(kernel.flops_per_row()) + pairs * double(kernel.flops_per_pair()) + 2 * work;
}

double KernelUse::bytes(const package::Kernel &kernel) const {
  return launches * double(kernel.bytes_fixed()) + rows * double(kernel.bytes_per_row()) +
         keys * double(kernel.bytes_per_key());
}

void StepProfile::create(const flatbuffers::Vector<flatbuffers::Offset<package::Kernel>> &newKernels) {
  kernels = &newKernels;
  ofStep.resize(newKernels.size());
  totals.resize(newKernels.size());
}

heddle_kernel_profile *StepProfile::beginStep() {
  if (ofStep.empty())
    return nullptr;
  std::fill(ofStep.begin(), ofStep.end(), heddle_kernel_profile());
  return ofStep.data();
}

// The token at position p sees the keys of the last `window` positions up to its own, or those from the beginning of its chunk on, or all up
// to it. Returns the sum over the positions [0, count).
static double pairsUpTo(double count, double window, double chunk) {
  if (chunk) {
    double whole = std::floor(count / chunk), rest = count - whole * chunk;
    return 0.5 * (whole * chunk * (chunk + 1) + rest * (rest + 1));
  }
  double grown = window ? std::min(count, window) : count;
  return 0.5 * grown * (grown + 1) + (count - grown) * window;
}

void StepProfile::endStep(const heddle_sequence *sequences, int64_t numSequences, Sees sees,
                          const heddle_sequence *sources) {
  for (size_t i = 0; i < ofStep.size(); ++i) {
    const heddle_kernel_profile &counted = ofStep[i];
    const package::Kernel &kernel = *kernels->Get(unsigned(i));
    KernelUse &total = totals[i];
    total.ticks += double(counted.ticks);
    total.waitTicks += double(counted.wait_ticks);
    total.launches += double(counted.launches);
    total.rows += double(counted.rows);
    if (!kernel.bytes_per_key() || !counted.launches)
      continue;
    double window = kernel.window(), chunk = kernel.chunk(), pairs = 0, keys = 0;
    bool isOfSources = sources && kernel.of_sources();
    for (int64_t i = 0; isOfSources && i < numSequences; ++i) {
      double length = double(sources[i].past) + sources[i].num_rows;
      pairs += length * sources[i].num_rows;
      keys += length;
    }
    for (const heddle_sequence *sequence = sequences; !isOfSources && sequence != sequences + numSequences;
         ++sequence) {
      double past = sequence->past, end = past + sequence->num_rows;
      double seen = pairsUpTo(end, window, chunk) - pairsUpTo(past, window, chunk);
      pairs += sees == Sees::All ? 2 * seen - end : seen; // as many ahead as behind, and itself
      keys += chunk    ? end - std::floor(past / chunk) * chunk
              : window ? std::min(end, window + sequence->num_rows - 1)
                       : end;
    }
    total.pairs += double(counted.launches) * pairs;
    total.keys += double(counted.launches) * keys;
  }
}

} // namespace heddle
