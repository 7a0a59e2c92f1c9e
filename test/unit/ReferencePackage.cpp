// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes what the executable reference-llama is made of: PACKAGE and WEIGHTS for its sections, and SHA, a list of the 32 bytes that
// its code was "compiled with".
#include "test/unit/TestPackage.h"

#include "runtime/model/PackageHeader.h"

#include <cstdio>

using namespace heddle::reference;

static bool write(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  return file && fwrite(data, 1, size, file) == size && fclose(file) == 0;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  Bytes weights = readWeights(), package = makePackage(makeMetadata(weights), weights);
  std::string digits;
  for (uint8_t byte : reinterpret_cast<const heddle_package_header *>(package.data())->sha256)
    digits += std::to_string(byte) + ",";
  return write(argv[1], package.data(), package.size()) && write(argv[2], weights.data(), weights.size()) &&
                 write(argv[3], digits.data(), digits.size())
             ? 0
             : 1;
}
