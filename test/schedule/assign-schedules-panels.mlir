// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One row of codes of 8 bits reads two panels side by side on Golden Cove, of others one, and on other processors one of all.
// RUN: %heddle-opt %s --heddle-assign-schedules=activations=by-rows | FileCheck %s
// RUN: sed 's/, tune = "sapphirerapids"//' %s | %heddle-opt --heddle-assign-schedules=activations=by-rows | FileCheck %s --check-prefix=ANY

// CHECK-DAG: #[[BYTES:.*]] = #heddle.schedule<{{.*}}role = int16, rows = [8, 4, 2, 1], columns = 32, maxRows
// CHECK-DAG: #[[NIBBLES:.*]] = #heddle.schedule<{{.*}}role = int16, rows = [8, 4, 2, 1], columns = 16, maxRows
// ANY-NOT: role = int16, rows = [8, 4, 2, 1], columns = 32
#target = #heddle.target<device = cpu, name = "native", lanes = 16, registers = 32, features = ["avx512vnni", "avx512bf16"], tune = "sapphirerapids">
module attributes {heddle.target = #target} {
func.func @step(%x: tensor<?x256xf32>, %bytes: tensor<8704xi8>, %nibbles: tensor<4608xi8>, %d: tensor<?x32xf32>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  // CHECK: heddle.packed_matmul {{.*}}format = "q8_0"{{.*}}heddle.schedule = #[[BYTES]]
  // ANY: heddle.packed_matmul {{.*}}format = "q8_0"
  %y = heddle.packed_matmul ins(%x, %bytes : tensor<?x256xf32>, tensor<8704xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 256 : i64, n = 32 : i64} -> tensor<?x32xf32>
  // CHECK: heddle.packed_matmul {{.*}}format = "q4_0"{{.*}}heddle.schedule = #[[NIBBLES]]
  %z = heddle.packed_matmul ins(%x, %nibbles : tensor<?x256xf32>, tensor<4608xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q4_0", k = 256 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %y, %z : tensor<?x32xf32>, tensor<?x32xf32>
}
}
