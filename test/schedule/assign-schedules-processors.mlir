// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processors with the same instructions have schedules of their own where the target says which of them it is tuned for: Zen 4 fetches a stream by
// itself, and what is read out of turn into its second cache; Golden Cove codes into the second cache, and plain numbers from near.
// RUN: sed s/TUNE/znver4/ %s | %heddle-opt --heddle-assign-schedules=activations=by-rows | FileCheck %s --check-prefixes=CHECK,ZEN4
// RUN: sed s/TUNE/sapphirerapids/ %s | %heddle-opt --heddle-assign-schedules=activations=by-rows | FileCheck %s --check-prefixes=CHECK,COVE
// RUN: sed 's/, tune = "TUNE"//' %s | %heddle-opt --heddle-assign-schedules=activations=by-rows | FileCheck %s --check-prefixes=CHECK,ANY

// ZEN4: #[[NESTED:.*]] = #heddle.schedule<{{.*}}prefetchBytes = 32768, prefetchCache = 2, prefetchLines = 1, evidence
// COVE-DAG: #[[CODES:.*]] = #heddle.schedule<{{.*}}prefetchBytes = 8192, prefetchCache = 2, evidence
// COVE-DAG: #[[PLAIN:.*]] = #heddle.schedule<{{.*}}prefetchBytes = 512, evidence
// ANY: #[[BOTH:.*]] = #heddle.schedule<{{.*}}prefetchBytes = 12288, evidence
#target = #heddle.target<device = cpu, name = "native", lanes = 16, registers = 32, features = ["avx512vnni", "avx512bf16"], tune = "TUNE">
module attributes {heddle.target = #target} {
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<?x256xf32>, %stream: tensor<4608xi8>, %nested: tensor<4736xi8>, %plain: tensor<32768xi8>, %d: tensor<?x32xf32>) -> (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
  // ANY: heddle.packed_matmul {{.*}}format = "q4_0"{{.*}}heddle.schedule = #[[BOTH]]
  // COVE: heddle.packed_matmul {{.*}}format = "q4_0"{{.*}}heddle.schedule = #[[CODES]]
  // ZEN4: heddle.packed_matmul {{.*}}format = "q4_0"
  // ZEN4-NOT: heddle.schedule = #[[NESTED]]
  %y = heddle.packed_matmul ins(%x, %stream : tensor<?x256xf32>, tensor<4608xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q4_0", k = 256 : i64, n = 32 : i64} -> tensor<?x32xf32>
  // COVE: heddle.packed_matmul {{.*}}format = "q4_k"{{.*}}heddle.schedule = #[[CODES]]
  // ANY: heddle.packed_matmul {{.*}}format = "q4_k"{{.*}}heddle.schedule = #[[BOTH]]
  // ZEN4: heddle.packed_matmul {{.*}}format = "q4_k"{{.*}}heddle.schedule = #[[NESTED]]
  %z = heddle.packed_matmul ins(%x, %nested : tensor<?x256xf32>, tensor<4736xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q4_k", k = 256 : i64, n = 32 : i64} -> tensor<?x32xf32>
  // ANY: heddle.packed_matmul {{.*}}format = "f32"{{.*}}heddle.schedule = #[[BOTH]]
  // COVE: heddle.packed_matmul {{.*}}format = "f32"{{.*}}heddle.schedule = #[[PLAIN]]
  %w = heddle.packed_matmul ins(%x, %plain : tensor<?x256xf32>, tensor<32768xi8>) outs(%d : tensor<?x32xf32>)
    {format = "f32", k = 256 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %y, %z, %w : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}
}
