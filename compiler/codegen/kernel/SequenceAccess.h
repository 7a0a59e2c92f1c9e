// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle_sequence as kernels read it.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_SEQUENCEACCESS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_SEQUENCEACCESS_H

#include "compiler/codegen/kernel/RawBuilder.h"

namespace heddle {

// One sequence of the step; numbers are i64.
struct SequenceValues {
  mlir::Value firstRow, numRows, past;
  mlir::Value length;    // past + numRows
  mlir::Value pages;     // array of page pointers
  mlir::Value seesAhead; // not 0: its rows see each other in both directions; null where it is read as tensors
};

// sequences[index]
SequenceValues loadSequence(RawBuilder &builder, mlir::Value sequences, mlir::Value index);

// sequence.pages[page]
mlir::Value loadPage(RawBuilder &builder, mlir::Value pages, mlir::Value page);

} // namespace heddle

#endif
