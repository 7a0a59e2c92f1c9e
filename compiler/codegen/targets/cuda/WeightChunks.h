// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights in registers.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_WEIGHTCHUNKS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_WEIGHTCHUNKS_H

#include "compiler/codegen/targets/cuda/GpuBuilder.h"
#include "compiler/weights/PackedLayout.h"

#include "llvm/Support/MathExtras.h"

namespace heddle {

// How a warp reads a panel where it lies (PackedLayout): in steps along K, 16 bytes a lane, a whole line of 64 bytes for every four. A
// place is a block of codes or a unit of plain numbers, of which a step has several. A lane's chunk is rows [4 c, 4 c + 4) of the panel,
// c = lane mod 4, and of one place some runs of columns: those that share the bytes. Codes become numbers as they are used.
class WeightChunks {
public:
  // A lane reads the chunks of `lane`, 0 … 31.
  WeightChunks(GpuBuilder &builder, const PackedLayout &layout, int64_t k, mlir::Value lane);

  // What of the layout has no chunks, "of a code book"; empty: it has.
  static std::string missing(const PackedLayout &layout);
  // Columns of a run, of which K is a multiple.
  static int64_t runColumns(const PackedLayout &layout);
  // Lanes whose chunks are a place of a panel: those of a smaller number have place 0 of every step.
  static int64_t lanesOfPlace(const PackedLayout &layout);

  int64_t runColumns() const { return runColumns(layout); }
  int64_t runs() const { return layout.isQuantized() ? layout.sharesPerByte() : 1; }
  int64_t places() const { return llvm::divideCeil(k, placeValues()); }
  int64_t placeValues() const { return layout.isQuantized() ? layout.block : layout.unitValues(); }
  int64_t placesPerStep() const { return warpSize / lanesOfPlace(layout); }
  int64_t steps() const { return llvm::divideCeil(places(), placesPerStep()); }

  // The lane's place in a step; from places() on there is none.
  mlir::Value placeOf(mlir::Value step);
  // First column of a run.
  mlir::Value columnOf(mlir::Value place, int64_t run);

  struct Chunk {
    mlir::Value words; // 4 x i32, one of each row
    mlir::Value high;  // likewise, where codes have high bits: those of the chunk's columns lie lowest in each byte
    // Of each row: w = scale m + offset, where m = 1 + code / 2^bits is what number() makes of the code.
    std::array<mlir::Value, 4> scale, offset;
  };
  Chunk load(mlir::Value panel, mlir::Value place);
  // W as f32 in a row 0 … 3 of the chunk, in column `column` of a run.
  mlir::Value number(const Chunk &chunk, int64_t row, int64_t run, int64_t column);

private:
  // Of 64 bytes, low bits alone.
  int64_t linesOfPlace() const { return layout.isQuantized() ? layout.quadsPerShare() : 1; }

  void loadScales(Chunk &chunk, mlir::Value unit, mlir::Value number);
  // Four rows' scales or mins, as f32.
  std::array<mlir::Value, 4> loadFloats(mlir::Value unit, int64_t offset);
  // Four rows' small integers, each in the highest byte of an i32.
  std::array<mlir::Value, 4> loadNested(mlir::Value unit, int64_t offset, mlir::Value number);

  GpuBuilder &b;
  const PackedLayout &layout;
  int64_t k;
  mlir::Value chunk, line, place; // of the lane: which four rows, which line of a place, which place of a step
};

} // namespace heddle

#endif
