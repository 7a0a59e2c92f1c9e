// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/SafetensorsMutations.h"

static const std::string data(32, '\1');

static std::string tinyHeader() {
  return R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
         R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"empty":{"dtype":"I64","shape":[0],"data_offsets":[32,32]}})";
}

std::string heddle::fuzz::safetensorsFile(const std::string &header, const std::string &data) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i)
    length[i] = char(header.size() >> 8 * i);
  return length + header + data;
}

std::string heddle::fuzz::tinySafetensors() {
  return safetensorsFile(tinyHeader(), data);
}

std::string heddle::fuzz::mutateSafetensors(const std::function<std::string(std::string_view)> &target) {
  if (std::string wrong = target(tinySafetensors()); !wrong.empty())
    return wrong;
  Mutator mutator(1, {"\"shape\":",
                      "\"dtype\":",
                      "\"data_offsets\":",
                      "[",
                      "]",
                      "{",
                      "}",
                      ",",
                      ":",
                      "\"",
                      "\\",
                      "\\u0000",
                      "\"F8_E4M3\"",
                      "\"__metadata__\":",
                      "[0,0]",
                      "null",
                      "true",
                      "1e5",
                      "\xff",
                      std::string(1, '\0')});
  for (int i = 0; i < 3000; ++i) {
    // The length fits the header, so that this is what is read; now and then any byte of the file changes.
    std::string bytes = i % 8 ? safetensorsFile(mutator.mutate(tinyHeader()), data) : mutator.mutate(tinySafetensors());
    if (std::string wrong = target(bytes); !wrong.empty())
      return "case " + std::to_string(i) + ": " + wrong + ": " + bytes;
  }
  return {};
}
