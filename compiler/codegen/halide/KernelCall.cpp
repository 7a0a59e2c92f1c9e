// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Halide's kernels come as objects; the module of code only declares them.

#include "compiler/codegen/halide/KernelCall.h"

#include "compiler/codegen/halide/HalideEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"

using namespace mlir;
using namespace heddle;

namespace {

class KernelCall : public KernelEmitterOf<KernelCallOp> {
public:
  explicit KernelCall(const Target &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(KernelCallOp op) const override { return op.getCallee().str(); }
  FailureOr<Kernels> build(KernelCallOp op, ScheduleAttr schedule, StringRef name, KernelModule &module) const override;

private:
  const Target &target;
};

} // namespace

FailureOr<Kernels> KernelCall::build(KernelCallOp op, ScheduleAttr schedule, StringRef name,
                                     KernelModule &module) const {
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    auto kernel = module.source.lookupSymbol<func::FuncOp>(name);
    if (failed(module.addObject(name, emitHalideKernel(kernel, schedule, target, name))))
      return failure();
    OpBuilder b(module.code.getContext());
    b.setInsertionPointToEnd(module.code.getBody());
    SmallVector<Type> parameters(op.getNumOperands() + target.isDevice(), LLVM::LLVMPointerType::get(b.getContext()));
    auto declaration = func::FuncOp::create(b, op.getLoc(), name, b.getFunctionType(parameters, {b.getI32Type()}));
    declaration.setPrivate();
    return declaration;
  }));
}

std::unique_ptr<KernelEmitter> heddle::makeKernelCall(const Target &target) {
  return std::make_unique<KernelCall>(target);
}
