// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The types of numbers in the KV cache.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KVTYPE_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KVTYPE_H

#include <cstdint>

namespace heddle {

// How keys and values are stored in a page of the cache.
enum class KvType { F32, BF16, F16 };

// Bytes of one stored element.
int64_t kvBytes(KvType type);

} // namespace heddle

#endif
