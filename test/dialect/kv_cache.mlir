// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK: func.func private @types(!heddle.kv_cache<30 x 3 x 64 x bf16>, !heddle.kv_cache<1 x 1 x 24 x f32>, !heddle.kv_cache<2 x 8 x 80 x f16>)
func.func private @types(!heddle.kv_cache<30 x 3 x 64 x bf16>, !heddle.kv_cache<1 x 1 x 24 x f32>, !heddle.kv_cache<2 x 8 x 80 x f16>)

// CHECK: func.func private @latent(!heddle.kv_cache<27 x 1 x 576 x bf16, latent = 512>, !heddle.kv_cache<1 x 1 x 7 x f32, latent = 7>)
func.func private @latent(!heddle.kv_cache<27 x 1 x 576 x bf16, latent = 512>, !heddle.kv_cache<1 x 1 x 7 x f32, latent = 7>)

// CHECK: func.func private @cross(!heddle.kv_cache<6 x 8 x 64 x f32 cross>, !heddle.kv_cache<6 x 8 x 64 x i8 cross>)
func.func private @cross(!heddle.kv_cache<6 x 8 x 64 x f32 cross>, !heddle.kv_cache<6 x 8 x 64 x i8 cross>)

// CHECK: func.func private @blocks(!heddle.kv_cache<2 x 8 x 96 x i8>)
func.func private @blocks(!heddle.kv_cache<2 x 8 x 96 x i8>)

// CHECK: func.func private @parts(!heddle.kv_cache<2 x 8 x 96 x bf16>, !heddle.kv_cache<1 x 4 x 192 x bf16 begin = 393216>)
func.func private @parts(!heddle.kv_cache<2 x 8 x 96 x bf16>, !heddle.kv_cache<1 x 4 x 192 x bf16 begin = 393216>)

// CHECK: func.func private @states(!heddle.kv_cache<10 x 1 x 4096 x f32 state>, !heddle.kv_cache<1 x 1 x 7 x f32 state begin = 64>)
func.func private @states(!heddle.kv_cache<10 x 1 x 4096 x f32 state>, !heddle.kv_cache<1 x 1 x 7 x f32 state begin = 64>)
