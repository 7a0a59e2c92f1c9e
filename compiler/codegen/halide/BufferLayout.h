// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How host code builds the buffers that kernels take: halide_buffer_t and halide_dimension_t as bytes on the stack.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_BUFFERLAYOUT_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_BUFFERLAYOUT_H

#include "HalideRuntime.h"

#include <cstddef>
#include <cstdint>

namespace heddle::buffer_layout {

// struct halide_buffer_t. Memory is the host's or a device's, whose address is then its handle; fields not listed
// (device_interface, flags, padding) and the other memory are zero.
constexpr size_t bufferSize = sizeof(halide_buffer_t);
constexpr size_t bufferAlignment = alignof(halide_buffer_t);
constexpr size_t deviceOffset = offsetof(halide_buffer_t, device);                  // uint64_t
constexpr size_t hostOffset = offsetof(halide_buffer_t, host);                      // uint8_t *
constexpr size_t flagsOffset = offsetof(halide_buffer_t, flags);                    // uint64_t
constexpr size_t typeCodeOffset = offsetof(halide_buffer_t, type);                  // uint8_t, TypeCode
constexpr size_t typeBitsOffset = typeCodeOffset + offsetof(halide_type_t, bits);   // uint8_t
constexpr size_t typeLanesOffset = typeCodeOffset + offsetof(halide_type_t, lanes); // uint16_t, 1
constexpr size_t dimensionsOffset = offsetof(halide_buffer_t, dimensions);          // int32_t
constexpr size_t dimOffset = offsetof(halide_buffer_t, dim);                        // halide_dimension_t *

// struct halide_dimension_t, innermost dimension first; minimum and flags are zero.
constexpr size_t dimensionSize = sizeof(halide_dimension_t);
constexpr size_t dimensionAlignment = alignof(halide_dimension_t);
constexpr size_t minOffset = offsetof(halide_dimension_t, min);       // int32_t
constexpr size_t extentOffset = offsetof(halide_dimension_t, extent); // int32_t
constexpr size_t strideOffset = offsetof(halide_dimension_t, stride); // int32_t, in elements

enum TypeCode : uint8_t {
  SignedInteger = halide_type_int,
  UnsignedInteger = halide_type_uint,
  Float = halide_type_float,
  BFloat = halide_type_bfloat,
};

} // namespace heddle::buffer_layout

#endif
