// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Host code that builds the buffers Halide's kernels take.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_BUFFERBUILDER_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_BUFFERBUILDER_H

#include "compiler/codegen/halide/BufferLayout.h"
#include "compiler/codegen/kernel/RawBuilder.h"

namespace heddle {

struct BufferElement {
  buffer_layout::TypeCode code;
  unsigned bits;
};
BufferElement bufferElement(mlir::Type type);

// Elements; i64, at most 2^31 - 1 each.
struct BufferDim {
  mlir::Value extent, stride;
};

// A halide_buffer_t on the stack, of memory at `pointer`, which is a device's address or the host's. Dimensions are innermost
// first.
mlir::Value buildBuffer(RawBuilder &b, bool onDevice, BufferElement element, mlir::Value pointer,
                        llvm::ArrayRef<BufferDim> dims);

} // namespace heddle

#endif
