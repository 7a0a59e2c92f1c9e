// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over tensors and contractions of f32 have kernels as other ops do: one for all contractions, whichever strides they have,
// one for attention of each specification. Loops that are no contraction have none.
// RUN: %heddle-opt %s --heddle-emit-kernels=target=x86-64-v3 | FileCheck %s
// RUN: not %heddle-opt %s --heddle-emit-kernels=target=opencl -o %t 2>&1 | FileCheck %s --check-prefix=DEVICE

// CHECK-NOT: func.func @graph
// CHECK: func.func @contraction_f32(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64
// CHECK: math.fma {{.*}} : vector<16xf32>
// CHECK-NOT: func.func @product
// CHECK: func.func @flash_attention_h6_kv2_d8_w0_{{.*}}_full_v8_f32_f32(
// CHECK: func.func @flash_attention_h6_kv2_d8_w0_{{.*}}_full_v8_f32_f32_bias(
// CHECK-NOT: func.func

// DEVICE: error: target opencl has no kernel for 'linalg.generic'

#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#turned = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
#same = affine_map<(i, j) -> (i, j)>

func.func @graph(%a: memref<?x7xf32>, %b: memref<7x5xf32>, %t: memref<5x7xf32>, %c: memref<?x5xf32>,
                 %q: memref<1x6x?x8xf32>, %k: memref<1x2x?x8xf32>, %bias: memref<1x1x1x?xf32>, %o: memref<1x6x?x8xf32>) {
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x7xf32>, memref<7x5xf32>) outs(%c : memref<?x5xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#a, #turned, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %t : memref<?x7xf32>, memref<5x7xf32>) outs(%c : memref<?x5xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<?x5xf32>) outs(%c : memref<?x5xf32>) {
  ^bb0(%x: f32, %z: f32):
    %s = arith.mulf %x, %x : f32
    linalg.yield %s : f32
  }
  heddle.flash_attention <full> ins(%q, %k, %k : memref<1x6x?x8xf32>, memref<1x2x?x8xf32>, memref<1x2x?x8xf32>)
    outs(%o : memref<1x6x?x8xf32>) {scale = 0.35}
  heddle.flash_attention <full> ins(%q, %k, %k bias %bias : memref<1x6x?x8xf32>, memref<1x2x?x8xf32>, memref<1x2x?x8xf32>
      bias memref<1x1x1x?xf32>) outs(%o : memref<1x6x?x8xf32>) {scale = 0.35}
  heddle.flash_attention <full> ins(%q, %k, %k : memref<1x6x?x8xf32>, memref<1x2x?x8xf32>, memref<1x2x?x8xf32>)
    outs(%o : memref<1x6x?x8xf32>) {scale = 0.35}
  return
}
