// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights in registers: vectors of 16 lanes, one for each column of W.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_WEIGHTREADER_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_WEIGHTREADER_H

#include "compiler/codegen/machine/Target.h"
#include "compiler/codegen/targets/cpu/MatmulTiles.h"
#include "compiler/weights/PackedLayout.h"

namespace heddle {

// One block of one panel of quantised weights. Every kernel gets the same bits for a weight.
class BlockReader {
public:
  // The block `number` of the unit at `unit`.
  BlockReader(KernelBuilder &builder, const PackedLayout &layout, mlir::Value unit, mlir::Value number,
              const CpuTarget &target);
  // The block number `index` of the panel at `panel`.
  static BlockReader inPanel(KernelBuilder &builder, const PackedLayout &layout, mlir::Value panel, mlir::Value index,
                             const CpuTarget &target);

  // Scales and mins as vector<16xf32>.
  mlir::Value scale() const { return scales; }
  mlir::Value min() const { return mins; }
  // Their factors: numbers of the whole unit, where scales are nested, and what is the block's own.
  mlir::Value unitScale() const { return unitScales; }
  mlir::Value unitMin() const { return unitMins; }
  mlir::Value ownScale() const { return ownScales; }
  mlir::Value ownMin() const { return ownMins; }

  // Four columns: their low bits are the bytes of a vector<16xi32>, which several quads share. Columns of a block are in the order of
  // shares, those of a share in the order of quads.
  struct Quad {
    mlir::Value number; // in its share
    mlir::Value low;
  };
  Quad loadQuad(mlir::Value number);
  Quad loadQuad(int64_t number) { return loadQuad(b.index(number)); }
  // The unsigned codes of one quad, as the bytes of a vector<16xi32>.
  mlir::Value codes(const Quad &quad, int64_t share);
  // Column j of the four as vector<16xf32>: scale * (code - zero) + min.
  mlir::Value column(const Quad &quad, int64_t share, int64_t j);
  // Where the codes of the block lie one after the other as bytes: of eight low bits and no more.
  mlir::Value codesAddress() const { return low; }
  // Asks for weights ahead of this block, of which one of `streams` is read.
  void prefetch(const Prefetch &ahead, int64_t streams);

private:
  mlir::Value loadScales(int64_t offset);
  mlir::Value loadStoredScales(mlir::Value address);
  mlir::Value loadNested(int64_t offset);
  mlir::Value highOf(const Quad &quad, int64_t share);
  mlir::Value looseCodes(const Quad &quad, int64_t share);
  mlir::Value lookUp(mlir::Value codes);
  bool readsTable() const;
  mlir::Value lookUpNumber(mlir::Value index);
  bool readsBiased() const;
  mlir::Value centredCode(const Quad &quad, int64_t share, int64_t j);
  mlir::Value biasedCode(const Quad &quad, int64_t share, int64_t j);

  KernelBuilder &b;
  const PackedLayout &layout;
  const CpuTarget &target;
  mlir::Value unit, number; // the block's unit, and its number in it
  mlir::Value low, high;    // its codes' low bits; the line of high bits, from its own on
  mlir::Value scales, mins;
  mlir::Value unitScales, unitMins, ownScales, ownMins;
};

// The columns of a unit of plain weights as vector<16xf32>: one of f32, two of 16 bits.
llvm::SmallVector<mlir::Value> readPlainUnit(KernelBuilder &b, const PackedLayout &layout, mlir::Value unit);

} // namespace heddle

#endif
