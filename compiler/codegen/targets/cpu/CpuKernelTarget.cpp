// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of kernel ops that CPUs have kernels for: all.

#include "compiler/codegen/targets/cpu/CpuKernelTarget.h"

#include "compiler/codegen/halide/KernelCall.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace heddle;

CpuKernelTarget::CpuKernelTarget(const Target &target) : KernelTarget(target.name) {
  add<CombineSplitsOp>(cpu::combineSplits(target.cpu));
  add<DequantizeOp>(cpu::dequantize());
  add<ExpertMatmulOp>(cpu::expertMatmul(target.cpu));
  add<FlashAttentionOp>(cpu::flashAttention(target.cpu));
  add<IntegerMatmulOp>(cpu::integerMatmul(target.cpu));
  add<KernelCallOp>(makeKernelCall(target));
  add<KvAppendOp>(cpu::kvAppend(target.cpu));
  add<OnlineAttentionOp>(cpu::onlineAttention(target.cpu));
  add<OnlineLatentAttentionOp>(cpu::onlineLatentAttention(target.cpu));
  add<PackedMatmulOp>(cpu::packedMatmul(target.cpu));
  add<mlir::linalg::GenericOp>(cpu::product());
  add<RaggedAttentionOp>(cpu::raggedAttention(target.cpu));
  add<RaggedConvOp>(cpu::raggedConv(target.cpu));
  add<RaggedLinearAttentionOp>(cpu::raggedLinearAttention(target.cpu));
  add<RouteExpertsOp>(cpu::routeExperts());
}
