// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of any device for what is more than causal attention and products: each host function enqueues pipelines of Halide's.
// RUN: split-file %s %t
// RUN: %heddle-opt %t/terms.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/terms.mlir
// RUN: %heddle-opt %t/code.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/code.mlir
// RUN: %heddle-opt %t/code.mlir --heddle-emit-kernels=target=cuda:sm_80 | FileCheck %t/code.mlir
// RUN: %heddle-opt %t/sources.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/sources.mlir
// RUN: %heddle-opt %t/experts.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/experts.mlir
// RUN: %heddle-opt %t/ragged.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/ragged.mlir
// RUN: %heddle-opt %t/latent.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/latent.mlir
// RUN: %heddle-opt %t/latent.mlir --heddle-emit-kernels=target=cuda:sm_80 | FileCheck %t/latent.mlir
// RUN: %heddle-opt %t/splits.mlir --heddle-emit-kernels=target=opencl | FileCheck %t/splits.mlir

//--- terms.mlir
// Sinks and slopes are buffers behind the pages: device, query, two planes, three places, two terms, result.
// CHECK: func.func private @[[DEVICE:attention_h4_kv2_d16.*_sinks_slopes_rows8_device]](
// CHECK: func.func @attention_h4_kv2_d16{{.*}}_sinks_slopes(
// CHECK: call @[[DEVICE]]({{(%[a-z0-9_]+, ){9}%[a-z0-9_]+}})
func.func @step(%x: memref<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x f32>, %layer: index, %slopes: memref<4xf32>,
                %sinks: memref<4xf32>, %out: memref<?x64xf32>) {
  heddle.online_attention <causal> ins(%x, %cache[%layer] positions %slopes sinks %sinks
      : memref<?x64xf32>, <2 x 2 x 16 x f32> positions memref<4xf32>, memref<4xf32>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true}
  return
}

//--- code.mlir
// Slopes that the host's code holds are in the kernel's, since a device does not read that memory: other slopes, another kernel.
// CHECK-COUNT-2: func.func private @attention_h4_kv2_d16{{.*}}_slopes_{{[0-9A-F]+}}_rows8_device(
// CHECK: call @attention_h4_kv2_d16{{.*}}_device({{(%[a-z0-9_]+, ){7}%[a-z0-9_]+}})
memref.global "private" constant @some : memref<4xf32> = dense<[0.5, 0.25, 0.125, 0.0625]>
memref.global "private" constant @others : memref<4xf32> = dense<[0.5, 0.25, 0.125, 0.0]>
func.func @step(%x: memref<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x f32>, %layer: index, %out: memref<?x64xf32>) {
  %some = memref.get_global @some : memref<4xf32>
  heddle.online_attention <causal> ins(%x, %cache[%layer] positions %some
      : memref<?x64xf32>, <2 x 2 x 16 x f32> positions memref<4xf32>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true}
  %others = memref.get_global @others : memref<4xf32>
  heddle.online_attention <causal> ins(%x, %cache[%layer] positions %others
      : memref<?x64xf32>, <2 x 2 x 16 x f32> positions memref<4xf32>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true}
  return
}

//--- sources.mlir
// The cache of sources has other kernels than the sequences' own: the lengths of sources are one buffer more.
// CHECK: func.func private @[[DEVICE:attention_h4_kv4_d16.*_full_sources_rows8_device]](
// CHECK: func.func @attention_h4_kv4_d16{{.*}}_full_sources(
// CHECK: call @[[DEVICE]]({{(%[a-z0-9_]+, ){8}%[a-z0-9_]+}})
func.func @step(%x: memref<?x64xf32>, %cache: !heddle.kv_cache<2 x 4 x 16 x f32 cross>, %layer: index, %out: memref<?x64xf32>) {
  heddle.online_attention <full> ins(%x, %cache[%layer] : memref<?x64xf32>, <2 x 4 x 16 x f32 cross>) outs(%out : memref<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true}
  return
}

