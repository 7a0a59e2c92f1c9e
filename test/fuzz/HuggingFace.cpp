// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/read/ReadModel.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

#include <algorithm>

using namespace heddle;

std::string fuzz::huggingFace(std::string_view bytes) {
  if (bytes.size() < 2)
    return {};
  size_t split = std::min<size_t>(bytes.size() - 2, uint8_t(bytes[0]) | uint8_t(bytes[1]) << 8);
  writeFuzzFile("config.json", bytes.substr(2, split));
  writeFuzzFile("model.safetensors", bytes.substr(2 + split));
  auto model = readModel(fuzzFolder());
  return model ? std::string() : wrongMessage(model.message());
}
