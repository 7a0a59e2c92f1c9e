// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are written into a module of their own, which no pass sees. Here that module takes the place of the one that asks for them.

#include "compiler/codegen/Passes.h"
#include "compiler/codegen/host/KernelLibrary.h"
#include "compiler/codegen/targets/cuda/GpuKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace heddle {
#define GEN_PASS_DEF_EMITKERNELS
#include "compiler/codegen/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct EmitKernels : heddle::impl::EmitKernelsBase<EmitKernels> {
  using EmitKernelsBase::EmitKernelsBase;

  void runInStage() override {
    ModuleOp module = getOperation();
    std::string error;
    FailureOr<Target> target = parseTarget(targetName, error);
    if (failed(target)) {
      module.emitError(error);
      return signalPassFailure();
    }
    OwningOpRef<ModuleOp> code = ModuleOp::create(module.getLoc());
    KernelLibrary kernels(module, *code, *target);
    WalkResult result = module.walk([&](Operation *op) {
      if (!isKernelOp(op))
        return WalkResult::advance();
      return failed(kernels.kernels(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    module.getBody()->clear();
    module.getBodyRegion().takeBody(code->getBodyRegion());
    if (GpuKernels *gpu = kernels.gpuKernels())
      gpu->show(module);
  }
};
} // namespace
