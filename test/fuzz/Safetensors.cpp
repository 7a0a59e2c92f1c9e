// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/huggingface/Safetensors.h"

#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

using namespace heddle;

std::string fuzz::safetensors(std::string_view bytes) {
  writeFuzzFile("model.safetensors", bytes);
  ModelFiles files(fuzzFolder());
  auto checkpoint = readSafetensorsDirectory(files);
  if (!checkpoint)
    return wrongMessage(checkpoint.message());
  for (const auto &[name, tensor] : checkpoint->tensors)
    if (tensor.offset > bytes.size() || tensor.bytes > bytes.size() - tensor.offset)
      return "tensor '" + name + "' reaches beyond the file";
  return {};
}
