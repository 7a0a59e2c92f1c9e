// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors that a model's files do not hold as they are wanted, in a file that has no name and is gone with the process.
#ifndef HEDDLE_FRONTENDS_UNNAMEDFILE_H
#define HEDDLE_FRONTENDS_UNNAMEDFILE_H

#include "frontends/Checkpoint.h"

#include <functional>

namespace heddle {

// Stores `count` numbers as `type`, f32, f16 or bf16, has them, ties to even. False where one is not finite, or beyond what the type holds.
bool storeNumbers(TensorType type, const float *numbers, size_t count, uint8_t *out);

class UnnamedFile {
public:
  // `path` stands for the file in messages.
  explicit UnnamedFile(std::string path) : path(std::move(path)) {}
  UnnamedFile(const UnnamedFile &) = delete;
  UnnamedFile &operator=(const UnnamedFile &) = delete;
  ~UnnamedFile();

  // Writes rows [first, last) of a matrix to `out`, one after the other.
  using FillRows = std::function<void(int64_t first, int64_t last, uint8_t *out)>;

  // Adds a matrix (rows, width), of which a row takes `rowBytes`. It is filled in runs of rows on all cores, and the runs depend on `width`
  // alone. Its place is in `outOffset`.
  Status add(int64_t rows, int64_t width, uint64_t rowBytes, const FillRows &fill, uint64_t &outOffset);
  // The file, mapped, becomes the last of the checkpoint's; nothing is added any more.
  Status addTo(Checkpoint &checkpoint);

private:
  Status open();
  Status failed() const;

  std::string path;
  int descriptor = -1;
  uint64_t end = 0;
};

} // namespace heddle

#endif
