// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tells a program's weights from others: by it a weights file and the programs that may read it know each other.
#ifndef HEDDLE_RUNTIME_MODEL_WEIGHTSHASH_H
#define HEDDLE_RUNTIME_MODEL_WEIGHTSHASH_H

#include "bytes/Sha256.h"

namespace heddle {

// SHA-256 of place, size and SHA-256 of every weight, in the order of the package's table.
class WeightsHash {
public:
  void add(uint64_t offset, uint64_t size, const void *sha256) {
    uint8_t place[16];
    for (int i = 0; i < 8; ++i) {
      place[i] = uint8_t(offset >> (8 * i));
      place[8 + i] = uint8_t(size >> (8 * i));
    }
    hash.update(place, sizeof place);
    hash.update(sha256, sizeof(Sha256Digest));
  }
  // Of all that were added; none comes behind it.
  Sha256Digest finish() { return hash.finish(); }

private:
  Sha256 hash;
};

} // namespace heddle

#endif
