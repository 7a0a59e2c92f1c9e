// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-absorb-mla-weights 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.err
// RUN: %heddle-opt %s --heddle-absorb-mla-weights=form=absorbed 2>/dev/null | FileCheck %s --check-prefix=ON
// RUN: not %heddle-opt %s --heddle-absorb-mla-weights=form=folded -o %t 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=shared_factor --heddle-absorb-mla-weights -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=shared_rotary_key --heddle-absorb-mla-weights -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=interleaved_keys_and_values --heddle-absorb-mla-weights -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=stored --heddle-absorb-mla-weights -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=stored_as_columns --heddle-absorb-mla-weights -o %t

// FORM: error: form must be automatic, absorbed or materialised, got 'folded'
// ON-NOT: latent_form<automatic>
// ON: #heddle.latent_form<absorbed>

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

// [W_K; W_V] = [U_K; U_V] V, as a truncated SVD gives it, of odd rank and dimensions; two query heads per KV head.
// REMARK: latent attention, automatic: 7 + 0 values cached per token; materialised above 56 / (6 + 56 / keys) queries, 9 for long contexts
// CHECK-LABEL: @shared_factor
// CHECK-SAME: %[[X:.*]]: tensor<1x6x16xf32>, %{{.*}}: tensor<20x16xf32>, %[[DOWN:.*]]: tensor<7x16xf32>, %[[UP_K:.*]]: tensor<10x7xf32>, %[[UP_V:.*]]: tensor<6x7xf32>
// CHECK: %[[C:.*]] = heddle.linear %[[X]], weights(%[[DOWN]]
// CHECK-NOT: heddle.linear
// CHECK-DAG: %[[K0:.*]] = tensor.extract_slice %[[UP_K]][0, 0] [5, 7] [1, 1]
// CHECK-DAG: %[[K1:.*]] = tensor.extract_slice %[[UP_K]][5, 0] [5, 7] [1, 1]
// CHECK-DAG: %[[V0:.*]] = tensor.extract_slice %[[UP_V]][0, 0] [3, 7] [1, 1]
// CHECK-DAG: %[[V1:.*]] = tensor.extract_slice %[[UP_V]][3, 0] [3, 7] [1, 1]
// CHECK: heddle.latent_attention %{{.*}}, %{{.*}} key_ups(%[[K0]], %[[K1]] : {{.*}}) value_ups(%[[V0]], %[[V1]] : {{.*}}) <causal> {form = #heddle.latent_form<automatic>, scale = 5.000000e-01 : f64}
func.func @shared_factor(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<10x7xf32>, %up_v: tensor<6x7xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<10x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %c, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// DeepSeek's form: normalised latent, a rotary key that all heads share, keys and values of a head from one product.
// CHECK-LABEL: @shared_rotary_key
// CHECK-NOT: tensor.concat
// CHECK: %[[Q:.*]] = heddle.rope %{{.*}} {offset = 5 : i64} : tensor<1x3x6x9xf32>
// CHECK-NOT: tensor.concat
// CHECK: heddle.latent_attention %[[Q]], %{{.*}} rope(%{{.*}} : tensor<1x1x6x4xf32>)
func.func @shared_rotary_key(%x: tensor<1x6x16xf32>, %p: tensor<1x6xi32>, %wq: tensor<27x16xf32>, %down: tensor<11x16xf32>, %norm: tensor<7xf32>, %up: tensor<24x7xf32>) -> tensor<1x3x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<27x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x27xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 3, 9] : tensor<1x6x27xf32> into tensor<1x6x3x9xf32>
  %qe = tensor.empty() : tensor<1x3x6x9xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x3x9xf32>) outs(%qe : tensor<1x3x6x9xf32>) permutation = [0, 2, 1, 3]
  %qn = tensor.extract_slice %qh[0, 0, 0, 0] [1, 3, 6, 5] [1, 1, 1, 1] : tensor<1x3x6x9xf32> to tensor<1x3x6x5xf32>
  %qp = tensor.extract_slice %qh[0, 0, 0, 5] [1, 3, 6, 4] [1, 1, 1, 1] : tensor<1x3x6x9xf32> to tensor<1x3x6x4xf32>
  %qr = heddle.rope %qp, %p, #rope : tensor<1x3x6x4xf32>, tensor<1x6xi32>
  %query = tensor.concat dim(3) %qn, %qr : (tensor<1x3x6x5xf32>, tensor<1x3x6x4xf32>) -> tensor<1x3x6x9xf32>
  %a = heddle.linear %x, weights(%down : tensor<11x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x11xf32>
  %low = tensor.extract_slice %a[0, 0, 0] [1, 6, 7] [1, 1, 1] : tensor<1x6x11xf32> to tensor<1x6x7xf32>
  %c = heddle.rms_norm %low, %norm {eps = 1.0e-6} : tensor<1x6x7xf32>, tensor<7xf32>
  %r = tensor.extract_slice %a[0, 0, 7] [1, 6, 4] [1, 1, 1] : tensor<1x6x11xf32> to tensor<1x6x4xf32>
  %rs = tensor.expand_shape %r [[0], [1], [2, 3]] output_shape [1, 6, 1, 4] : tensor<1x6x4xf32> into tensor<1x6x1x4xf32>
  %re = tensor.empty() : tensor<1x1x6x4xf32>
  %rh = linalg.transpose ins(%rs : tensor<1x6x1x4xf32>) outs(%re : tensor<1x1x6x4xf32>) permutation = [0, 2, 1, 3]
  %kr = heddle.rope %rh, %p, #rope : tensor<1x1x6x4xf32>, tensor<1x6xi32>
  %be = tensor.empty() : tensor<1x1x3x6x4xf32>
  %bc = linalg.broadcast ins(%kr : tensor<1x1x6x4xf32>) outs(%be : tensor<1x1x3x6x4xf32>) dimensions = [2]
  %krs = tensor.collapse_shape %bc [[0], [1, 2], [3], [4]] : tensor<1x1x3x6x4xf32> into tensor<1x3x6x4xf32>
  %kv = heddle.linear %c, weights(%up : tensor<24x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x24xf32>
  %kvs = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [1, 6, 3, 8] : tensor<1x6x24xf32> into tensor<1x6x3x8xf32>
  %kve = tensor.empty() : tensor<1x3x6x8xf32>
  %kvh = linalg.transpose ins(%kvs : tensor<1x6x3x8xf32>) outs(%kve : tensor<1x3x6x8xf32>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %kvh[0, 0, 0, 0] [1, 3, 6, 5] [1, 1, 1, 1] : tensor<1x3x6x8xf32> to tensor<1x3x6x5xf32>
  %v = tensor.extract_slice %kvh[0, 0, 0, 5] [1, 3, 6, 3] [1, 1, 1, 1] : tensor<1x3x6x8xf32> to tensor<1x3x6x3xf32>
  %key = tensor.concat dim(3) %kn, %krs : (tensor<1x3x6x5xf32>, tensor<1x3x6x4xf32>) -> tensor<1x3x6x9xf32>
  %o = heddle.attention %query, %key, %v <causal> {scale = 0.5} : tensor<1x3x6x9xf32>, tensor<1x3x6x9xf32>, tensor<1x3x6x3xf32> -> tensor<1x3x6x3xf32>
  return %o : tensor<1x3x6x3xf32>
}

// Values first, then keys, in each head's rows: the matrices are told by where their rows are, not by order.
// CHECK-LABEL: @interleaved_keys_and_values
// CHECK-DAG: %[[V1:.*]] = tensor.extract_slice %[[UP:.*]][8, 0] [3, 7] [1, 1]
// CHECK-DAG: %[[K1:.*]] = tensor.extract_slice %[[UP]][11, 0] [5, 7] [1, 1]
// CHECK: heddle.latent_attention %{{.*}} key_ups(%{{.*}}, %[[K1]] : {{.*}}) value_ups(%{{.*}}, %[[V1]] :
func.func @interleaved_keys_and_values(%x: tensor<1x6x16xf32>, %wq: tensor<10x16xf32>, %down: tensor<7x16xf32>, %up: tensor<16x7xf32>) -> tensor<1x2x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<10x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x10xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %qe = tensor.empty() : tensor<1x2x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x2x5xf32>) outs(%qe : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %kv = heddle.linear %c, weights(%up : tensor<16x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x16xf32>
  %kvs = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [1, 6, 2, 8] : tensor<1x6x16xf32> into tensor<1x6x2x8xf32>
  %kve = tensor.empty() : tensor<1x2x6x8xf32>
  %kvh = linalg.transpose ins(%kvs : tensor<1x6x2x8xf32>) outs(%kve : tensor<1x2x6x8xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.extract_slice %kvh[0, 0, 0, 0] [1, 2, 6, 3] [1, 1, 1, 1] : tensor<1x2x6x8xf32> to tensor<1x2x6x3xf32>
  %k = tensor.extract_slice %kvh[0, 0, 0, 3] [1, 2, 6, 5] [1, 1, 1, 1] : tensor<1x2x6x8xf32> to tensor<1x2x6x5xf32>
  %o = heddle.attention %qh, %k, %v <causal> {scale = 0.5} : tensor<1x2x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x2x6x3xf32>
  return %o : tensor<1x2x6x3xf32>
}

// In a layer function weights are arguments: the head's rows are weights of their own at the call, views of the same bytes.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %{{.*}}: tensor<1x6x16xf32>, %{{.*}}: tensor<10x16xf32>, %{{.*}}: tensor<7x16xf32>, %[[K0:.*]]: tensor<5x7xf32>, %[[K1:.*]]: tensor<5x7xf32>, %[[V0:.*]]: tensor<3x7xf32>, %[[V1:.*]]: tensor<3x7xf32>)
// CHECK: heddle.latent_attention %{{.*}} key_ups(%[[K0]], %[[K1]] : {{.*}}) value_ups(%[[V0]], %[[V1]] :
func.func private @layer(%x: tensor<1x6x16xf32>, %wq: tensor<10x16xf32>, %down: tensor<7x16xf32>, %up: tensor<16x7xf32>) -> tensor<1x2x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<10x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x10xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %qe = tensor.empty() : tensor<1x2x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x2x5xf32>) outs(%qe : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %kv = heddle.linear %c, weights(%up : tensor<16x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x16xf32>
  %kvs = tensor.expand_shape %kv [[0], [1], [2, 3]] output_shape [1, 6, 2, 8] : tensor<1x6x16xf32> into tensor<1x6x2x8xf32>
  %kve = tensor.empty() : tensor<1x2x6x8xf32>
  %kvh = linalg.transpose ins(%kvs : tensor<1x6x2x8xf32>) outs(%kve : tensor<1x2x6x8xf32>) permutation = [0, 2, 1, 3]
  %k = tensor.extract_slice %kvh[0, 0, 0, 0] [1, 2, 6, 5] [1, 1, 1, 1] : tensor<1x2x6x8xf32> to tensor<1x2x6x5xf32>
  %v = tensor.extract_slice %kvh[0, 0, 0, 5] [1, 2, 6, 3] [1, 1, 1, 1] : tensor<1x2x6x8xf32> to tensor<1x2x6x3xf32>
  %o = heddle.attention %qh, %k, %v <causal> {scale = 0.5} : tensor<1x2x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x2x6x3xf32>
  return %o : tensor<1x2x6x3xf32>
}

// CHECK-LABEL: @stored
// CHECK-DAG: %[[UP_K0:.*]] = heddle.weight "up[0:5]" {{.*}}offset = 1000
// CHECK-DAG: %[[UP_V1:.*]] = heddle.weight "up[13:16]" {{.*}}offset = 1364
// CHECK-NOT: heddle.weight "up" 
// CHECK: call @layer(%{{.*}}, %{{.*}}, %{{.*}}, %[[UP_K0]], %{{.*}}, %{{.*}}, %[[UP_V1]])
func.func @stored(%x: tensor<1x6x16xf32>) -> tensor<1x2x6x3xf32> {
  %wq = heddle.weight "q" <type = "f32", file = 0, offset = 0> : tensor<10x16xf32>
  %down = heddle.weight "down" <type = "f32", file = 0, offset = 640> : tensor<7x16xf32>
  %up = heddle.weight "up" <type = "f32", file = 0, offset = 1000> : tensor<16x7xf32>
  %o = call @layer(%x, %wq, %down, %up) : (tensor<1x6x16xf32>, tensor<10x16xf32>, tensor<7x16xf32>, tensor<16x7xf32>) -> tensor<1x2x6x3xf32>
  return %o : tensor<1x2x6x3xf32>
}

// As ONNX stores it, (in_features, out_features): a head's matrix is some columns of it.
// CHECK-LABEL: @stored_as_columns
// CHECK-DAG: %[[UP_K0:.*]] = heddle.weight "up[0:5]" <type = "f32", file = 0, offset = 1000, transposed = true, stride = 16> : tensor<5x7xf32>
// CHECK-DAG: %[[UP_V1:.*]] = heddle.weight "up[13:16]" <type = "f32", file = 0, offset = 1052, transposed = true, stride = 16> : tensor<3x7xf32>
// CHECK-NOT: heddle.weight "up" 
// CHECK: call @layer(%{{.*}}, %{{.*}}, %{{.*}}, %[[UP_K0]], %{{.*}}, %{{.*}}, %[[UP_V1]])
func.func @stored_as_columns(%x: tensor<1x6x16xf32>) -> tensor<1x2x6x3xf32> {
  %wq = heddle.weight "q" <type = "f32", file = 0, offset = 0> : tensor<10x16xf32>
  %down = heddle.weight "down" <type = "f32", file = 0, offset = 640> : tensor<7x16xf32>
  %up = heddle.weight "up" <type = "f32", file = 0, offset = 1000, transposed = true> : tensor<16x7xf32>
  %o = call @layer(%x, %wq, %down, %up) : (tensor<1x6x16xf32>, tensor<10x16xf32>, tensor<7x16xf32>, tensor<16x7xf32>) -> tensor<1x2x6x3xf32>
  return %o : tensor<1x2x6x3xf32>
}
