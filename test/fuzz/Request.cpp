// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "bytes/Safetensors.h"

#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

using namespace heddle;

std::string fuzz::request(std::string_view bytes) {
  SafetensorsFile file;
  Status status = file.open(writeFuzzFile("request.safetensors", bytes));
  if (!status.isOk())
    return wrongMessage(status.message());
  // The tensors cover what lies behind the length and the header, and can be read.
  uint64_t total = 0, header = 0;
  volatile uint8_t sum = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | uint8_t(bytes[i]);
  for (const StoredTensor &tensor : file.tensors()) {
    total += tensor.size;
    for (uint64_t i = 0; i < tensor.size; ++i)
      sum = sum ^ tensor.data[i];
  }
  return total == bytes.size() - 8 - header ? std::string() : "the tensors do not cover the file";
}
