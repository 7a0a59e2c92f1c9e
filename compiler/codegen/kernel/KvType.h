// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The types of numbers in the KV cache.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KVTYPE_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KVTYPE_H

#include <cstdint>

namespace heddle {

// How keys and values are stored in a page of the cache.
enum class KvType {
  F32,
  BF16,
  F16,
  Q8_0, // codes of 8 bits, and an f16 scale for every `kvBlockColumns` columns of a head
};
inline constexpr int64_t kvBlockColumns = 32, kvScaleBytes = 2;

// Bytes of one stored element, or code.
int64_t kvBytes(KvType type);
// Of a head's 64 keys or values in a page, `columns` wide.
int64_t kvPlaneBytes(KvType type, int64_t columns);

} // namespace heddle

#endif
