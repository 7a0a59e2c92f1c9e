// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-assign-schedules=bf16-products | FileCheck %s
// RUN: sed 's/device = cuda, name = "cuda:sm_80"/device = opencl, name = "opencl"/' %s | %heddle-opt --heddle-assign-schedules | FileCheck %s --check-prefix=OPENCL

module attributes {heddle.target = #heddle.target<device = cuda, name = "cuda:sm_80">} {

// A norm that one product reads is the product's, rounded where that multiplies bf16.
// CHECK-LABEL: @norm
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[G:.*]]: tensor<64xf32>
// CHECK: %[[ROOM:.*]] = tensor.empty(%{{.*}}) : tensor<?x64xbf16>
// CHECK: heddle.packed_matmul ins(%[[X]], %{{.*}} norm %[[G]] : {{.*}} outs(%{{.*}}, %[[ROOM]] : tensor<?x32xf32>, tensor<?x64xbf16>) {eps = 1.000000e-05 : f64, {{.*}}weight_offset = 1.000000e+00 : f64}
// CHECK-NOT: heddle.rms_norm
// CHECK: return
// OPENCL-LABEL: @norm
// OPENCL: heddle.packed_matmul ins(%{{.*}} norm %{{.*}} outs(%{{.*}} : tensor<?x32xf32>, tensor<?x64xf32>)
// OPENCL-NOT: heddle.rms_norm
// OPENCL: return
func.func private @norm(%x: tensor<?x64xf32>, %g: tensor<64xf32>, %w: tensor<4096xi8>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %n = heddle.rms_norm %x, %g {eps = 1.0e-5, weight_offset = 1.0} : tensor<?x64xf32>, tensor<64xf32>
  %y = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "bf16"} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// What is not rounded is normalised in f32; asking for the size of a norm is not reading it.
// CHECK-LABEL: @norm_of_codes
// CHECK: heddle.packed_matmul ins({{.*}} norm {{.*}} outs({{.*}} : tensor<?x32xf32>, tensor<?x64xf32>)
// CHECK-NOT: heddle.rms_norm
func.func private @norm_of_codes(%x: tensor<?x64xf32>, %g: tensor<64xf32>, %w: tensor<4096xi8>) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %n = heddle.rms_norm %x, %g {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %rows = tensor.dim %n, %c0 : tensor<?x64xf32>
  %out = tensor.empty(%rows) : tensor<?x32xf32>
  %y = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "q4_0"} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// A weight that is no f32 of the model stays with its norm.
// CHECK-LABEL: @of_a_constant
// CHECK: heddle.rms_norm
func.func private @of_a_constant(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %g = arith.constant dense<1.0> : tensor<64xf32>
  %n = heddle.rms_norm %x, %g {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %y = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "q4_0"} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// Two products read the norm once.
// CHECK-LABEL: @two_readers
// CHECK: %[[N:.*]] = heddle.rms_norm
// CHECK: arith.truncf %[[N]]
func.func private @two_readers(%x: tensor<?x64xf32>, %g: tensor<64xf32>, %w: tensor<4096xi8>, %out: tensor<?x32xf32>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %n = heddle.rms_norm %x, %g {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %y = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "bf16"} -> tensor<?x32xf32>
  %z = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "bf16"} -> tensor<?x32xf32>
  return %y, %z : tensor<?x32xf32>, tensor<?x32xf32>
}

// What another kernel leaves is rounded by the product that reads it; what rows are computed with is rounded there.
// CHECK-LABEL: @of_a_product
// CHECK: %[[Y:.*]]:2 = heddle.packed_matmul activated <gelu> ins(
// CHECK: heddle.packed_matmul ins(%[[Y]]#0, {{.*}} outs({{.*}} : tensor<?x64xf32>, tensor<?x64xbf16>) {format
// CHECK-NOT: arith.truncf
// CHECK: return
func.func private @of_a_product(%x: tensor<?x64xf32>, %w: tensor<8192xi8>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = heddle.packed_matmul activated <gelu> ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16"} -> tensor<?x64xf32>
  %z = heddle.packed_matmul ins(%y, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16"} -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// CHECK-LABEL: @of_a_gate
// CHECK: %[[G:.*]] = heddle.glu
// CHECK: arith.truncf %[[G]]
func.func private @of_a_gate(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %g = heddle.glu <silu> %x, %x : tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%g, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x32xf32>) {n = 32, k = 64, format = "bf16"} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// The residual that a norm read before becomes something else before the product, or in it.
// CHECK-LABEL: @of_what_is_added_to
// CHECK: %[[N:.*]] = heddle.rms_norm
// CHECK: arith.truncf %[[N]]
// CHECK: accumulate
// CHECK-NOT: norm %
// CHECK: return
func.func private @of_what_is_added_to(%x: tensor<?x64xf32>, %a: tensor<?x64xf32>, %g: tensor<64xf32>, %w: tensor<8192xi8>, %out: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %n = heddle.rms_norm %x, %g {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %sum = heddle.packed_matmul ins(%a, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%x : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16", accumulate} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%n, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16"} -> tensor<?x64xf32>
  return %sum, %y : tensor<?x64xf32>, tensor<?x64xf32>
}
}
