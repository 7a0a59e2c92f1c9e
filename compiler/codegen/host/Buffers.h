// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between buffers and what the runtime knows, addresses and numbers. Conversions to the `llvm` dialect make a buffer a descriptor (address,
// offset, sizes, strides); here one is put together before they run, or taken apart. What its type says is a constant.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_BUFFERS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_BUFFERS_H

#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/IR/BuiltinTypes.h"

namespace heddle {

// The type of the descriptor.
mlir::Type descriptorType(mlir::MemRefType type);
// The buffer of `type` that begins at `address`; `sizes` are those of its dynamic dimensions, as i64. Its strides are static, or those of
// a row-major buffer without gaps.
mlir::Value bufferAt(RawBuilder &b, mlir::Value address, mlir::MemRefType type, mlir::ValueRange sizes);

// The address of a buffer's first element.
mlir::Value addressOf(RawBuilder &b, mlir::Value buffer);
// Of dimension `axis`, as i64; a stride counts elements.
mlir::Value sizeOf(RawBuilder &b, mlir::Value buffer, unsigned axis);
mlir::Value strideOf(RawBuilder &b, mlir::Value buffer, unsigned axis);

// Booleans are bytes, an index is an address.
int64_t bytesOfElement(mlir::MemRefType type);
// An `index` as i64.
mlir::Value toInteger(RawBuilder &b, mlir::Value index);

} // namespace heddle

#endif
