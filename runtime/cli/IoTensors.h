// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --io of a decoder writes.
#ifndef HEDDLE_RUNTIME_CLI_IOTENSORS_H
#define HEDDLE_RUNTIME_CLI_IOTENSORS_H

#include "bytes/Safetensors.h"
#include "runtime/model/PackageFile.h"
#include "runtime/session/Reserved.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle {

// Tensors that are kept until their file is written.
class OutputTensors {
public:
  // A zeroed one of `shape`.
  template <typename T> Status add(const char *name, const char *dtype, std::vector<int64_t> shape, T *&data) {
    void *bytes = nullptr;
    HEDDLE_RETURN_IF_ERROR(addBytes(name, dtype, sizeof(T), std::move(shape), bytes));
    data = static_cast<T *>(bytes);
    return Status();
  }
  Status write(const std::string &path) const { return writeSafetensors(path, tensors); }

private:
  Status addBytes(const char *name, const char *dtype, uint64_t elementBytes, std::vector<int64_t> shape, void *&data);

  std::vector<TensorToWrite> tensors;
  std::vector<std::unique_ptr<Reserved>> buffers;
};

} // namespace heddle

#endif
