// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named tensors in a file (github.com/huggingface/safetensors): a 64-bit length, a JSON header, and the bytes.
//
//   header   {"NAME": {"dtype": "F32", "shape": [out, in], "data_offsets": [begin, end]}, …, "__metadata__": {string: string}}
//
// The rules are the reference implementation's: the header has at most 100 MB and starts with '{', no name occurs twice, and the
// ranges cover the data exactly: no hole, no overlap, nothing behind the last.
#ifndef HEDDLE_BYTES_SAFETENSORS_H
#define HEDDLE_BYTES_SAFETENSORS_H

#include "bytes/MappedFile.h"

#include <vector>

namespace heddle {

// Tensors of one file at most: bounds the table of a header that lists millions of empty tensors.
constexpr size_t maxSafetensorsTensors = 1 << 18;

struct StoredTensor {
  std::string name;
  std::string_view dtype; // as the format spells it: "F32", "I64", …; static
  std::vector<int64_t> shape;
  const uint8_t *data = nullptr;
  uint64_t size = 0; // bytes: shape x type
};

// Appends the tensors of a mapped file, in the order of its header. Errors name the file, the tensor and the rule.
Status readStoredTensors(const MappedFile &file, std::vector<StoredTensor> &outTensors);

// A file and its tensors.
class SafetensorsFile {
public:
  Status open(const std::string &path);
  const std::vector<StoredTensor> &tensors() const { return list; }
  const StoredTensor *find(std::string_view name) const;

private:
  MappedFile file;
  std::vector<StoredTensor> list;
};

struct TensorToWrite {
  std::string name, dtype;
  std::vector<int64_t> shape;
  const void *data;
  uint64_t size; // bytes
};

// Writes beside `path` and renames: no half-written file is ever seen under the name.
Status writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors);

} // namespace heddle

#endif
