// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What steps spend in each kernel, as thread 0 counts it: BIN --profile.
#ifndef HEDDLE_RUNTIME_SESSION_STEPPROFILE_H
#define HEDDLE_RUNTIME_SESSION_STEPPROFILE_H

#include "runtime/model/ModelAbi.h"
#include "runtime/schema/package_generated.h"

#include <vector>

namespace heddle {

// The clock that generated code reads, in ticks.
uint64_t profileTicks();

// Of one kernel, over all steps since the profile was cleared.
struct KernelUse {
  double ticks = 0, waitTicks = 0; // in the kernel; behind it, until the other threads have come
  double launches = 0, rows = 0;   // rows of all launches
  double pairs = 0, keys = 0;      // of attention: pairs of a row and a key that it sees; keys that were read
  double work = 0;                 // multiply-adds of graphs that the table does not count by rows
  // What the package's table says that this costs.
  double flops(const package::Kernel &kernel) const;
  double bytes(const package::Kernel &kernel) const;
};

class StepProfile {
public:
  // Nothing is counted before. `kernels` outlives the profile.
  void create(const flatbuffers::Vector<flatbuffers::Offset<package::Kernel>> &kernels);
  // Where the next step counts; null where nothing is.
  heddle_kernel_profile *beginStep();
  // Adds what the step has counted, which fed these sequences: each token sees those up to its own, or all of its sequence.
  enum class Sees { UpToItself, All };
  // `sources`: of an encoder-decoder, as the step has them.
  void endStep(const heddle_sequence *sequences, int64_t numSequences, Sees sees = Sees::UpToItself,
               const heddle_sequence *sources = nullptr);
  const std::vector<KernelUse> &uses() const { return totals; } // (kernels)
  void clear() { totals.assign(totals.size(), KernelUse()); }

private:
  const flatbuffers::Vector<flatbuffers::Offset<package::Kernel>> *kernels = nullptr;
  std::vector<heddle_kernel_profile> ofStep;
  std::vector<KernelUse> totals;
};

} // namespace heddle

#endif
