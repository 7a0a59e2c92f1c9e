// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels --verify-diagnostics | FileCheck %s

// One kernel serves all experts of a role: where their types differ, it reads f32. The other role keeps its type.
// CHECK-LABEL: @gates_and_ups_of_two_types
// CHECK: %[[GATE_UP:.*]] = heddle.pack <interleaved> "f32"({{.*}}) {group = 2 : i64} -> tensor<32768xi8>
// CHECK: %[[DOWN:.*]] = heddle.pack <interleaved> "q8_0"({{.*}}) {group = 1 : i64} -> tensor<4608xi8>
// CHECK: heddle.expert_matmul activated <silu> ins(%{{.*}}, %[[GATE_UP]] {{.*}}format = "f32"
// CHECK: heddle.expert_matmul ins(%{{.*}}, %[[DOWN]] {{.*}}format = "q8_0"
func.func @gates_and_ups_of_two_types(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %r = heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x64xf32>
  %g0 = heddle.weight "gate.0" <type = "q8_0", file = 0, offset = 1024> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u0 = heddle.weight "up.0" <type = "q4_0", file = 0, offset = 4096> : tensor<32x64xf32, #heddle.quant<q4_0>>
  %d0 = heddle.weight "down.0" <type = "q8_0", file = 0, offset = 8192> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %g1 = heddle.weight "gate.1" <type = "q8_0", file = 0, offset = 12288> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u1 = heddle.weight "up.1" <type = "q4_0", file = 0, offset = 16384> : tensor<32x64xf32, #heddle.quant<q4_0>>
  %d1 = heddle.weight "down.1" <type = "q8_0", file = 0, offset = 20480> : tensor<64x32xf32, #heddle.quant<q8_0>>
  // expected-remark @+1 {{experts' gate and up matrices are of several stored types: packed as f32}}
  %0 = heddle.moe <silu> %x, %r gates(%g0, %g1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>) ups(%u0, %u1 : tensor<32x64xf32, #heddle.quant<q4_0>>, tensor<32x64xf32, #heddle.quant<q4_0>>)
    downs(%d0, %d1 : tensor<64x32xf32, #heddle.quant<q8_0>>, tensor<64x32xf32, #heddle.quant<q8_0>>) {top_k = 1 : i64, normalize = true} : tensor<?x64xf32>, tensor<2x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
