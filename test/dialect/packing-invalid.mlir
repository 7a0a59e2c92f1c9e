// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

// expected-error @+1 {{rows (-1) must not be negative}}
#w = #heddle.source<name = "w", rows = -1, storage = <type = "bf16", file = 0, offset = 0>>
func.func private @source_c1() attributes {source = #w}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{format 'i8' is none of f32, f16, bf16, codes4, codes8, bytes and the block formats}}
func.func private @packing_c1() attributes {packing = #heddle.packing<layout = stacked, format = "i8", shape = [4, 8], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{format of vectors must be 'f32', got 'bf16'}}
func.func private @packing_c1() attributes {packing = #heddle.packing<layout = vector, format = "bf16", shape = [4], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{format 'f32' of a stored tensor must be its source's, "bf16"}}
func.func private @packing_c1() attributes {packing = #heddle.packing<layout = stored, format = "f32", shape = [4], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{'w' of type 'bf16' must be packed as f32, not as 'f16'}}
func.func private @packing_c1() attributes {packing = #heddle.packing<layout = stacked, format = "f16", shape = [4, 8], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{shape [4] must have 2 sizes, all positive}}
func.func private @packing_c2() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{shape [4, 0] must have 2 sizes, all positive}}
func.func private @packing_c2() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 0], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{shape [4, 1] must have 1 sizes, all positive}}
func.func private @packing_c2() attributes {packing = #heddle.packing<layout = vector, format = "f32", shape = [4, 1], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{size (-1) of a stored tensor must not be negative}}
func.func private @packing_c2() attributes {packing = #heddle.packing<layout = stored, format = "bf16", shape = [-1, -4], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{sources must not be empty}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 8], offset = 0, sources = []>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{rows of the sources (8) must add up to n (9)}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [9, 8], offset = 0, sources = [#w, #w]>}

// -----

#w = #heddle.source<name = "w", rows = 0, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{rows (0) of 'w' must be positive and part of n (4)}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 8], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 9223372036854775807, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{rows (9223372036854775807) of 'w' must be positive and part of n (4)}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 8], offset = 0, sources = [#w, #w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{a stored tensor [2, 3] must be one source of all its elements, got 1, the first of 4}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stored, format = "bf16", shape = [2, 3], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{a stored tensor [4] must be one source of all its elements, got 2, the first of 4}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stored, format = "bf16", shape = [4], offset = 0, sources = [#w, #w]>}

// -----

#w = #heddle.source<name = "w", rows = 0, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{must be one source of all its elements, got 1, the first of 0}}
func.func private @packing_c3() attributes {packing = #heddle.packing<layout = stored, format = "bf16", shape = [4294967296, 4294967296], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{group (2) must be 0: only panels of interleaved matrices lie in turn}}
func.func private @packing_c4() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [8, 8], offset = 0, sources = [#w, #w], group = 2>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{group (2) must be positive and divide the number of sources (3)}}
func.func private @packing_c4() attributes {packing = #heddle.packing<layout = interleaved, format = "bf16", shape = [12, 8], offset = 0, sources = [#w, #w, #w], group = 2>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{group (0) must be positive and divide the number of sources (1)}}
func.func private @packing_c4() attributes {packing = #heddle.packing<layout = interleaved, format = "bf16", shape = [4, 8], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
#v = #heddle.source<name = "v", rows = 5, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{rows of interleaved matrices must be equal, got 4 and 5}}
func.func private @packing_c4() attributes {packing = #heddle.packing<layout = interleaved, format = "bf16", shape = [9, 8], offset = 0, sources = [#w, #v], group = 1>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{offset (96) must be a multiple of 64 that is not negative}}
func.func private @packing_c5() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 8], offset = 96, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{offset (-64) must be a multiple of 64 that is not negative}}
func.func private @packing_c5() attributes {packing = #heddle.packing<layout = stacked, format = "bf16", shape = [4, 8], offset = -64, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0>>
// expected-error @+1 {{only matrices without blocks are transposed, got layout 'vector', format 'f32'}}
func.func private @packing_c6() attributes {packing = #heddle.packing<layout = vector, format = "f32", shape = [4], offset = 0, sources = [#w], transposed = true>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "q8_0", file = 0, offset = 0>>
// expected-error @+1 {{only matrices without blocks are transposed, got layout 'stacked', format 'q8_0'}}
func.func private @packing_c6() attributes {packing = #heddle.packing<layout = stacked, format = "q8_0", shape = [4, 32], offset = 0, sources = [#w], transposed = true>}

// -----

#w = #heddle.source<name = "w", rows = 4, storage = <type = "bf16", file = 0, offset = 0, transposed = true>>
// expected-error @+1 {{a stored tensor must have no stride, taps or fileType, and be a matrix if it is transposed, got #heddle.storage<type = "bf16", file = 0, offset = 0, transposed = true>}}
func.func private @packing_c6() attributes {packing = #heddle.packing<layout = stored, format = "bf16", shape = [2, 2, 1], offset = 0, sources = [#w]>}

// -----

#w = #heddle.source<name = "w", rows = 18, storage = <type = "f32", file = 0, offset = 0, taps = 9>>
// expected-error @+1 {{a stored tensor must have no stride, taps or fileType, and be a matrix if it is transposed, got #heddle.storage<type = "f32", file = 0, offset = 0, taps = 9>}}
func.func private @packing_c6() attributes {packing = #heddle.packing<layout = stored, format = "f32", shape = [1, 18], offset = 0, sources = [#w]>}
