// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights in registers: vectors of 16 lanes, one for each column of W.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_WEIGHTREADER_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_WEIGHTREADER_H

#include "compiler/codegen/machine/Target.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"
#include "compiler/weights/PackedLayout.h"

namespace heddle {

// One block of one panel of quantised weights. Every kernel gets the same bits for a weight.
class BlockReader {
public:
  BlockReader(KernelBuilder &builder, const PackedLayout &layout, mlir::Value block, const CpuTarget &target);

  // Scales and mins as vector<16xf32>.
  mlir::Value scale() const { return scales; }
  mlir::Value min() const { return mins; }

  // Four columns at a time: their codes are the bytes of a vector<16xi32>. 4-bit codes of the block's first half are
  // the low nibbles of what is stored, those of its second half the high ones.
  static int64_t numHalves(const PackedLayout &layout) { return layout.numbers == PackedNumbers::U4 ? 2 : 1; }
  static int64_t quadsPerHalf(const PackedLayout &layout) { return layout.block / 4 / numHalves(layout); }
  mlir::Value codesAddress();
  mlir::Value loadQuad(mlir::Value quad);
  mlir::Value loadQuad(int64_t quad) { return loadQuad(b.index(quad)); }
  mlir::Value codes(mlir::Value stored, int64_t half);
  // Column j of the four, as they are stored, as vector<16xf32>: scale * (code - zero) + min.
  mlir::Value column(mlir::Value stored, int64_t half, int64_t j);

private:
  mlir::Value loadScales(int64_t offset);
  mlir::Value centredCode(mlir::Value stored, int64_t half, int64_t j);

  KernelBuilder &b;
  const PackedLayout &layout;
  mlir::Value block, scales, mins;
  bool hasLookup; // of 16 numbers by the low four bits of a lane
};

// The columns of a unit of plain weights as vector<16xf32>: one of f32, two of 16 bits.
llvm::SmallVector<mlir::Value> readPlainUnit(KernelBuilder &b, const PackedLayout &layout, mlir::Value unit);

} // namespace heddle

#endif
