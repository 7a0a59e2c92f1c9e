// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of kernel ops that OpenCL devices have kernels for.

#include "compiler/codegen/targets/opencl/OpenClKernelTarget.h"

#include "compiler/codegen/halide/KernelCall.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;

OpenClKernelTarget::OpenClKernelTarget(const Target &target) : KernelTarget(target.name) {
  add<CombineSplitsOp>(opencl::combineSplits(target));
  add<DequantizeOp>(opencl::dequantize(target));
  add<ExpertMatmulOp>(opencl::expertMatmul(target));
  add<KernelCallOp>(makeKernelCall(target));
  add<KvAppendOp>(opencl::kvAppend(target));
  add<OnlineAttentionOp>(opencl::onlineAttention(target));
  add<OnlineLatentAttentionOp>(opencl::onlineLatentAttention(target));
  add<PackedMatmulOp>(opencl::packedMatmul(target));
  add<RaggedAttentionOp>(opencl::raggedAttention(target));
  add<RaggedConvOp>(opencl::raggedConv(target));
  add<RaggedLinearAttentionOp>(opencl::raggedLinearAttention(target));
  add<RotateAppendOp>(opencl::rotateAppend(target));
  add<RouteExpertsOp>(opencl::routeExperts(target));
}
