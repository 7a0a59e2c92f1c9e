// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-pack-weights --verify-diagnostics -o %t

func.func @one_kernel_serves_all_experts(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %r = heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x64xf32>
  %g0 = heddle.weight "gate.0" <type = "q8_0", file = 0, offset = 1024> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u0 = heddle.weight "up.0" <type = "q4_0", file = 0, offset = 4096> : tensor<32x64xf32, #heddle.quant<q4_0>>
  %d0 = heddle.weight "down.0" <type = "q8_0", file = 0, offset = 8192> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %g1 = heddle.weight "gate.1" <type = "q8_0", file = 0, offset = 12288> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u1 = heddle.weight "up.1" <type = "q4_0", file = 0, offset = 16384> : tensor<32x64xf32, #heddle.quant<q4_0>>
  %d1 = heddle.weight "down.1" <type = "q8_0", file = 0, offset = 20480> : tensor<64x32xf32, #heddle.quant<q8_0>>
  // expected-error @+1 {{experts must be stored alike}}
  %0 = heddle.moe <silu> %x, %r gates(%g0, %g1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>) ups(%u0, %u1 : tensor<32x64xf32, #heddle.quant<q4_0>>, tensor<32x64xf32, #heddle.quant<q4_0>>)
    downs(%d0, %d1 : tensor<64x32xf32, #heddle.quant<q8_0>>, tensor<64x32xf32, #heddle.quant<q8_0>>) {top_k = 1 : i64, normalize = true} : tensor<?x64xf32>, tensor<2x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
