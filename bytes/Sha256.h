// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-256 (FIPS 180-4), with the processor's instructions for it where it has them: models are gigabytes.
#ifndef HEDDLE_BYTES_SHA256_H
#define HEDDLE_BYTES_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(const void *bytes, size_t size);

// The same of bytes that come in parts.
class Sha256 {
public:
  void update(const void *bytes, size_t size);
  // Of all that came; nothing comes behind it.
  Sha256Digest finish();

private:
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending[64]; // the first (size % 64) of a block
  uint64_t size = 0;
};

} // namespace heddle

#endif
