// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @weight_c1() {
  // expected-error @+1 {{result #0 must be statically shaped tensor of any type values, but got 'tensor<?xf32>'}}
  %0 = heddle.weight "norm" <type = "f32", file = 0, offset = 0> : tensor<?xf32>
  return
}

// -----

func.func @storage_c1() {
  // expected-error @+1 {{stride (-1) and taps (0) must not be negative}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, stride = -1> : tensor<2x2xf32>
  return
}

// -----

func.func @storage_c1() {
  // expected-error @+1 {{stride (0) and taps (-9) must not be negative}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, taps = -9> : tensor<2x18xf32>
  return
}

// -----

func.func @storage_c3() {
  // expected-error @+1 {{taps (9) are of rows that follow each other as the file has them}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, transposed = true, taps = 9> : tensor<2x18xf32>
  return
}

// -----

func.func @storage_c2() {
  // expected-error @+1 {{fileType ("f32") must differ from type ("f32")}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, fileType = "f32"> : tensor<2x2xf32>
  return
}

// -----

func.func @storage_c2() {
  // expected-error @+1 {{acrossRows is of a matrix that has a fileType}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, acrossRows = true> : tensor<2x2xf32>
  return
}

// -----

func.func @weight_c2() {
  // expected-error @+1 {{must have a storage or a packing, got none}}
  %0 = "heddle.weight"() <{name = "w"}> : () -> tensor<4xf32>
  return
}

// -----

#source = #heddle.source<name = "w", rows = 4, storage = <type = "f32", file = 0, offset = 0>>
func.func @weight_c2() {
  // expected-error @+1 {{must have a storage or a packing, got both}}
  %0 = "heddle.weight"() <{name = "w", storage = #heddle.storage<type = "f32", file = 0, offset = 0>,
    packing = #heddle.packing<layout = vector, format = "f32", shape = [4], offset = 0, sources = [#source]>}> : () -> tensor<4xf32>
  return
}

// -----

#source = #heddle.source<name = "w", rows = 4, storage = <type = "f32", file = 0, offset = 0>>
func.func @weight_c3() {
  // expected-error @+1 {{of packed matrices must be bytes (N), got 'tensor<256xf32>'}}
  %0 = heddle.weight "w" packed <layout = stacked, format = "f32", shape = [4, 4], offset = 0, sources = [#source]> : tensor<256xf32>
  return
}

// -----

#source = #heddle.source<name = "w", rows = 4, storage = <type = "f32", file = 0, offset = 0>>
func.func @weight_c3() {
  // expected-error @+1 {{must have the shape of its packing, [4], got 'tensor<5xf32>'}}
  %0 = heddle.weight "w" packed <layout = vector, format = "f32", shape = [4], offset = 0, sources = [#source]> : tensor<5xf32>
  return
}

// -----

#source = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
func.func @weight_c3() {
  // expected-error @+1 {{of packed vectors must be f32, got 'tensor<4xbf16>'}}
  %0 = heddle.weight "w" packed <layout = vector, format = "f32", shape = [4], offset = 0, sources = [#source]> : tensor<4xbf16>
  return
}

// -----

#source = #heddle.source<name = "w", rows = 6, storage = <type = "i64", file = 0, offset = 0>>
func.func @weight_c3() {
  // expected-error @+1 {{must have the shape of its packing, [2, 3], got 'tensor<6xi64>'}}
  %0 = heddle.weight "w" packed <layout = stored, format = "i64", shape = [2, 3], offset = 0, sources = [#source]> : tensor<6xi64>
  return
}
