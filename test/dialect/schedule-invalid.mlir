// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

// expected-error @+1 {{target has 16 registers of 7 lanes; a CPU has some, of 4, 8 or 16 lanes}}
func.func private @target_c1() attributes {target = #heddle.target<device = cpu, name = "x", lanes = 7, registers = 16>}

// -----

// expected-error @+1 {{target has 0 registers of 8 lanes; a device has none}}
func.func private @target_c1_device() attributes {target = #heddle.target<device = opencl, name = "opencl", lanes = 8>}

// -----

// expected-error @+1 {{rows [2, 4] of a tile must be positive and fall}}
func.func private @tile_c1() attributes {tile = #heddle.tile<role = rows, rows = [2, 4], columns = 16>}

// -----

// expected-error @+1 {{a tile of 1 heights and 0 columns holds nothing}}
func.func private @tile_c1_columns() attributes {tile = #heddle.tile<role = rows, rows = [2], columns = 0>}

// -----

// expected-error @+1 {{k (0) and maxRows (-1) must not be negative, stages (1) must be positive}}
func.func private @tile_c2() attributes {tile = #heddle.tile<role = rows, rows = [2], columns = 16, maxRows = -1>}

// -----

// expected-error @+1 {{warps [2] must be two positive numbers}}
func.func private @tile_c2_warps() attributes {tile = #heddle.tile<role = rows, rows = [2], columns = 16, warps = [2]>}

// -----

// expected-error @+1 {{a number of a schedule (-1) must not be negative}}
func.func private @schedule_c1() attributes {schedule = #heddle.schedule<tiles = [], kBlock = -1>}

// -----

// expected-error @+1 {{blockKv (48) must divide the page of 64 tokens}}
func.func private @schedule_c2() attributes {schedule = #heddle.schedule<tiles = [], blockKv = 48>}

// -----

// expected-error @+1 {{splitKv (96) must be a multiple of the page of 64 tokens, of blocks (32)}}
func.func private @schedule_c2_split() attributes {schedule = #heddle.schedule<tiles = [], blockKv = 32, splitKv = 96>}

// -----

// expected-error @+1 {{prefetchCache (3) must be 1 or 2}}
func.func private @schedule_c3() attributes {schedule = #heddle.schedule<tiles = [], prefetchCache = 3>}

// -----

// expected-error @+1 {{prefetchLines (2) must be 0 or 1}}
func.func private @schedule_c4() attributes {schedule = #heddle.schedule<tiles = [], prefetchLines = 2>}
