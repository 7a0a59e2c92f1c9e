// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first pass over an ONNX file. It walks the protobuf wire format without building anything, bounds depth and
// counts, and then copies what the compiler reads into a small message of the same schema in which no tensor holds its
// bytes.
#ifndef HEDDLE_FRONTENDS_ONNX_ONNXSCAN_H
#define HEDDLE_FRONTENDS_ONNX_ONNXSCAN_H

#include "bytes/Expected.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle {

// Where the bytes of a tensor lie in the file: what raw_data holds in the copy.
struct OnnxByteRange {
  uint64_t offset, length;
};

// The file's message (a ModelProto) with
//   * raw_data of every tensor replaced by an OnnxByteRange of 16 bytes;
//   * packed float_data and double_data replaced by the same, since their bytes on the wire are those of raw_data;
//   * fields that nobody reads left out (documentation, metadata, training, device placement, types of what is neither input nor output).
// Errors name the byte offset. `path` is for messages.
Expected<std::string> scanOnnx(const uint8_t *data, size_t size, const std::string &path);

} // namespace heddle

#endif
