// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/onnx/OnnxModel.h"
#include "frontends/read/ReadModel.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

using namespace heddle;

std::string fuzz::onnx(std::string_view bytes) {
  auto model = readModel(writeFuzzFile("model.onnx", bytes));
  if (!model)
    return wrongMessage(model.message());
  const OnnxModel &onnx = *model->onnx;
  for (const OnnxTensor &tensor : onnx.graph.initializers) {
    bool isSpilled = !tensor.spilled.empty();
    uint64_t size = isSpilled ? tensor.spilled.size() : onnx.files[tensor.file]->size(),
             offset = isSpilled ? 0 : tensor.offset;
    if (offset > size || tensor.bytes > size - offset)
      return "tensor '" + tensor.name + "' reaches beyond its file";
  }
  return {};
}
