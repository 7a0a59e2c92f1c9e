// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a memref is to the interpreter: a view of bytes that other views may share, as buffers of the memory plan do.
#ifndef HEDDLE_COMPILER_INTERPRETER_BUFFER_H
#define HEDDLE_COMPILER_INTERPRETER_BUFFER_H

#include "compiler/interpreter/Tensor.h"

#include <memory>

namespace heddle {

struct Buffer {
  std::shared_ptr<std::vector<uint8_t>> memory;
  int64_t offset = 0; // of the first element, in bytes
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape, strides; // strides in elements

  // Row-major and of its own; the bytes are NaN to floats until they are written.
  static Buffer allocate(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);
  static Buffer of(const Tensor &tensor);

  // Whether no element lies outside the memory.
  bool isInside() const;
  // Whether an element of both lies on the same bytes.
  bool overlaps(const Buffer &other) const;
  Tensor load() const;
  void store(const Tensor &tensor) const; // of the same shape
};

} // namespace heddle

#endif
