// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A host function that enqueues kernels of a device: it takes what the CPU's kernel takes, and the step behind that.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_HOSTKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_HOST_HOSTKERNEL_H

#include "compiler/codegen/RawBuilder.h"

namespace heddle {

class HostKernel {
public:
  // Begins it at the end of `code`. `parameters`: 'p' a pointer, 'n' an i64, 't' an i32; the step comes behind them.
  HostKernel(mlir::Location loc, mlir::ModuleOp code, llvm::StringRef name, llvm::StringRef parameters)
      : code(code), b(loc, code.getContext()) {
    llvm::SmallVector<mlir::Type> types;
    for (char kind : parameters)
      types.push_back(kind == 'p'   ? b.pointerType()
                      : kind == 'n' ? mlir::Type(b.getI64Type())
                                    : mlir::Type(b.getI32Type()));
    types.push_back(b.pointerType());
    function = beginFunction(b, code, name, types);
    step = function.getArguments().back();
  }

  RawBuilder &builder() { return b; }
  mlir::Value argument(unsigned index) { return function.getArgument(index); }
  // Fields of the step.
  mlir::Value number(size_t offset) { return b.load(b.getI64Type(), b.at(step, offset)); }
  mlir::Value pointer(size_t offset) { return b.load(b.pointerType(), b.at(step, offset)); }
  mlir::func::FuncOp finish() {
    mlir::func::ReturnOp::create(b);
    return function;
  }

protected:
  mlir::ModuleOp code;
  RawBuilder b;
  mlir::func::FuncOp function;
  mlir::Value step;
};

} // namespace heddle

#endif
