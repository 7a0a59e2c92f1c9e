// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses one GGUF file, without regard to splits. Used by Gguf.cpp only.
#ifndef HEDDLE_FRONTENDS_GGUF_GGUFPARSER_H
#define HEDDLE_FRONTENDS_GGUF_GGUFPARSER_H

#include "frontends/gguf/Gguf.h"

namespace heddle {

struct GgufPart {
  std::shared_ptr<MappedFile> file;
  std::map<std::string_view, GgufValue> values;
  std::vector<std::pair<std::string_view, TensorInfo>> tensors; // in the file's order; TensorInfo::file is 0
};

Expected<GgufPart> parseGguf(SharedFile file);

// Bytes of one element; 0 for strings and arrays.
uint32_t ggufTypeSize(GgufType type);

} // namespace heddle

#endif
