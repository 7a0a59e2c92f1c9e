// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-pack-weights --split-input-file --verify-diagnostics | FileCheck %s

// What a layer packs of its arguments becomes an argument, filled at the call. What it packs twice is one argument.
// CHECK: module attributes {heddle.weights_size = 12544 : i64}
// CHECK-LABEL: @layer
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[N:.*]]: tensor<64xf32>, %[[W:.*]]: tensor<12288xi8>) ->
// CHECK-NOT: heddle.pack
// CHECK: return %[[N]], %[[W]], %[[W]]
func.func private @layer(%x: tensor<?x64xf32>, %norm: tensor<64xbf16>, %wq: tensor<64x64xbf16>, %wk: tensor<32x64xbf16>) -> (tensor<64xf32>, tensor<12288xi8>, tensor<12288xi8>) {
  %n = heddle.pack <vector> "f32" (%norm : tensor<64xbf16>) -> tensor<64xf32>
  %w = heddle.pack <stacked> "bf16" (%wq, %wk : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
  %again = heddle.pack <stacked> "bf16" (%wq, %wk : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
  return %n, %w, %again : tensor<64xf32>, tensor<12288xi8>, tensor<12288xi8>
}
// CHECK-LABEL: @step
// CHECK-NOT: <type = {{.*}}> : tensor
// CHECK-DAG: %[[NORM:.*]] = heddle.weight "norm" packed <layout = vector, format = "f32", shape = [64], offset = 0, sources = [<name = "norm", rows = 64, storage = <type = "bf16", file = 0, offset = 0>>]> : tensor<64xf32>
// CHECK-DAG: %[[QK:.*]] = heddle.weight "q+k" packed <layout = stacked, format = "bf16", shape = [96, 64], offset = 256, sources = [<name = "q", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>, <name = "k", rows = 32, storage = <type = "bf16", file = 0, offset = 8320>>]> : tensor<12288xi8>
// CHECK: call @layer(%{{.*}}, %[[NORM]], %[[QK]])
func.func @step(%x: tensor<?x64xf32>) -> tensor<12288xi8> {
  %norm = heddle.weight "norm" <type = "bf16", file = 0, offset = 0> : tensor<64xbf16>
  %wq = heddle.weight "q" <type = "bf16", file = 0, offset = 128> : tensor<64x64xbf16>
  %wk = heddle.weight "k" <type = "bf16", file = 0, offset = 8320> : tensor<32x64xbf16>
  %0:3 = call @layer(%x, %norm, %wq, %wk) : (tensor<?x64xf32>, tensor<64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>) -> (tensor<64xf32>, tensor<12288xi8>, tensor<12288xi8>)
  return %0#1 : tensor<12288xi8>
}

// -----

// Whatever the model calls it.
// CHECK: module attributes {heddle.weights_size = 8192 : i64}
// CHECK-LABEL: @tied_head_is_stored_once
// CHECK: heddle.weight "table" packed <{{.*}}offset = 0, sources
// CHECK: heddle.weight "head" packed <{{.*}}offset = 0, sources
func.func @tied_head_is_stored_once() -> (tensor<8192xi8>, tensor<8192xi8>) {
  %table = heddle.weight "table" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %head = heddle.weight "head" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %0 = heddle.pack <stacked> "bf16" (%table : tensor<64x64xbf16>) -> tensor<8192xi8>
  %1 = heddle.pack <stacked> "bf16" (%head : tensor<64x64xbf16>) -> tensor<8192xi8>
  return %0, %1 : tensor<8192xi8>, tensor<8192xi8>
}

// -----

// The same matrices in another layout or turned are other bytes; that only many rows read them is no difference.
// CHECK: module attributes {heddle.weights_size = 16384 : i64}
// CHECK-LABEL: @layouts_have_places_of_their_own
// CHECK: layout = stacked, {{.*}}offset = 0,
// CHECK: layout = interleaved, {{.*}}offset = 4096, {{.*}}group = 1>
// CHECK: layout = interleaved, {{.*}}offset = 8192, {{.*}}group = 2>
// CHECK: layout = interleaved, {{.*}}offset = 12288, {{.*}}group = 1, transposed = true>
// CHECK: layout = interleaved, {{.*}}offset = 4096, {{.*}}group = 1, manyRows = true>
func.func @layouts_have_places_of_their_own() -> (tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>) {
  %a = heddle.weight "a" <type = "bf16", file = 0, offset = 0> : tensor<32x32xbf16>
  %b = heddle.weight "b" <type = "bf16", file = 0, offset = 2048> : tensor<32x32xbf16>
  %0 = heddle.pack <stacked> "bf16" (%a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<4096xi8>
  %1 = heddle.pack <interleaved> "bf16" (%a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>) {group = 1 : i64} -> tensor<4096xi8>
  %2 = heddle.pack <interleaved> "bf16" (%a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>) {group = 2 : i64} -> tensor<4096xi8>
  %3 = heddle.pack <interleaved> "bf16" (%a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>) {group = 1 : i64, transposed} -> tensor<4096xi8>
  %4 = heddle.pack <interleaved> "bf16" (%a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>) {group = 1 : i64, many_rows} -> tensor<4096xi8>
  return %0, %1, %2, %3, %4 : tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>, tensor<4096xi8>
}

// -----

// The section ends with its last weight; only what follows one is aligned.
// CHECK: module attributes {heddle.weights_size = 176 : i64}
// CHECK-LABEL: @last_weight_is_not_padded
// CHECK: heddle.weight "first" packed <{{.*}}offset = 0, sources
// CHECK: heddle.weight "last" packed <{{.*}}offset = 128, sources
func.func @last_weight_is_not_padded() -> (tensor<20xf32>, tensor<12xf32>) {
  %first = heddle.weight "first" <type = "f32", file = 0, offset = 0> : tensor<20xf32>
  %last = heddle.weight "last" <type = "f32", file = 0, offset = 80> : tensor<12xf32>
  %0 = heddle.pack <vector> "f32" (%first : tensor<20xf32>) -> tensor<20xf32>
  %1 = heddle.pack <vector> "f32" (%last : tensor<12xf32>) -> tensor<12xf32>
  return %0, %1 : tensor<20xf32>, tensor<12xf32>
}

// -----

// Past 2^31 and 2^32 bytes.
// CHECK: module attributes {heddle.weights_size = 8589934656 : i64}
// CHECK-LABEL: @places_have_64_bits
// CHECK: heddle.weight "large" packed <{{.*}}offset = 0, sources
// CHECK: heddle.weight "behind" packed <{{.*}}offset = 8589934592, sources
func.func @places_have_64_bits() -> (tensor<8589934592xi8>, tensor<16xf32>) {
  %large = heddle.weight "large" <type = "f32", file = 0, offset = 64> : tensor<65536x32768xf32>
  %behind = heddle.weight "behind" <type = "f32", file = 0, offset = 0> : tensor<16xf32>
  %0 = heddle.pack <stacked> "f32" (%large : tensor<65536x32768xf32>) -> tensor<8589934592xi8>
  %1 = heddle.pack <vector> "f32" (%behind : tensor<16xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<8589934592xi8>, tensor<16xf32>
}

// -----

func.func @product_of_values() -> tensor<16384xi8> {
  %w = arith.constant dense<1.0> : tensor<64x64xf32>
  // expected-error @+1 {{operand is no weight of the model}}
  %0 = heddle.pack <stacked> "f32" (%w : tensor<64x64xf32>) -> tensor<16384xi8>
  return %0 : tensor<16384xi8>
}

// -----

func.func @argument_of_any_caller(%w: tensor<64x64xf32>) -> tensor<16384xi8> {
  // expected-error @+1 {{operand is no weight of the model}}
  %0 = heddle.pack <stacked> "f32" (%w : tensor<64x64xf32>) -> tensor<16384xi8>
  return %0 : tensor<16384xi8>
}

// -----

// expected-error @+1 {{weight argument 0 is used by an op that has no packed form}}
func.func private @read_both_ways(%w: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = heddle.pack <vector> "f32" (%w : tensor<16xf32>) -> tensor<16xf32>
  return %0, %w : tensor<16xf32>, tensor<16xf32>
}

// -----

// A weight whose storage is of another type than the module says cannot be packed as what it says.
func.func @wrong_type() -> tensor<4096xi8> {
  %w = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<32x64xbf16>
  // expected-error @+1 {{'w' of type 'f16' must be packed as f32, not as 'bf16'}}
  %0 = heddle.pack <stacked> "bf16" (%w : tensor<32x64xbf16>) -> tensor<4096xi8>
  return %0 : tensor<4096xi8>
}
