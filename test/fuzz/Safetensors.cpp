// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Safetensors.h"

#include "frontends/huggingface/Safetensors.h"
#include "test/fuzz/Targets.h"
#include "test/fuzz/TemporaryFile.h"

using namespace heddle;

static bool isWithin(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }

std::string fuzz::safetensors(std::string_view bytes) {
  std::string path = writeFuzzFile("model.safetensors", bytes);
  auto checkpoint = readSafetensorsDirectory(fuzzFolder());
  if (!checkpoint) {
    if (std::string wrong = wrongMessage(checkpoint.takeError().message); !wrong.empty())
      return wrong;
  } else {
    for (const auto &[name, tensor] : checkpoint->tensors)
      if (!isWithin(tensor.offset, tensor.bytes, bytes.size()))
        return "the compiler lets tensor '" + name + "' reach beyond the file";
  }
  SafetensorsFile file;
  Status status = file.open(path);
  if (!status.isOk())
    return wrongMessage(status.message());
  // What lies behind the length and the header, if the tensors hold all of it.
  uint64_t total = 0, header = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | uint8_t(bytes[i]);
  for (const TensorView &tensor : file.tensors())
    total += tensor.size;
  return total == bytes.size() - 8 - header ? std::string() : "the runtime's tensors do not cover the file";
}