//--- experts.mlir
// The host knows of no list: it launches products for all experts at once.
// CHECK-DAG: func.func @route_e8_k2_normalize(
// CHECK-DAG: func.func private @route_e8_k2_normalize_experts_device(
// CHECK-DAG: func.func private @route_e8_k2_normalize_weights_device(
// CHECK-DAG: func.func @route_e8_k2_normalize_scaled(
// CHECK-DAG: func.func private @route_e8_k2_normalize_scaled_weights_device(
// CHECK-DAG: func.func @group_e8_k2(
// CHECK-DAG: func.func private @group_e8_k2_offsets_device(
// CHECK-DAG: func.func private @group_e8_k2_rows_device(
// CHECK-DAG: func.func private @group_e8_k2_scales_device(
// CHECK-DAG: func.func @experts_f32_n16_k32_silu_e8(
// CHECK-DAG: func.func @experts_f32_n32_k16_e8_add(
func.func @step(%logits: memref<?x8xf32>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %f: memref<?x9xi32>, %i: memref<?x2xi32>,
                %s: memref<?x2xf32>, %x: memref<?x32xf32>, %up: memref<32768xi8>, %h: memref<?x32xf32>, %down: memref<16384xi8>, %p: memref<8xf32>) {
  heddle.route_experts ins(%logits : memref<?x8xf32>) scales(%p : memref<8xf32>)
    outs(%e, %w, %f, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>)
    {num_experts = 8, top_k = 2, normalize = true}
  heddle.route_experts ins(%logits : memref<?x8xf32>)
    outs(%e, %w, %f, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>)
    {num_experts = 8, top_k = 2, normalize = true}
  heddle.expert_matmul activated <silu> ins(%x, %up : memref<?x32xf32>, memref<32768xi8>)
    list(%f, %i, %s : memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>) outs(%h : memref<?x32xf32>)
    {num_experts = 8, top_k = 2, n = 16, k = 32, format = "f32"}
  heddle.expert_matmul ins(%h, %down : memref<?x32xf32>, memref<16384xi8>)
    list(%f, %i, %s : memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>) outs(%x : memref<?x32xf32>)
    {num_experts = 8, top_k = 2, n = 32, k = 16, format = "f32", accumulate}
  return
}

//--- ragged.mlir
// CHECK: func.func private @[[DEVICE:ragged_attention_h6_kv2_d8.*_full_v8_rows8_device]](
// CHECK: func.func @ragged_attention_h6_kv2_d8{{.*}}_full_v8(
// CHECK: call @[[DEVICE]]({{(%[a-z0-9_]+, ){6}%[a-z0-9_]+}})
func.func @encode(%q: memref<?x48xf32>, %k: memref<?x16xf32>, %v: memref<?x16xf32>, %sequences: memref<?x2xi32>, %out: memref<?x48xf32>) {
  heddle.ragged_attention <full> ins(%q, %k, %v, %sequences : memref<?x48xf32>, memref<?x16xf32>, memref<?x16xf32>, memref<?x2xi32>)
    outs(%out : memref<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 0.35}
  return
}

//--- latent.mlir
// Whatever the form, queries are folded: the transposed matrices of keys are read where they are not there.
// CHECK: func.func @latent_h2_kv2_r7_n5_p4_v3_{{.*}}(
// CHECK: call @latent_h2_kv2_r7_n5_p4_v3_{{.*}}_fold_device(
// CHECK: call @latent_h2_kv2_r7_n5_p4_v3_{{.*}}_rows1_attend_device(
// CHECK: call @latent_h2_kv2_r7_n5_p4_v3_{{.*}}_rows8_attend_device(
// CHECK: call @latent_h2_kv2_r7_n5_p4_v3_{{.*}}_project_device(
func.func @step(%q: memref<?x18xf32>, %cache: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %layer: index, %u: memref<896xi8>,
                %w: memref<896xi8>, %out: memref<?x6xf32>, %scratch: memref<?x64xf32>) {
  heddle.online_latent_attention <materialised> <causal>
    ins(%q, %cache[%layer] : memref<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>)
    key_ups(%u : memref<896xi8>) value_ups(%w : memref<896xi8>) outs(%out, %scratch : memref<?x6xf32>, memref<?x64xf32>)
    {num_heads = 2, num_kv_heads = 2, nope = 5, value = 3, scale = 0.33, key_format = "f32", value_format = "f32"}
  return
}

//--- splits.mlir
// CHECK: func.func @attention_split_h4_kv2_d16{{.*}}(
// CHECK: call @attention_split_h4_kv2_d16{{.*}}_rows1_device(
// CHECK: call @attention_split_h4_kv2_d16{{.*}}_rows8_device(
func.func @step(%x: memref<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x f32>, %layer: index, %o: memref<4x128xf32>,
                %m: memref<4x8xf32>, %s: memref<4x8xf32>) {
  heddle.online_attention <causal> ins(%x, %cache[%layer] : memref<?x64xf32>, <2 x 2 x 16 x f32>)
    outs(%o, %m, %s : memref<4x128xf32>, memref<4x8xf32>, memref<4x8xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 64, share_kv = true, split_kv = 64}
  return
}
