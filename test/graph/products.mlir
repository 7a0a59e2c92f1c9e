// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by every way through the kernel, and those that stay loops, against the interpreter and over thread counts.
// RUN: %heddle verify %s | FileCheck %s
// CHECK: import reference, 36 inputs
// CHECK: binary NMSE

func.func @graph(
    %plain_a: tensor<37x300xf32> {heddle.name = "plain.a"},
    %plain_b: tensor<300x53xf32> {heddle.name = "plain.b"},
    %shared_a: tensor<131x260xf32> {heddle.name = "shared.a"},
    %shared_b: tensor<260x100xf32> {heddle.name = "shared.b"},
    %turned_a_a: tensor<70x19xf32> {heddle.name = "turned_a.a"},
    %turned_a_b: tensor<70x48xf32> {heddle.name = "turned_a.b"},
    %turned_b_a: tensor<9x70xf32> {heddle.name = "turned_b.a"},
    %turned_b_b: tensor<50x70xf32> {heddle.name = "turned_b.b"},
    %turned_c_a: tensor<21x40xf32> {heddle.name = "turned_c.a"},
    %turned_c_b: tensor<40x30xf32> {heddle.name = "turned_c.b"},
    %batch_a: tensor<3x19x40xf32> {heddle.name = "batch.a"},
    %batch_b: tensor<3x40x23xf32> {heddle.name = "batch.b"},
    %rows_of_rows_a: tensor<2x9x64xf32> {heddle.name = "rows_of_rows.a"},
    %rows_of_rows_b: tensor<64x33xf32> {heddle.name = "rows_of_rows.b"},
    %heads_a: tensor<2x7x3x16xf32> {heddle.name = "heads.a"},
    %heads_b: tensor<2x11x3x16xf32> {heddle.name = "heads.b"},
    %vector_a: tensor<33x40xf32> {heddle.name = "vector.a"},
    %vector_b: tensor<40xf32> {heddle.name = "vector.b"},
    %number_a: tensor<257xf32> {heddle.name = "number.a"},
    %number_b: tensor<257xf32> {heddle.name = "number.b"},
    %two_depths_a: tensor<5x6x7xf32> {heddle.name = "two_depths.a"},
    %two_depths_b: tensor<6x7x8xf32> {heddle.name = "two_depths.b"},
    %split_depth_a: tensor<6x5x7xf32> {heddle.name = "split_depth.a"},
    %split_depth_b: tensor<7x6x8xf32> {heddle.name = "split_depth.b"},
    %bytes_a: tensor<7x65xi8> {heddle.name = "bytes.a"},
    %bytes_b: tensor<65x9xi8> {heddle.name = "bytes.b"},
    %halves_a: tensor<7x65xf16> {heddle.name = "halves.a"},
    %halves_b: tensor<65x9xf16> {heddle.name = "halves.b"},
    %brains_a: tensor<7x65xbf16> {heddle.name = "brains.a"},
    %brains_b: tensor<65x20xf32> {heddle.name = "brains.b"},
    %doubles_a: tensor<7x65xf64> {heddle.name = "doubles.a"},
    %doubles_b: tensor<65x9xf64> {heddle.name = "doubles.b"},
    %empty_depth_a: tensor<3x0xf32> {heddle.name = "empty_depth.a"},
    %empty_depth_b: tensor<0x4xf32> {heddle.name = "empty_depth.b"},
    %empty_rows_a: tensor<0x5xf32> {heddle.name = "empty_rows.a"},
    %empty_rows_b: tensor<5x4xf32> {heddle.name = "empty_rows.b"})
    -> (
    tensor<37x53xf32> {heddle.name = "plain"},
    tensor<131x100xf32> {heddle.name = "shared"},
    tensor<19x48xf32> {heddle.name = "turned_a"},
    tensor<9x50xf32> {heddle.name = "turned_b"},
    tensor<30x21xf32> {heddle.name = "turned_c"},
    tensor<3x19x23xf32> {heddle.name = "batch"},
    tensor<2x9x33xf32> {heddle.name = "rows_of_rows"},
    tensor<2x3x7x11xf32> {heddle.name = "heads"},
    tensor<33xf32> {heddle.name = "vector"},
    tensor<f32> {heddle.name = "number"},
    tensor<5x8xf32> {heddle.name = "two_depths"},
    tensor<5x8xf32> {heddle.name = "split_depth"},
    tensor<7x9xi32> {heddle.name = "bytes"},
    tensor<7x9xf32> {heddle.name = "halves"},
    tensor<7x20xbf16> {heddle.name = "brains"},
    tensor<7x9xf64> {heddle.name = "doubles"},
    tensor<3x4xf32> {heddle.name = "empty_depth"},
    tensor<0x4xf32> {heddle.name = "empty_rows"}) {
  %plainz = arith.constant dense<0.0> : tensor<37x53xf32>
  %plain = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%plain_a, %plain_b : tensor<37x300xf32>, tensor<300x53xf32>) outs(%plainz : tensor<37x53xf32>) -> tensor<37x53xf32>
  %sharedz = arith.constant dense<0.0> : tensor<131x100xf32>
  %shared = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%shared_a, %shared_b : tensor<131x260xf32>, tensor<260x100xf32>) outs(%sharedz : tensor<131x100xf32>) -> tensor<131x100xf32>
  %turned_az = arith.constant dense<0.0> : tensor<19x48xf32>
  %turned_a = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%turned_a_a, %turned_a_b : tensor<70x19xf32>, tensor<70x48xf32>) outs(%turned_az : tensor<19x48xf32>) -> tensor<19x48xf32>
  %turned_bz = arith.constant dense<0.0> : tensor<9x50xf32>
  %turned_b = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%turned_b_a, %turned_b_b : tensor<9x70xf32>, tensor<50x70xf32>) outs(%turned_bz : tensor<9x50xf32>) -> tensor<9x50xf32>
  %turned_cz = arith.constant dense<0.0> : tensor<30x21xf32>
  %turned_c = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n, m)>]
    ins(%turned_c_a, %turned_c_b : tensor<21x40xf32>, tensor<40x30xf32>) outs(%turned_cz : tensor<30x21xf32>) -> tensor<30x21xf32>
  %batchz = arith.constant dense<0.0> : tensor<3x19x23xf32>
  %batch = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>]
    ins(%batch_a, %batch_b : tensor<3x19x40xf32>, tensor<3x40x23xf32>) outs(%batchz : tensor<3x19x23xf32>) -> tensor<3x19x23xf32>
  %rows_of_rowsz = arith.constant dense<0.0> : tensor<2x9x33xf32>
  %rows_of_rows = linalg.contract indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>, affine_map<(b, s, n, k) -> (k, n)>, affine_map<(b, s, n, k) -> (b, s, n)>]
    ins(%rows_of_rows_a, %rows_of_rows_b : tensor<2x9x64xf32>, tensor<64x33xf32>) outs(%rows_of_rowsz : tensor<2x9x33xf32>) -> tensor<2x9x33xf32>
  %headsz = arith.constant dense<0.0> : tensor<2x3x7x11xf32>
  %heads = linalg.contract indexing_maps = [affine_map<(b, h, q, s, d) -> (b, q, h, d)>, affine_map<(b, h, q, s, d) -> (b, s, h, d)>, affine_map<(b, h, q, s, d) -> (b, h, q, s)>]
    ins(%heads_a, %heads_b : tensor<2x7x3x16xf32>, tensor<2x11x3x16xf32>) outs(%headsz : tensor<2x3x7x11xf32>) -> tensor<2x3x7x11xf32>
  %vectorz = arith.constant dense<0.0> : tensor<33xf32>
  %vector = linalg.contract indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>]
    ins(%vector_a, %vector_b : tensor<33x40xf32>, tensor<40xf32>) outs(%vectorz : tensor<33xf32>) -> tensor<33xf32>
  %numberz = arith.constant dense<0.0> : tensor<f32>
  %number = linalg.contract indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>]
    ins(%number_a, %number_b : tensor<257xf32>, tensor<257xf32>) outs(%numberz : tensor<f32>) -> tensor<f32>
  %two_depthsz = arith.constant dense<0.0> : tensor<5x8xf32>
  %two_depths = linalg.contract indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>, affine_map<(m, n, k, l) -> (m, n)>]
    ins(%two_depths_a, %two_depths_b : tensor<5x6x7xf32>, tensor<6x7x8xf32>) outs(%two_depthsz : tensor<5x8xf32>) -> tensor<5x8xf32>
  %split_depthz = arith.constant dense<0.0> : tensor<5x8xf32>
  %split_depth = linalg.contract indexing_maps = [affine_map<(m, n, k, l) -> (k, m, l)>, affine_map<(m, n, k, l) -> (l, k, n)>, affine_map<(m, n, k, l) -> (m, n)>]
    ins(%split_depth_a, %split_depth_b : tensor<6x5x7xf32>, tensor<7x6x8xf32>) outs(%split_depthz : tensor<5x8xf32>) -> tensor<5x8xf32>
  %bytesz = arith.constant dense<0> : tensor<7x9xi32>
  %bytes = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%bytes_a, %bytes_b : tensor<7x65xi8>, tensor<65x9xi8>) outs(%bytesz : tensor<7x9xi32>) -> tensor<7x9xi32>
  %halvesz = arith.constant dense<0.0> : tensor<7x9xf32>
  %halves = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%halves_a, %halves_b : tensor<7x65xf16>, tensor<65x9xf16>) outs(%halvesz : tensor<7x9xf32>) -> tensor<7x9xf32>
  %brainsz = arith.constant dense<0.0> : tensor<7x20xbf16>
  %brains = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%brains_a, %brains_b : tensor<7x65xbf16>, tensor<65x20xf32>) outs(%brainsz : tensor<7x20xbf16>) -> tensor<7x20xbf16>
  %doublesz = arith.constant dense<0.0> : tensor<7x9xf64>
  %doubles = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%doubles_a, %doubles_b : tensor<7x65xf64>, tensor<65x9xf64>) outs(%doublesz : tensor<7x9xf64>) -> tensor<7x9xf64>
  %empty_depthz = arith.constant dense<0.0> : tensor<3x4xf32>
  %empty_depth = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%empty_depth_a, %empty_depth_b : tensor<3x0xf32>, tensor<0x4xf32>) outs(%empty_depthz : tensor<3x4xf32>) -> tensor<3x4xf32>
  %empty_rowsz = arith.constant dense<0.0> : tensor<0x4xf32>
  %empty_rows = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%empty_rows_a, %empty_rows_b : tensor<0x5xf32>, tensor<5x4xf32>) outs(%empty_rowsz : tensor<0x4xf32>) -> tensor<0x4xf32>
  return %plain, %shared, %turned_a, %turned_b, %turned_c, %batch, %rows_of_rows, %heads, %vector, %number, %two_depths, %split_depth, %bytes, %halves, %brains, %doubles, %empty_depth, %empty_rows
    : tensor<37x53xf32>, tensor<131x100xf32>, tensor<19x48xf32>, tensor<9x50xf32>, tensor<30x21xf32>, tensor<3x19x23xf32>, tensor<2x9x33xf32>, tensor<2x3x7x11xf32>, tensor<33xf32>, tensor<f32>, tensor<5x8xf32>, tensor<5x8xf32>, tensor<7x9xi32>, tensor<7x9xf32>, tensor<7x20xbf16>, tensor<7x9xf64>, tensor<3x4xf32>, tensor<0x4xf32>
}
