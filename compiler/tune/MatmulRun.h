// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product by itself: what its kernel is called with, without a model.
#ifndef HEDDLE_COMPILER_TUNE_MATMULRUN_H
#define HEDDLE_COMPILER_TUNE_MATMULRUN_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/tune/Turns.h"

#include <cstdlib>
#include <memory>
#include <vector>

namespace heddle {

// Memory that begins where a page does.
class PageMemory {
public:
  PageMemory() = default;
  explicit PageMemory(size_t bytes);
  uint8_t *data() const { return memory.get(); }

private:
  std::unique_ptr<uint8_t, decltype(&std::free)> memory{nullptr, std::free};
};

// Of dense rows without bias: rows lie as in a step, numbers are small and positive in every format.
class MatmulRun {
public:
  // For calls of up to `maxRows` rows by `threads` threads. Copies of the matrix take turns, of `weightBytes` together at least and 1 GB at
  // most unless one is larger: as in a model, a matrix has left the cache by its next call.
  MatmulRun(const MatmulSpec &spec, int64_t maxRows, int32_t threads, int64_t weightBytes);
  // Calls `kernel`, which buildMatmul made of the specification, for the first `panels` panels, which the threads divide. Lives no longer
  // than this object, and does not run while another turn is made. `scratchBytes`: the schedule's.
  Turn turn(void *kernel, int64_t rows, int64_t panels, int64_t scratchBytes);
  // What the last call wrote: (rows, n).
  llvm::ArrayRef<float> result(int64_t rows) const;
  int64_t numPanels() const { return spec.layout.numPanels(spec.n); }

private:
  const MatmulSpec spec;
  const int32_t threads;
  int64_t copyBytes, copies;
  PageMemory weights, activations, rounded, scales, sums, out, scratch;
  int64_t scratchStride = 0; // bytes of scratch of each thread: as much as the turns so far need
  int64_t resultStride = 0;  // of rows of the result, in elements
};

} // namespace heddle

#endif
