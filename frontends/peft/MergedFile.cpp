// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/MergedFile.h"

#include <atomic>

namespace heddle {

Status MergedFile::add(const std::string &name, TensorType type, int64_t rows, int64_t width, const FillRow &fill,
                       uint64_t &outOffset) {
  uint64_t rowBytes = static_cast<uint64_t>(width) * tensorTypeInfo(type).blockBytes;
  std::atomic<bool> fits{true};
  auto fillRows = [&](int64_t first, int64_t last, uint8_t *out) {
    std::vector<float> numbers(static_cast<size_t>(width));
    for (int64_t row = first; row < last; ++row, out += rowBytes) {
      fill(row, numbers.data());
      if (!storeNumbers(type, numbers.data(), numbers.size(), out))
        fits = false;
    }
  };
  HEDDLE_RETURN_IF_ERROR(file.add(rows, width, rowBytes, fillRows, outOffset));
  if (!fits)
    return invalidInput("tensor '" + printable(name) + "', merged with its adapters, has a number that " +
                        tensorTypeInfo(type).name + " does not hold")
        .ofTensor(name);
  return Status();
}

} // namespace heddle
