// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder with config.json and model.safetensors: the first two bytes say where one ends and the other begins.
#include "frontends/ModelConfig.h"
#include "test/fuzz/TemporaryFile.h"

#include <algorithm>
#include <cstdlib>

using namespace heddle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  size_t split = std::min<size_t>(size - 2, data[0] | data[1] << 8);
  writeFuzzFile("config.json", data + 2, split);
  writeFuzzFile("model.safetensors", data + 2 + split, size - 2 - split);
  auto model = readModel(fuzzFolder());
  if (model)
    return 0;
  std::string message = model.takeError().message;
  if (message.empty() || message.size() > 4096 || message.find('\n') != std::string::npos)
    abort();
  return 0;
}
