// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A host function that enqueues kernels of a device: it is called as the CPU's kernel is, with the step behind that.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_HOSTKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_HOSTKERNEL_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/RawBuilder.h"

namespace heddle {

class HostKernel {
public:
  // Begins it at the end of `code`. The step comes behind `parameters`.
  HostKernel(mlir::Location loc, mlir::ModuleOp code, llvm::StringRef name, llvm::SmallVector<mlir::Type> parameters)
      : code(code), b(loc, code.getContext()) {
    parameters.push_back(b.pointerType());
    function = beginFunction(b, code, name, parameters);
    step = function.getArguments().back();
  }

  RawBuilder &builder() { return b; }
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

// One that knows what it is called with; `Base` is a HostKernel.
template <typename Call, typename Base = HostKernel> class HostKernelOf : public Base {
public:
  // `form`: of the call.
  HostKernelOf(mlir::Location loc, mlir::ModuleOp code, llvm::StringRef name, unsigned form = 0)
      : Base(loc, code, name, parameterTypes<Call>(code.getContext(), form)),
        call(argumentsOf<Call>(this->function, form)) {}

  const Call call;
};

} // namespace heddle

#endif
