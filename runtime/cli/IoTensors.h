// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --io of models over tokens reads and writes: ids with what stands beside them, and named outputs.
#ifndef HEDDLE_RUNTIME_CLI_IOTENSORS_H
#define HEDDLE_RUNTIME_CLI_IOTENSORS_H

#include "bytes/Safetensors.h"
#include "runtime/model/PackageFile.h"
#include "runtime/session/Reserved.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle {

// One row of a batch without its masked tokens.
struct TokenRow {
  std::vector<int32_t> ids;
  // (ids) where the file has them, else empty; positions also where masked tokens lie between others.
  std::vector<int32_t> positions, tokenTypes;
  std::vector<int64_t> columns; // (ids): where each token stands
};

// input_ids, attention_mask, position_ids and, of an encoder, token_type_ids: (batch, length) each.
struct TokenBatch {
  Status read(const std::string &path, const package::Package &metadata);

  int64_t batch = 0, length = 0;
  std::vector<TokenRow> rows; // (batch)

private:
  Status keepGaps(const std::string &path, const package::Package &metadata);
  Status readShape(const std::string &path, const SafetensorsFile &file, bool isEncoder);
  // Input `name` of shape (batch, length), or (1, length) where that repeats; nothing where the file has none.
  Status readMatrix(const std::string &path, const SafetensorsFile &file, const char *name,
                    std::vector<int64_t> &values) const;
};

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
