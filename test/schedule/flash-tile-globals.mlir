// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global tokens: one kernel for what all rows see, and one that writes the rows of global tokens over it.
// RUN: %heddle-opt %s --heddle-flash-tile --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @two_kernels
// CHECK: %[[LOCAL:.*]] = heddle.ragged_attention <full, window = 3, ahead = 3> {{.*}} globals %[[GLOBALS:[a-z0-9]*]] : {{.*}} outs(%{{.*}} : tensor<?x8xf32>)
// CHECK-NOT: of_globals
// CHECK: heddle.ragged_attention <full> {{.*}} globals %[[GLOBALS]] : {{.*}} outs(%[[LOCAL]] : tensor<?x8xf32>) {{.*}}of_globals
func.func @two_kernels(%q: tensor<1x2x?x4xf32>, %k: tensor<1x2x?x4xf32>, %s: tensor<?x2xi32>, %g: tensor<?xi32>) -> tensor<1x2x?x4xf32> {
  %a = heddle.attention %q, %k, %k sequences(%s : tensor<?x2xi32>) globals(%g, %k, %q, %q : tensor<?xi32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>)
    <full, window = 3, ahead = 3> {scale = 0.5} : tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32> -> tensor<1x2x?x4xf32>
  return %a : tensor<1x2x?x4xf32>
}

// -----

func.func @not_of_tensors(%q: tensor<1x2x5x4xf32>, %g: tensor<1x5xi32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+1 {{attends globally, which has a form within sequences alone}}
  %a = heddle.attention %q, %q, %q globals(%g, %q, %q, %q : tensor<1x5xi32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>)
    <full> {scale = 0.5} : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  return %a : tensor<1x2x5x4xf32>
}
