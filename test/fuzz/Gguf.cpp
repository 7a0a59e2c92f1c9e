// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/read/ReadModel.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

using namespace heddle;

std::string fuzz::gguf(std::string_view bytes) {
  auto model = readModel(writeFuzzFile("model.gguf", bytes));
  if (!model)
    return wrongMessage(model.message());
  for (const auto &[name, tensor] : model->checkpoint.tensors) {
    uint64_t size = model->checkpoint.files[tensor.file]->size();
    if (tensor.offset > size || tensor.bytes > size - tensor.offset)
      return "tensor '" + name + "' reaches beyond its file";
  }
  return {};
}
