// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sinks as exporters fold them where sizes are known: repeated for every row.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!heads = tensor<2x3x8xf32>
!scores = tensor<2x3x3xf32>
!logits = tensor<2x3x4xf32>

func.func private @attend(%q: !heads, %k: !heads, %v: !heads, %sinks: tensor<2x3x1xf32>) -> !heads {
  %zero = arith.constant 0.0 : f32
  %turned = tensor.empty() : tensor<2x8x3xf32>
  %kt = linalg.transpose ins(%k : !heads) outs(%turned : tensor<2x8x3xf32>) permutation = [0, 2, 1]
  %init = tensor.empty() : !scores
  %start = linalg.fill ins(%zero : f32) outs(%init : !scores) -> !scores
  %s = linalg.batch_matmul ins(%q, %kt : !heads, tensor<2x8x3xf32>) outs(%start : !scores) -> !scores
  %all = tensor.concat dim(2) %s, %sinks : (!scores, tensor<2x3x1xf32>) -> !logits
  %like = tensor.empty() : !logits
  %p = linalg.softmax dimension(2) ins(%all : !logits) outs(%like : !logits) -> !logits
  %kept = tensor.extract_slice %p[0, 0, 0] [2, 3, 3] [1, 1, 1] : !logits to !scores
  %rows = tensor.empty() : !heads
  %none = linalg.fill ins(%zero : f32) outs(%rows : !heads) -> !heads
  %o = linalg.batch_matmul ins(%kept, %v : !scores, !heads) outs(%none : !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @repeated_for_every_row
// CHECK: heddle.attention {{.*}} sinks(%{{.*}} : tensor<2xf32>) <full>
func.func @repeated_for_every_row(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %sinks = arith.constant dense<[[[0.5], [0.5], [0.5]], [[-1.0], [-1.0], [-1.0]]]> : tensor<2x3x1xf32>
  %o = call @attend(%q, %k, %v, %sinks) : (!heads, !heads, !heads, tensor<2x3x1xf32>) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @one_number_for_all
// CHECK: heddle.attention {{.*}} sinks(%{{.*}} : tensor<2xf32>) <full>
func.func @one_number_for_all(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %sinks = arith.constant dense<0.5> : tensor<2x3x1xf32>
  %o = call @attend(%q, %k, %v, %sinks) : (!heads, !heads, !heads, tensor<2x3x1xf32>) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @another_number_in_one_row
// CHECK-NOT: heddle.attention
// CHECK: return
// MISS: not fused: {{.*}}one more logit than it has keys
func.func @another_number_in_one_row(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %sinks = arith.constant dense<[[[0.5], [0.5], [0.5]], [[-1.0], [-1.0], [-1.5]]]> : tensor<2x3x1xf32>
  %o = call @attend(%q, %k, %v, %sinks) : (!heads, !heads, !heads, tensor<2x3x1xf32>) -> !heads
  return %o : !heads
}
