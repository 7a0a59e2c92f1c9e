// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of activations with a packed weight matrix: out = act W^T [+ bias] [activation] [+ out].
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PACKEDMATMUL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PACKEDMATMUL_H

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/machine/Target.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// With the tiles of a CPU's schedule for products, adds to `module` the function `name`, called with a MatmulCall, with the list of rows where these are not Dense,
// which computes output columns [16 panelBegin, min(16 panelEnd, N)) of every row. An element's bits depend on its row
// of `act` and of W alone: not on `rows` (but for int16FewRows), the slice of panels, the row's place nor, but for Bf16, the
// target. It takes up to 416 KiB of stack.
// Panels are those of `out`: gated, a pair of W's. Fails, with an error at the module, for integer activations with weights
// that are not quantised, Bf16 ones with weights that are neither quantised nor bf16, and for a gated product with bias.
mlir::FailureOr<mlir::func::FuncOp> buildMatmul(mlir::ModuleOp module, llvm::StringRef name, const MatmulSpec &spec,
                                                ScheduleAttr schedule, const CpuTarget &target);

// Of an op that is a product with a packed matrix: `packed_matmul`, or `expert_matmul`, whose rows are a list.
template <typename Op> class MatmulKernelEmitter : public KernelEmitterOf<Op> {
public:
  explicit MatmulKernelEmitter(const CpuTarget &target) : target(target) {}

protected:
  mlir::FailureOr<std::string> nameOf(Op op) const override { return signatureOf(op); }
  mlir::FailureOr<Kernels> build(Op op, ScheduleAttr schedule, llvm::StringRef name,
                                 KernelModule &module) const override {
    mlir::FailureOr<MatmulSpec> spec = specOf(op);
    if (mlir::failed(spec))
      return mlir::failure();
    return oneKernel(module.once(name, [&] { return buildMatmul(module.code, name, *spec, schedule, target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace heddle

#endif
