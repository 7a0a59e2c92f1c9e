// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @warpgroup_multiply_c1(%a: i32, %b: i64, %zero: f32) {
  // expected-error @+1 {{must have as many results (2) as sums (2), 4, 8, … or 128}}
  %r:2 = heddle.warpgroup_multiply(%a, %a, %a, %a), (%b), (%zero, %zero) : f32, f32
  return
}

// -----

func.func @warpgroup_multiply_c1_results(%a: i32, %b: i64, %zero: f32) {
  // expected-error @+1 {{must have as many results (8) as sums (4), 4, 8, … or 128}}
  %r:8 = heddle.warpgroup_multiply(%a, %a, %a, %a), (%b), (%zero, %zero, %zero, %zero) : f32, f32, f32, f32, f32, f32, f32, f32
  return
}

// -----

func.func @warpgroup_multiply_c2(%a: i32, %b: i64, %zero: f32) {
  // expected-error @+1 {{must have four registers of a (2) for each b (1)}}
  %r:4 = heddle.warpgroup_multiply(%a, %a), (%b), (%zero, %zero, %zero, %zero) : f32, f32, f32, f32
  return
}

// -----

func.func @warpgroup_multiply_c2_none(%zero: f32) {
  // expected-error @+1 {{must have four registers of a (0) for each b (0)}}
  %r:4 = heddle.warpgroup_multiply(), (), (%zero, %zero, %zero, %zero) : f32, f32, f32, f32
  return
}
