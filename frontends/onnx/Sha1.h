// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-1 (FIPS 180-4), which ONNX names for checksums of external data. It finds damage, not deceit.
#ifndef HEDDLE_FRONTENDS_ONNX_SHA1_H
#define HEDDLE_FRONTENDS_ONNX_SHA1_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle {

using Sha1Digest = std::array<uint8_t, 20>;

Sha1Digest sha1(const void *bytes, size_t size);

} // namespace heddle

#endif
