// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices of bf16 in shared memory, swizzled.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_SHAREDTILE_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_SHAREDTILE_H

#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

// `rows` rows of `chunks` chunks of 8 bf16, from a byte offset of the kernel's shared memory on. ldmatrix reads one
// chunk column of 8 rows at a time; row-major they would lie in the same banks. Chunk c of row r is stored at place
// c ^ (r mod 8), or c ^ (r / (8 / chunks)) where a row is shorter than the 128 bytes of all banks: 8 rows then lie in 8
// different bank groups.
class SharedTile {
public:
  // A row holds `columns` elements, padded to a power of two of chunks.
  SharedTile(GpuBuilder &builder, int64_t rows, int64_t columns, int64_t offset);

  // The swizzle begins again behind so many rows.
  static constexpr int64_t swizzleRows = 8;
  int64_t bytes() const { return rows * chunks * chunkBytes; }
  int64_t chunksPerRow() const { return chunks; }
  // Where chunk `chunk` of row `row` lies, from the tile's begin on, in bytes.
  mlir::Value offsetOf(mlir::Value row, mlir::Value chunk);
  // The same for a row that is a multiple of 8 above `row`: the swizzle does not see the difference.
  int64_t rowBytes() const { return chunks * chunkBytes; }
  // The address at `bytes` of the tile, in the copy of it that lies `stage` bytes behind.
  mlir::Value address(mlir::Value bytes, mlir::Value stage = {});

  // The lane's row and chunk inside 16 rows and 2 chunks whose four 8 x 8 matrices ldmatrix reads.
  // ByRows: matrices are (rows 0-7, chunk 0), (8-15, 0), (0-7, 1), (8-15, 1): fragment A; transposed, two fragments B
  // of which chunk 0 is the first. ByChunks: (0-7, 0), (0-7, 1), (8-15, 0), (8-15, 1): two fragments B of 8 rows each.
  enum class Order { ByRows, ByChunks };
  // Byte offset of the lane's row, with `chunk` the first of the two chunks.
  mlir::Value laneOffset(mlir::Value lane, int64_t chunk, Order order);

private:
  GpuBuilder &b;
  int64_t rows, chunks, offset;
};

// Panels of packed bf16 weights (PackedLayout), a slice of `depth` columns of each: pair p of columns is 64 bytes, the pairs
// of 16 rows, which are fragments B as they lie. A fragment takes 8 rows of 4 pairs: rows 8 to 15 of every second couple of
// pairs change places with rows 0 to 7, so that they lie in 32 different banks.
class SharedPanels {
public:
  SharedPanels(GpuBuilder &builder, int64_t depth, int64_t offset) : b(builder), depth(depth), offset(offset) {}

  static constexpr int64_t pairBytes = 64;
  int64_t panelBytes() const { return depth / 2 * pairBytes; }
  // Where a chunk, 4 rows of a pair, lies from the panel's begin on, in bytes.
  mlir::Value offsetOf(mlir::Value pair, mlir::Value chunk);
  mlir::Value address(mlir::Value bytes, mlir::Value stage);
  // Byte offset of the lane's register in the first panel's rows 0-7 (half 0) or 8-15 and its first 4 pairs.
  mlir::Value laneOffset(mlir::Value lane, int64_t half);
  // 8 rows and 16 columns, `bytes` behind what the lane's offset says.
  FragmentB load(mlir::Value laneOffset, int64_t bytes, mlir::Value stage);

private:
  GpuBuilder &b;
  int64_t depth, offset;
};

} // namespace heddle

#endif
