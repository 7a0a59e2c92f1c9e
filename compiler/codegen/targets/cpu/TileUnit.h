// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tile registers of AMX in a kernel: eight of up to 16 rows of 64 bytes.
//
// They are named by the kernel, not allocated, so none is ever spilled, and their shapes stay what the kernel made them, since a
// kernel calls nothing.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_TILEUNIT_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_TILEUNIT_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle {

class TileUnit {
public:
  static constexpr int64_t maxRows = 16, maxRowBytes = 64, shapesBytes = 64;
  // Registers of 2 x 2 tiles of sums, by row tile r and column tile c, and of their operands: all eight.
  static constexpr int64_t sumTile(int64_t r, int64_t c) { return 2 * r + c; }
  static constexpr int64_t leftTile(int64_t r) { return 4 + r; }
  static constexpr int64_t rightTile(int64_t c) { return 6 + c; }

  // Every tile is 16 x 64 until told otherwise. `shapes` is memory of shapesBytes that nothing else writes.
  TileUnit(mlir::ImplicitLocOpBuilder &builder, mlir::Value shapes);

  // Shapes count from the next configure() on, which clears all tiles.
  void setRows(int64_t tile, mlir::Value rows); // i8
  void setShape(int64_t tile, int64_t rows, int64_t rowBytes);
  void configure();
  void release();

  // Rows of a tile lie `stride` bytes apart.
  void load(int64_t tile, mlir::Value address, mlir::Value stride);
  // The same, for rows that are read once before much else is: they leave the first cache before what load() brought.
  void loadStreamed(int64_t tile, mlir::Value address, mlir::Value stride);
  void store(int64_t tile, mlir::Value address, mlir::Value stride);
  void clear(int64_t tile);
  // sum += left right, by an instruction whose name says what the numbers are.
  void multiplyAdd(llvm::StringRef instruction, int64_t sum, int64_t left, int64_t right);

private:
  void emit(llvm::StringRef name, llvm::ArrayRef<int64_t> tiles, mlir::ValueRange operands = {});
  void storeShape(int64_t offset, mlir::Value value);

  mlir::ImplicitLocOpBuilder &b;
  mlir::Value shapes; // what ldtilecfg reads
};

} // namespace heddle

#endif
