// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

#q = #heddle.source<name = "q", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>
#k = #heddle.source<name = "k", rows = 64, storage = <type = "bf16", file = 1, offset = 8589934592, transposed = true, stride = 96>>

// CHECK: @layouts() attributes {interleaved = #heddle.packing_layout<interleaved>, stacked = #heddle.packing_layout<stacked>, stored = #heddle.packing_layout<stored>, vector = #heddle.packing_layout<vector>}
func.func private @layouts() attributes {stored = #heddle.packing_layout<stored>, vector = #heddle.packing_layout<vector>,
  stacked = #heddle.packing_layout<stacked>, interleaved = #heddle.packing_layout<interleaved>}

// CHECK: @source() attributes {source = #heddle.source<name = "q", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>}
func.func private @source() attributes {source = #q}

// Past 2^32 bytes.
// CHECK: @stacked() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [128, 64], offset = 17179869184, sources = [<name = "q", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>, <name = "k", rows = 64, storage = <type = "bf16", file = 1, offset = 8589934592, transposed = true, stride = 96>>]>}
func.func private @stacked() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [128, 64],
  offset = 17179869184, sources = [#q, #k]>}

// CHECK: @interleaved() attributes {packing = #heddle.packing<layout = interleaved, {{.*}}, group = 2, transposed = true, manyRows = true>}
func.func private @interleaved() attributes {packing = #heddle.packing<layout = interleaved, format = "f32", shape = [128, 64],
  offset = 0, sources = [#q, #k], group = 2, transposed = true, manyRows = true>}

// CHECK: @vector() attributes {packing = #heddle.packing<layout = vector, format = "f32", shape = [64], offset = 64, sources = [<name = "q", {{.*}}>]>}
func.func private @vector() attributes {packing = #heddle.packing<layout = vector, format = "f32", shape = [64], offset = 64, sources = [#q]>}

// A scalar, which has no sizes to print, and a tensor without elements.
// CHECK: @stored() attributes {empty = #heddle.packing<layout = stored, format = "i64", shape = [3, 0], {{.*}}>, scalar = #heddle.packing<layout = stored, format = "f32", offset = 0, {{.*}}>}
func.func private @stored() attributes {
  scalar = #heddle.packing<layout = stored, format = "f32", shape = [], offset = 0,
    sources = [<name = "s", rows = 1, storage = <type = "f32", file = 0, offset = 0>>]>,
  empty = #heddle.packing<layout = stored, format = "i64", shape = [3, 0], offset = 0,
    sources = [<name = "e", rows = 0, storage = <type = "i64", file = 0, offset = 0>>]>}
