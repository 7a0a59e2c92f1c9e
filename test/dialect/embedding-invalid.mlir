// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @embedding_c1(%ids: tensor<3xi32>, %table: tensor<100xf32>) {
  // expected-error @+1 {{table must have rank 2, (vocabulary, width), got rank 1}}
  %0 = heddle.embedding %ids, %table : tensor<3xi32>, tensor<100xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @embedding_c2(%ids: tensor<3xi32>, %table: tensor<100x8xf32>) {
  // expected-error @+1 {{result 'tensor<3x9xf32>' must be the ids' shape with the table's width (8) appended}}
  %0 = heddle.embedding %ids, %table : tensor<3xi32>, tensor<100x8xf32> -> tensor<3x9xf32>
  return
}

// -----

func.func @embedding_c3(%ids: tensor<3xi32>, %table: tensor<100x8xf32>, %given: tensor<?x9xf32>) {
  // expected-error @+1 {{given 'tensor<?x9xf32>' must be (any number, 8)}}
  %0 = heddle.embedding %ids, %table given(%given : tensor<?x9xf32>) : tensor<3xi32>, tensor<100x8xf32> -> tensor<3x8xf32>
  return
}
