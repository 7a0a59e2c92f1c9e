// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices that adapters change, or consist of, as numbers.
#ifndef HEDDLE_FRONTENDS_PEFT_MERGEDFILE_H
#define HEDDLE_FRONTENDS_PEFT_MERGEDFILE_H

#include "frontends/UnnamedFile.h"

namespace heddle {

class MergedFile {
public:
  // Gives row `row` of the stored matrix as f32.
  using FillRow = std::function<void(int64_t row, float *out)>;

  // Adds a matrix of `type` (f32, f16 or bf16), filled on all cores; `name` is for messages. Its place is in `outOffset`.
  Status add(const std::string &name, TensorType type, int64_t rows, int64_t width, const FillRow &fill,
             uint64_t &outOffset);
  // The file, mapped, becomes the last of the checkpoint's; nothing is added any more.
  Status addTo(Checkpoint &checkpoint) { return file.addTo(checkpoint); }

private:
  UnnamedFile file{"weights merged with an adapter"};
};

} // namespace heddle

#endif
