// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entries of heddle.schedules come before the target's table: the first that matches says what it says, the table the rest.
// RUN: split-file %s %t
// RUN: %heddle-opt %t/step.mlir --heddle-assign-schedules=activations=by-rows | FileCheck %s
// RUN: not %heddle-opt %t/spelled.mlir --heddle-assign-schedules -o %t/out 2>&1 | FileCheck %s --check-prefix=SPELLED
// RUN: not %heddle-opt %t/unbuilt.mlir --heddle-assign-schedules -o %t/out 2>&1 | FileCheck %s --check-prefix=UNBUILT

// A tile of the entry, the others of the table; a number of the entry, the others of the table; the entry's evidence.
// CHECK: #[[TUNED:.*]] = #heddle.schedule<tiles = [<role = few_rows, rows = [2, 1], columns = 16>, <role = many_rows, rows = [4, 1], columns = 16>,
// CHECK-SAME: kBlock = 64, rowBlock = 256, {{.*}}evidence = "measured here">
// No entry is about the second product, nor is the first of those about attention.
// CHECK: #[[TABLE:.*]] = #heddle.schedule<tiles = [<role = few_rows, rows = [2, 1], columns = 16>, <role = many_rows, rows = [6, 2, 1], columns = 16>,
// CHECK-SAME: kBlock = 128, {{.*}}evidence = "16 registers;
// CHECK: #[[ATTENTION:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [48], columns = 16>, <role = registers, rows = [6], columns = 16, k = 1>], blockKv = 32, splitKv = 512, evidence = "shorter">
// CHECK-NOT: heddle.schedules
// CHECK: heddle.packed_matmul {{.*}}heddle.schedule = #[[TUNED]]
// CHECK: heddle.packed_matmul {{.*}}heddle.schedule = #[[TABLE]]
// CHECK: heddle.online_attention {{.*}}heddle.schedule = #[[ATTENTION]]

// SPELLED: error: heddle.schedules: an entry is {match = {…}, schedule = #heddle.schedule<…>}
// UNBUILT: error: heddle.schedules: tile many_rows: rows must fall to 1, which takes the rows that are left

//--- step.mlir
#many = #heddle.tile<role = many_rows, rows = [4, 1], columns = 16>
#other = #heddle.tile<role = many_rows, rows = [2, 1], columns = 16>
#rows = #heddle.tile<role = rows, rows = [48], columns = 16>
#target = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2"]>
module attributes {heddle.target = #target, heddle.schedules = [
  {match = {kernel = "packed_matmul", k = 65 : i64}, schedule = #heddle.schedule<tiles = [#other]>},
  {match = {kernel = "packed_matmul", format = "q8_0", n = 32 : i64, k = 64 : i64, input = "f32"}, schedule = #heddle.schedule<tiles = [#other]>},
  {match = {kernel = "packed_matmul", format = "q8_0", n = 32 : i64, k = 64 : i64, input = "int16"}, schedule = #heddle.schedule<tiles = [#many], kBlock = 64, evidence = "measured here">},
  {match = {kernel = "packed_matmul", n = 32 : i64}, schedule = #heddle.schedule<tiles = [#other]>},
  {match = {kernel = "online_attention", group = 3 : i64}, schedule = #heddle.schedule<tiles = []>},
  {match = {kernel = "online_attention", head_dim = 16 : i64, group = 2 : i64, cache = "bf16", products = "f32"}, schedule = #heddle.schedule<tiles = [#rows], evidence = "shorter">}]} {
func.func @step(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %v: tensor<3456xi8>, %d: tensor<?x32xf32>, %e: tensor<?x48xf32>, %q: tensor<?x64xf32>,
                %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x48xf32>, tensor<?x64xf32>) {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %z = heddle.packed_matmul ins(%x, %v : tensor<?x64xf32>, tensor<3456xi8>) outs(%e : tensor<?x48xf32>)
    {format = "q8_0", k = 64 : i64, n = 48 : i64} -> tensor<?x48xf32>
  %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>)
    {num_heads = 4, scale = 0.25, softcap = 0.0, block_kv = 32, share_kv = true} -> tensor<?x64xf32>
  return %y, %z, %o : tensor<?x32xf32>, tensor<?x48xf32>, tensor<?x64xf32>
}
}

//--- spelled.mlir
#target = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2"]>
module attributes {heddle.target = #target, heddle.schedules = [{matches = {}}]} {
func.func @step(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
}

//--- unbuilt.mlir
#many = #heddle.tile<role = many_rows, rows = [4, 2], columns = 16>
#target = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2"]>
module attributes {heddle.target = #target, heddle.schedules = [{match = {kernel = "packed_matmul"}, schedule = #heddle.schedule<tiles = [#many]>}]} {
func.func @step(%x: tensor<?x64xf32>, %w: tensor<2304xi8>, %d: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %y = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
}
