// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a CPU computes with is there to read, each kernel once; a block of keys is a number of the kernel.
// RUN: sed s/BLOCK/64/ %s > %t64.mlir
// RUN: sed s/BLOCK/32/ %s > %t32.mlir
// RUN: sed s/BLOCK/8/ %s > %t8.mlir
// RUN: %heddle-opt %t64.mlir --heddle-emit-kernels=target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,B64
// RUN: %heddle-opt %t32.mlir --heddle-emit-kernels=target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,B32
// RUN: not %heddle-opt %t8.mlir --heddle-emit-kernels=target=x86-64-v4 -o %t 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not %heddle-opt %t64.mlir --heddle-emit-kernels=target=z80 -o %t 2>&1 | FileCheck %s --check-prefix=TARGET

// CHECK-NOT: func.func @step
// CHECK: func.func @matmul_q8_0_n32_k64(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr
// CHECK: scf.for
// CHECK: math.fma {{.*}} : vector<16xf32>
// CHECK-NOT: func.func @matmul
// CHECK: func.func @attention_h4_kv2_d16
// Scores of 72 rows of a tile, or half of that, in bytes.
// B64: arith.constant 24576 : i64
// B32-NOT: arith.constant 24576 : i64
// CHECK-NOT: heddle.

// BLOCK: error: target x86-64-v4 has no kernel for 'heddle.online_attention' in blocks of 8 keys
// TARGET: error: unknown target 'z80'

func.func @step(%x: memref<?x64xf32>, %w: memref<2304xi8>, %y: memref<?x32xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>,
                %layer: index, %out: memref<?x64xf32>) {
  heddle.packed_matmul ins(%x, %w : memref<?x64xf32>, memref<2304xi8>) outs(%y : memref<?x32xf32>) {format = "q8_0", k = 64, n = 32}
  heddle.packed_matmul ins(%x, %w : memref<?x64xf32>, memref<2304xi8>) outs(%y : memref<?x32xf32>) {format = "q8_0", k = 64, n = 32}
  heddle.online_attention <causal> ins(%x, %cache[%layer] : memref<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = BLOCK, share_kv = true}
  return
}
