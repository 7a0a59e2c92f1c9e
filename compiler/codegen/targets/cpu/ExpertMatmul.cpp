// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of each expert's weights with the rows that chose it: those of `packed_matmul`, with a list of rows.

#include "compiler/codegen/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"

using namespace mlir;
using namespace heddle;

namespace {

class ExpertMatmul : public KernelEmitterOf<ExpertMatmulOp> {
public:
  explicit ExpertMatmul(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(ExpertMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(ExpertMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    FailureOr<MatmulSpec> spec = specOf(op);
    if (failed(spec))
      return failure();
    return oneKernel(module.once(name, [&] { return buildMatmul(module.code, name, *spec, schedule, target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::expertMatmul(const CpuTarget &target) {
  return std::make_unique<ExpertMatmul>(target);
}
