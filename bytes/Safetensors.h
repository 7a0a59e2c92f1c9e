// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named tensors in a file (huggingface.co/docs/safetensors): an 8-byte length, a JSON header, and the bytes without gaps. The reader
// accepts what the reference implementation accepts, and nothing else.
#ifndef HEDDLE_BYTES_SAFETENSORS_H
#define HEDDLE_BYTES_SAFETENSORS_H

#include "bytes/FileMapping.h"

#include <string_view>
#include <vector>

namespace heddle {

struct TensorView {
  std::string name, dtype; // dtype as the format spells it: "F32", "I64", …
  std::vector<int64_t> shape;
  const uint8_t *data = nullptr;
  uint64_t size = 0; // bytes: shape x type
};

class SafetensorsFile {
public:
  // Errors name the file, the tensor and the rule.
  Status open(const std::string &path);
  const std::vector<TensorView> &tensors() const { return list; }
  const TensorView *find(std::string_view name) const;

private:
  FileMapping file;
  std::vector<TensorView> list;
};

// "(2, 3)", as messages spell it.
std::string shapeText(const std::vector<int64_t> &shape);

struct TensorToWrite {
  std::string name, dtype;
  std::vector<int64_t> shape;
  const void *data;
  uint64_t size; // bytes
};

// Writes beside `path` and renames: no half-written file is ever seen under the name.
Status writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors);

// Parses a header of `size` bytes whose tensors lie in `data`; `what` names the file in errors.
Status parseSafetensorsHeader(const std::string &what, const char *text, size_t size, const uint8_t *data,
                              uint64_t dataSize, std::vector<TensorView> &outTensors);

} // namespace heddle

#endif
