// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/read/ReadModel.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

#include <algorithm>
#include <filesystem>

using namespace heddle;

// Inputs are what lies before the numbers of tensors; these are zeros, a hole in the file.
static constexpr size_t numberBytes = size_t(1) << 20;

static std::string writeHead(const std::string &name, std::string_view head) {
  std::string path = writeFuzzFile(name, head);
  std::filesystem::resize_file(path, head.size() + numberBytes);
  return path;
}

std::string fuzz::mmproj(std::string_view bytes) {
  if (bytes.size() < 2)
    return {};
  size_t split = std::min<size_t>(bytes.size() - 2, uint8_t(bytes[0]) | uint8_t(bytes[1]) << 8);
  ModelFiles text(writeHead("text.gguf", bytes.substr(2, split))),
      mmproj(writeHead("mmproj.gguf", bytes.substr(2 + split)));
  auto model = readModelWithImages(text, mmproj);
  if (!model)
    return wrongMessage(model.message());
  for (const auto &[name, tensor] : model->checkpoint.tensors) {
    uint64_t size = model->checkpoint.files[tensor.file]->size();
    if (tensor.offset > size || tensor.bytes > size - tensor.offset)
      return "tensor '" + name + "' reaches beyond its file";
  }
  return {};
}
