// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels | FileCheck %s
// RUN: %heddle-opt %s --heddle-lower-to-kernels --heddle-assign-schedules=activations=int8 | FileCheck %s --check-prefix=INT8

// An expert's gate and up projection lie together; experts one after the other.
// CHECK-LABEL: @step
// CHECK-NOT: heddle.moe
// CHECK-DAG: %[[R:.*]] = heddle.weight "router"
// CHECK-DAG: %[[G0:.*]] = heddle.weight "gate.0"
// CHECK-DAG: %[[U0:.*]] = heddle.weight "up.0"
// CHECK-DAG: %[[D0:.*]] = heddle.weight "down.0"
// CHECK-DAG: %[[G1:.*]] = heddle.weight "gate.1"
// CHECK-DAG: %[[U1:.*]] = heddle.weight "up.1"
// CHECK-DAG: %[[D1:.*]] = heddle.weight "down.1"
// CHECK: %[[GATE_UP:.*]] = heddle.pack <interleaved> "q8_0"(%[[G0]], %[[U0]], %[[G1]], %[[U1]] : {{.*}}) {group = 2 : i64} -> tensor<8704xi8>
// CHECK: %[[DOWN:.*]] = heddle.pack <interleaved> "q8_0"(%[[D0]], %[[D1]] : {{.*}}) {group = 1 : i64} -> tensor<4608xi8>
// CHECK: %[[ROUTER:.*]] = heddle.pack <stacked> "f32"(%[[R]] : tensor<2x64xf32>)
// CHECK: %[[LOGITS:.*]] = heddle.packed_matmul ins(%[[X:.*]], %[[ROUTER]]
// CHECK: %[[LIST:.*]]:5 = heddle.route_experts ins(%[[LOGITS]]
// CHECK: %[[HIDDEN:.*]] = heddle.expert_matmul activated <silu> ins(%[[X]], %[[GATE_UP]] {{.*}} list(%[[LIST]]#2, %[[LIST]]#3, %[[LIST]]#4
// CHECK: %[[RESULT:.*]] = heddle.expert_matmul ins(%[[HIDDEN]], %[[DOWN]]
// CHECK-NOT: accumulate
// CHECK: return %[[RESULT]]

// Routing decides in f32: its weights are not quantised.
// INT8-LABEL: @step
// INT8: heddle.packed_matmul ins(%{{.*}}, %{{.*}} : tensor<?x64xf32>
// INT8: expert_matmul activated <silu> ins({{.*}} : tensor<?x64xi8> scales
// INT8: expert_matmul ins({{.*}} : tensor<?x32xi8> scales
func.func @step(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %r = heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x64xf32>
  %g0 = heddle.weight "gate.0" <type = "q8_0", file = 0, offset = 1024> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u0 = heddle.weight "up.0" <type = "q8_0", file = 0, offset = 4096> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %d0 = heddle.weight "down.0" <type = "q8_0", file = 0, offset = 8192> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %g1 = heddle.weight "gate.1" <type = "q8_0", file = 0, offset = 12288> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u1 = heddle.weight "up.1" <type = "q8_0", file = 0, offset = 16384> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %d1 = heddle.weight "down.1" <type = "q8_0", file = 0, offset = 20480> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %0 = heddle.moe <silu> %x, %r gates(%g0, %g1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>) ups(%u0, %u1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>)
    downs(%d0, %d1 : tensor<64x32xf32, #heddle.quant<q8_0>>, tensor<64x32xf32, #heddle.quant<q8_0>>) {top_k = 1 : i64, normalize = true} : tensor<?x64xf32>, tensor<2x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// A residual that nothing reads afterwards is what experts add to.
// CHECK-LABEL: @residual(
// CHECK-SAME: %{{.*}}: tensor<?x64xf32>, %[[RESIDUAL:.*]]: tensor<?x64xf32>
// CHECK: heddle.expert_matmul ins({{.*}} outs(%[[RESIDUAL]] : tensor<?x64xf32>) {accumulate,
// CHECK-NOT: arith.addf
func.func @residual(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %r = heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x64xf32>
  %g0 = heddle.weight "gate.0" <type = "q8_0", file = 0, offset = 1024> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u0 = heddle.weight "up.0" <type = "q8_0", file = 0, offset = 4096> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %d0 = heddle.weight "down.0" <type = "q8_0", file = 0, offset = 8192> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %g1 = heddle.weight "gate.1" <type = "q8_0", file = 0, offset = 12288> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %u1 = heddle.weight "up.1" <type = "q8_0", file = 0, offset = 16384> : tensor<32x64xf32, #heddle.quant<q8_0>>
  %d1 = heddle.weight "down.1" <type = "q8_0", file = 0, offset = 20480> : tensor<64x32xf32, #heddle.quant<q8_0>>
  %0 = heddle.moe <silu> %x, %r gates(%g0, %g1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>) ups(%u0, %u1 : tensor<32x64xf32, #heddle.quant<q8_0>>, tensor<32x64xf32, #heddle.quant<q8_0>>)
    downs(%d0, %d1 : tensor<64x32xf32, #heddle.quant<q8_0>>, tensor<64x32xf32, #heddle.quant<q8_0>>) {top_k = 1 : i64, normalize = true} : tensor<?x64xf32>, tensor<2x64xf32> -> tensor<?x64xf32>
  %1 = arith.addf %y, %0 : tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}
