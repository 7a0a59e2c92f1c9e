// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of a GPU: its kernels, and the host functions that launch them.
// RUN: %heddle-opt %s --heddle-emit-kernels=target=cuda:sm_80 | FileCheck %s --check-prefix=CUDA
// RUN: %heddle-opt %s --heddle-emit-kernels=target=opencl | FileCheck %s --check-prefix=OPENCL

// CUDA: func.func @attention_h4_kv2_d16{{.*}}(
// CUDA: gpu.module @kernels
// CUDA: gpu.func @attention_h4_kv2_d16{{.*}}_gpu(
// CUDA: nvvm.mma.sync
// OPENCL: func.func private @attention_h4_kv2_d16{{.*}}_device(
// OPENCL: func.func @attention_h4_kv2_d16{{.*}}(
// OPENCL-NOT: gpu.module
func.func @step(%x: memref<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: memref<?x64xf32>) {
  heddle.online_attention <causal> ins(%x, %cache[%layer] : memref<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true}
  return
}
