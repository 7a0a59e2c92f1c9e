// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where host code finds what a kernel is called with, in a step as in a graph.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_CALLSOURCE_H
#define HEDDLE_COMPILER_CODEGEN_HOST_CALLSOURCE_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "dialect/HeddleDialect.h"

namespace heddle {

class CallSource {
public:
  virtual ~CallSource() = default;
  // Numbers are i64.
  virtual mlir::Value number(int64_t value) = 0;
  // The first element of a buffer; no value where there is no buffer.
  virtual mlir::Value pointer(mlir::Value buffer) = 0;
  virtual mlir::Value rows(mlir::Value buffer) = 0;
  // Elements from a row to the next.
  virtual mlir::Value rowStride(mlir::Value buffer) = 0;
};

// Calls for all of the work: `end` is the number of equal parts that threads may divide.
MatmulCall callOf(PackedMatmulOp op, CallSource &source);
EmbeddingCall callOf(DequantizeOp op, CallSource &source);

} // namespace heddle

#endif
