// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A target of Targets.h as libFuzzer calls it; HEDDLE_FUZZ_TARGET names it.
#include "test/fuzz/Targets.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string wrong = heddle::fuzz::HEDDLE_FUZZ_TARGET({reinterpret_cast<const char *>(data), size});
  if (!wrong.empty()) {
    fprintf(stderr, "%s\n", wrong.c_str());
    abort();
  }
  return 0;
}
