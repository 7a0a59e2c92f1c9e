// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-256 (FIPS 180-4).
#ifndef HEDDLE_BYTES_SHA256_H
#define HEDDLE_BYTES_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(const void *bytes, size_t size);

} // namespace heddle

#endif
