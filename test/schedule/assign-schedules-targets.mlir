// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel ops get the row of their target's table; a block of keys is the op's. Without a target there is nothing to choose for.
// RUN: split-file %s %t
// RUN: %heddle-opt %t/avx2.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: %heddle-opt %t/avx512.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,AVX512
// RUN: %heddle-opt %t/cuda.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: %heddle-opt %t/none.mlir --heddle-assign-schedules | FileCheck %s --check-prefix=NONE

// AVX2: <role = many_rows, rows = [6, 2, 1], columns = 16>
// AVX512: <role = many_rows, rows = [8, 4, 2, 1], columns = 48>
// AVX512-SAME: <role = int8, rows = [4, 2, 1], columns = 16>
// CUDA: warps = [2, 4], stages = 3
// Sums of attention that stay in registers; on a GPU a warp has 16 rows.
// AVX2: <role = registers, rows = [6], columns = 16>
// AVX512: <role = registers, rows = [6], columns = 64>
// CUDA: <role = rows, rows = [64], columns = 16, warps = [4, 1]>
// CHECK: blockKv = 32, splitKv = 512
// CHECK: heddle.packed_matmul {{.*}}heddle.schedule = #schedule{{.*}}
// CHECK: heddle.online_attention {{.*}}heddle.schedule = #schedule{{.*}}
// NONE-NOT: schedule

//--- avx2.mlir
module attributes {heddle.target = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2"]>} {
func.func @kernels(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>, %q: tensor<?x64xf32>,
                   %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x64xf32>) {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 32, share_kv = true} -> tensor<?x64xf32>
  return %y, %o : tensor<?x32xf32>, tensor<?x64xf32>
}
}

//--- avx512.mlir
module attributes {heddle.target = #heddle.target<device = cpu, name = "x86-64-v4", lanes = 16, registers = 32>} {
func.func @kernels(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>, %q: tensor<?x64xf32>,
                   %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x64xf32>) {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 32, share_kv = true} -> tensor<?x64xf32>
  return %y, %o : tensor<?x32xf32>, tensor<?x64xf32>
}
}

//--- cuda.mlir
module attributes {heddle.target = #heddle.target<device = cuda, name = "cuda:sm_80">} {
func.func @kernels(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>, %q: tensor<?x64xf32>,
                   %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x64xf32>) {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 32, share_kv = true} -> tensor<?x64xf32>
  return %y, %o : tensor<?x32xf32>, tensor<?x64xf32>
}
}

//--- none.mlir
module {
func.func @kernels(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>, %q: tensor<?x64xf32>,
                   %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x64xf32>) {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 32, share_kv = true} -> tensor<?x64xf32>
  return %y, %o : tensor<?x32xf32>, tensor<?x64xf32>
}
}
