// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel ops get the row of their target's table; a block of keys is the op's. Without a target there is nothing to choose for.
// RUN: split-file %s %t
// RUN: %heddle-opt %t/avx2.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: %heddle-opt %t/avx512.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,AVX512
// RUN: %heddle-opt %t/amx.mlir --heddle-assign-schedules=bf16-products | FileCheck %s --check-prefix=AMX
// RUN: %heddle-opt %t/amx.mlir --heddle-assign-schedules | FileCheck %s --check-prefix=PRECISE
// RUN: %heddle-opt %t/cuda.mlir --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: %heddle-opt %t/none.mlir --heddle-assign-schedules | FileCheck %s --check-prefix=NONE

// AVX2: <role = many_rows, rows = [6, 2, 1], columns = 16>
// AVX512: <role = many_rows, rows = [8, 4, 2, 1], columns = 48>
// AVX512-SAME: <role = int8, rows = [4, 2, 1], columns = 16>
// CUDA: warps = [2, 4], stages = 3
// Sums of attention that stay in registers; on a GPU a warp has 16 rows.
// AVX2: <role = registers, rows = [6], columns = 16, k = 1>
// AVX512: <role = registers, rows = [6], columns = 64, k = 1>
// CUDA: <role = rows, rows = [64], columns = 16, warps = [4, 1]>
// CHECK: blockKv = 32, splitKv = 512
// CHECK: heddle.packed_matmul {{.*}}heddle.schedule = #schedule{{.*}}
// CHECK: heddle.online_attention {{.*}}heddle.schedule = #schedule{{.*}}
// NONE-NOT: schedule

// Attention over a bf16 cache whose rows are pairs multiplies bf16 where products may; over others, and where they may not, f32.
// AMX-DAG: #[[PAIRS:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [192], columns = 16>, <role = registers, rows = [6], columns = 64, k = 2>]
// AMX-DAG: #[[F32:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [96], columns = 16>, <role = registers, rows = [6], columns = 64, k = 1>]
// AMX-DAG: #[[ODD:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [96], columns = 15>, <role = registers, rows = [6], columns = 64, k = 1>]
// AMX: heddle.online_attention {{.*}}2 x 2 x 16 x bf16{{.*}}heddle.schedule = #[[PAIRS]]
// AMX: heddle.online_attention {{.*}}2 x 2 x 16 x f16{{.*}}heddle.schedule = #[[F32]]
// AMX: heddle.online_attention {{.*}}2 x 2 x 15 x bf16{{.*}}heddle.schedule = #[[ODD]]
// PRECISE-NOT: k = 2
// PRECISE: heddle.online_attention

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

//--- amx.mlir
module attributes {heddle.target = #heddle.target<device = cpu, name = "sapphirerapids", lanes = 16, registers = 32, features = ["amx-tile", "amx-bf16"]>} {
func.func @kernels(%q: tensor<?x64xf32>, %bf16: !heddle.kv_cache<2 x 2 x 16 x bf16>, %f16: !heddle.kv_cache<2 x 2 x 16 x f16>,
                   %p: tensor<?x60xf32>, %odd: !heddle.kv_cache<2 x 2 x 15 x bf16>, %layer: index, %out: tensor<?x64xf32>,
                   %oddOut: tensor<?x60xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x60xf32>) {
  %0 = heddle.online_attention <causal> ins(%q, %bf16[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true} -> tensor<?x64xf32>
  %1 = heddle.online_attention <causal> ins(%q, %f16[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x f16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true} -> tensor<?x64xf32>
  %2 = heddle.online_attention <causal> ins(%p, %odd[%layer] : tensor<?x60xf32>, <2 x 2 x 15 x bf16>) outs(%oddOut : tensor<?x60xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true} -> tensor<?x60xf32>
  return %0, %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x60xf32>
}
}
