// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-DAG: #[[CPU:.*]] = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2", "fma"]>
// CHECK-DAG: #[[ZEN:.*]] = #heddle.target<device = cpu, name = "native", lanes = 16, registers = 32, features = ["avx512f"], tune = "znver4">
// CHECK-DAG: #[[GPU:.*]] = #heddle.target<device = cuda, name = "cuda:sm_80">
// CHECK-DAG: #[[PRODUCT:.*]] = #heddle.schedule<tiles = [<role = few_rows, rows = [2, 1], columns = 16>, <role = many_rows, rows = [6, 2, 1], columns = 16>], kBlock = 256, rowBlock = 256, prefetchBytes = 2048, evidence = "16 registers">
// CHECK-DAG: #[[AHEAD:.*]] = #heddle.schedule<tiles = [], prefetchBytes = 8192, prefetchCache = 2, prefetchLines = 1>
// CHECK-DAG: #[[WARPS:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [64], columns = 64, maxRows = 128, k = 64, warps = [2, 2], stages = 3>]>
// CHECK-DAG: #[[ATTENTION:.*]] = #heddle.schedule<tiles = [<role = rows, rows = [96], columns = 64>], blockKv = 32, splitKv = 512>
#cpu = #heddle.target<device = cpu, name = "x86-64-v3", lanes = 8, registers = 16, features = ["avx2", "fma"]>
#zen = #heddle.target<device = cpu, name = "native", lanes = 16, registers = 32, features = ["avx512f"], tune = "znver4">
#gpu = #heddle.target<device = cuda, name = "cuda:sm_80">
#few = #heddle.tile<role = few_rows, rows = [2, 1], columns = 16>
#many = #heddle.tile<role = many_rows, rows = [6, 2, 1], columns = 16>
#product = #heddle.schedule<tiles = [#few, #many], kBlock = 256, rowBlock = 256, prefetchBytes = 2048, evidence = "16 registers">
#ahead = #heddle.schedule<tiles = [], prefetchBytes = 8192, prefetchCache = 2, prefetchLines = 1>
#warps = #heddle.schedule<tiles = [<role = rows, rows = [64], columns = 64, maxRows = 128, k = 64, warps = [2, 2], stages = 3>]>
#attention = #heddle.schedule<tiles = [<role = rows, rows = [96], columns = 64>], blockKv = 32, splitKv = 512>

// CHECK: @cpu() attributes {heddle.schedule = #[[PRODUCT]], heddle.target = #[[CPU]]}
func.func private @cpu() attributes {heddle.schedule = #product, heddle.target = #cpu}
// CHECK: @tuned() attributes {heddle.schedule = #[[AHEAD]], heddle.target = #[[ZEN]]}
func.func private @tuned() attributes {heddle.schedule = #ahead, heddle.target = #zen}
// CHECK: @gpu() attributes {heddle.schedule = #[[WARPS]], heddle.target = #[[GPU]]}
func.func private @gpu() attributes {heddle.schedule = #warps, heddle.target = #gpu}
// CHECK: @attention() attributes {heddle.schedule = #[[ATTENTION]]}
func.func private @attention() attributes {heddle.schedule = #attention}
