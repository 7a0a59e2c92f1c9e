// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any bytes as a GGUF file: a model or an error in one line, never a crash.
#include "frontends/ModelConfig.h"
#include "test/fuzz/TemporaryFile.h"

#include <cstdlib>

using namespace heddle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto model = readModel(writeFuzzFile("model.gguf", data, size));
  if (!model) {
    std::string message = model.takeError().message;
    if (message.empty() || message.size() > 4096 || message.find('\n') != std::string::npos)
      abort();
    return 0;
  }
  // A tensor that a reader lets through lies within its file.
  for (const auto &[name, tensor] : model->checkpoint.tensors) {
    uint64_t size = model->checkpoint.files[tensor.file]->size();
    if (tensor.offset > size || tensor.bytes > size - tensor.offset)
      abort();
  }
  return 0;
}
