// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-plan-memory --split-input-file --verify-diagnostics | FileCheck %s

// A row of 64 floats takes 256 bytes, one of 10 is rounded up to 64. %late takes the place of %early, which nobody reads any more.
// CHECK: module attributes {heddle.fixed_bytes = 0 : i64, heddle.row_bytes = 832 : i64}
// CHECK-LABEL: @step
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 256 : i64} : memref<?x64xf32>
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 512 : i64} : memref<?x10xf32>
module {
  func.func @step(%n: index, %w: memref<8192xi8>, %w10: memref<1280xi8>) {
    %early = memref.alloc(%n) : memref<?x64xf32>
    %middle = memref.alloc(%n) : memref<?x64xf32>
    heddle.packed_matmul ins(%early, %w : memref<?x64xf32>, memref<8192xi8>) outs(%middle : memref<?x64xf32>) {format = "bf16", k = 64 : i64, n = 64 : i64}
    %late = memref.alloc(%n) : memref<?x64xf32>
    %narrow = memref.alloc(%n) : memref<?x10xf32>
    heddle.packed_matmul ins(%middle, %w : memref<?x64xf32>, memref<8192xi8>) outs(%late : memref<?x64xf32>) {format = "bf16", k = 64 : i64, n = 64 : i64}
    heddle.packed_matmul ins(%late, %w10 : memref<?x64xf32>, memref<1280xi8>) outs(%narrow : memref<?x10xf32>) {format = "bf16", k = 64 : i64, n = 10 : i64}
    func.call @layer(%middle, %w) : (memref<?x64xf32>, memref<8192xi8>) -> ()
    return
  }
  // Lies behind its caller's: 576 + 256.
  // CHECK-LABEL: @layer
  // CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 576 : i64}
  func.func private @layer(%x: memref<?x64xf32>, %w: memref<8192xi8>) {
    %c0 = arith.constant 0 : index
    %n = memref.dim %x, %c0 : memref<?x64xf32>
    %own = memref.alloc(%n) : memref<?x64xf32>
    heddle.packed_matmul ins(%x, %w : memref<?x64xf32>, memref<8192xi8>) outs(%own : memref<?x64xf32>) {format = "bf16", k = 64 : i64, n = 64 : i64}
    return
  }
}

// -----

// A view keeps its buffer alive: %b must not lie where %a does.
// CHECK: module attributes {heddle.fixed_bytes = 0 : i64, heddle.row_bytes = 512 : i64}
// CHECK-LABEL: @step
// CHECK: heddle.row_offset = 0 : i64
// CHECK: heddle.row_offset = 256 : i64
module {
  func.func @step(%n: index, %w: memref<4096xi8>) {
    %a = memref.alloc(%n) : memref<?x64xf32>
    %view = memref.subview %a[0, 32] [%n, 32] [1, 1] : memref<?x64xf32> to memref<?x32xf32, strided<[64, 1], offset: 32>>
    %b = memref.alloc(%n) : memref<?x64xf32>
    heddle.packed_matmul ins(%view, %w : memref<?x32xf32, strided<[64, 1], offset: 32>>, memref<4096xi8>) outs(%b : memref<?x64xf32>) {format = "bf16", k = 32 : i64, n = 64 : i64}
    return
  }
}

// -----

// expected-error @+1 {{has no function @step}}
module {
  func.func private @layer() { return }
}

// -----

func.func @step(%n: index) {
  // expected-error @+1 {{buffer 'memref<4x?xf32>' does not consist of rows}}
  %columns = memref.alloc(%n) : memref<4x?xf32>
  return
}

// -----

// Buffers without rows lie behind those with rows; buffers used inside a branch live until its end, so %out does not lie
// where %q does.
// CHECK: module attributes {heddle.fixed_bytes = 320 : i64, heddle.row_bytes = 384 : i64}
// CHECK-LABEL: @step
// CHECK: heddle.row_offset = 0 : i64
// CHECK: heddle.row_offset = 192 : i64
// CHECK: scf.if
// CHECK: memref.alloc() {heddle.offset = 0 : i64} : memref<1x48xf32>
// CHECK: memref.alloc() {heddle.offset = 192 : i64} : memref<1x6xf32>
// CHECK: memref.alloc() {heddle.offset = 256 : i64} : memref<1x6xf32>
module {
  func.func @step(%n: index, %few: i1, %c: !heddle.kv_cache<1 x 2 x 8 x f32>) {
    %layer = arith.constant 0 : index
    %q = memref.alloc(%n) : memref<?x48xf32>
    %out = memref.alloc(%n) : memref<?x48xf32>
    scf.if %few {
      %o = memref.alloc() : memref<1x48xf32>
      %m = memref.alloc() : memref<1x6xf32>
      %l = memref.alloc() : memref<1x6xf32>
      heddle.online_attention <causal> ins(%q, %c[%layer] : memref<?x48xf32>, <1 x 2 x 8 x f32>) outs(%o, %m, %l : memref<1x48xf32>, memref<1x6xf32>, memref<1x6xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, split_kv = 512 : i64}
      heddle.combine_splits <causal> ins(%o, %m, %l, %c : memref<1x48xf32>, memref<1x6xf32>, memref<1x6xf32>, <1 x 2 x 8 x f32>) outs(%out : memref<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64}
    }
    return
  }
}

// -----

// Tiles read the rounded rows of 1024 bytes 16 at a time, and write rows of 2048 bytes: each lies 64 bytes further on. Those of 960 bytes do without.
// CHECK: module attributes {heddle.fixed_bytes = 0 : i64, heddle.row_bytes = 3200 : i64, heddle.thread_bytes = 524288 : i64}
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 2112 : i64} : memref<?x512xbf16, strided<[544, 1]>>
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 0 : i64} : memref<?x512xf32, strided<[528, 1]>>
// CHECK: packed_matmul ins(%{{.*}}, %{{.*}} : memref<?x512xbf16, strided<[544, 1]>>, memref<524288xi8>) outs(%{{.*}} : memref<?x512xf32, strided<[528, 1]>>)
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 2112 : i64} : memref<?x480xbf16>
#few = #heddle.tile<role = few_rows, rows = [1], columns = 16>
#unit = #heddle.tile<role = tile_unit, rows = [32, 16], columns = 32, maxRows = 512, k = 512>
#product = #heddle.schedule<tiles = [#few, #unit], kBlock = 128, rowBlock = 256, scratchBytes = 524288>
module {
  func.func @step(%n: index, %w: memref<524288xi8>, %v: memref<491520xi8>) {
    %wide = memref.alloc(%n) : memref<?x512xbf16>
    %out = memref.alloc(%n) : memref<?x512xf32>
    heddle.packed_matmul ins(%wide, %w : memref<?x512xbf16>, memref<524288xi8>) outs(%out : memref<?x512xf32>) {format = "bf16", k = 512 : i64, n = 512 : i64, heddle.schedule = #product}
    %narrow = memref.alloc(%n) : memref<?x480xbf16>
    heddle.packed_matmul ins(%narrow, %v : memref<?x480xbf16>, memref<491520xi8>) outs(%out : memref<?x512xf32>) {format = "bf16", k = 480 : i64, n = 512 : i64, heddle.schedule = #product}
    return
  }
}
