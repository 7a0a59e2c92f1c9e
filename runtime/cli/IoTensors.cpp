// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/IoTensors.h"

namespace heddle {

Status OutputTensors::addBytes(const char *name, const char *dtype, uint64_t elementBytes, std::vector<int64_t> shape,
                               void *&data) {
  uint64_t size = elementBytes;
  for (int64_t dimension : shape)
    if (__builtin_mul_overflow(size, uint64_t(dimension), &size))
      return outOfMemory(std::string("output '") + name + "' of shape " + shapeText(shape) + " is too large");
  buffers.emplace_back(new Reserved);
  HEDDLE_RETURN_IF_ERROR(buffers.back()->reserve(size, name));
  data = buffers.back()->data();
  tensors.push_back({name, dtype, std::move(shape), buffers.back()->data(), size});
  return Status();
}

} // namespace heddle
