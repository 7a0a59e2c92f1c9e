// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of kernel ops that NVIDIA GPUs have kernels for.

#include "compiler/codegen/targets/cuda/CudaKernelTarget.h"

#include "compiler/codegen/halide/KernelCall.h"
#include "compiler/codegen/targets/cuda/CudaKernels.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;

CudaKernelTarget::CudaKernelTarget(const Target &target) : KernelTarget(target.name), target(target) {
  add<CombineSplitsOp>(cuda::combineSplits(gpu, opencl::combineSplits(target)));
  add<DequantizeOp>(opencl::dequantize(target));
  add<ExpertMatmulOp>(opencl::expertMatmul(target));
  add<KernelCallOp>(makeKernelCall(target));
  add<KvAppendOp>(opencl::kvAppend(target));
  add<OnlineAttentionOp>(cuda::onlineAttention(gpu, opencl::onlineAttention(target)));
  add<OnlineLatentAttentionOp>(opencl::onlineLatentAttention(target));
  add<PackedMatmulOp>(cuda::packedMatmul(gpu, opencl::packedMatmul(target)));
  add<RaggedAttentionOp>(opencl::raggedAttention(target));
  add<RaggedConvOp>(opencl::raggedConv(target));
  add<RaggedLinearAttentionOp>(cuda::raggedLinearAttention(gpu));
  add<RotateAppendOp>(cuda::rotateAppend(gpu));
  add<RouteExpertsOp>(opencl::routeExperts(target));
}
