// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights of codes as left operands of mma.sync.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CODEFRAGMENTS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CODEFRAGMENTS_H

#include "compiler/codegen/targets/cuda/GpuBuilder.h"
#include "compiler/weights/PackedLayout.h"

#include "llvm/Support/MathExtras.h"

namespace heddle {

// How a warp reads a panel where it lies (PackedLayout): a place of 32 columns at once, which is one block of codes or two. Lane 4 g + t has rows
// 2 g and 2 g + 1 of the panel, which are rows g and g + 8 of fragment A, and quads t and t + 4 of the place's eight: those of its first and of its
// second 16 columns. Of a quad's columns 0 … 3 fragment A has 0 and 2, then 1 and 3. Eight warps have a step of 256 columns, a place each.
class CodeFragments {
public:
  using Value = mlir::Value;

  static constexpr int64_t placeColumns = 32, numWarps = 8, stepColumns = placeColumns * numWarps;

  CodeFragments(GpuBuilder &builder, const PackedLayout &layout, int64_t k, Value lane, Value warp);

  // Whether a matrix of k columns has fragments.
  static bool takes(const PackedLayout &layout, int64_t k);
  // Values of a place on their way, at most so many registers.
  static int64_t registers(const PackedLayout &layout);

  int64_t blocks() const { return placeColumns / layout.block; }
  int64_t places() const { return k / placeColumns; }
  int64_t steps() const { return llvm::divideCeil(places(), numWarps); }
  bool hasMins() const { return layout.hasMin || centre() != layout.zero; }

  // The warp's places of `count` steps from `first` on; behind its last one, the last. Appends as many values for each.
  void load(Value panel, Value first, int64_t count, llvm::SmallVectorImpl<Value> &loaded) const;

  // Rows 2 g and 2 g + 1 of a block: fragments for each 16 columns, whose numbers a are exact, and w = scale a + min.
  struct Block {
    llvm::SmallVector<FragmentA, 2> fragments;
    std::array<Value, 2> scale, min; // min null: 0
  };
  // Of the first values of `loaded`, which are taken off.
  llvm::SmallVector<Block, 2> unpack(llvm::ArrayRef<Value> &loaded) const;

private:
  // Lines of 64 bytes in which a block's quads lie, that a lane has of.
  int64_t lines() const { return llvm::divideCeil(layout.quadsPerShare(), 4); }
  int64_t groups() const { return blocks() / layout.blocksPerGroup(); }
  int64_t stepBytes() const { return stepColumns / layout.unitValues() * layout.unitBytes(); }
  int64_t codeBits() const { return layout.lowBits() + layout.highBits; }
  // The code that stands for 0 in a fragment.
  int64_t centre() const { return codeBits() == 8 ? 128 : layout.zero; }

  std::array<Value, 2> pairs(Value low, Value high, int64_t lowShift, int64_t highShift) const;
  Value centred(Value codes) const;
  std::array<Value, 2> floats(Value pair) const;
  Value floatOfByte(Value bytes, int64_t row) const;
  void scale(Block &block, Value scales, Value mins, Value nestedScales, Value nestedMins) const;

  GpuBuilder &b;
  const PackedLayout &layout;
  int64_t k;
  Value lowAt, highAt, scaleAt, nestedAt; // of the lane, from a step of a panel on, in bytes
  Value lowShift, highShift;              // of the lane: to its quad's bits; null: 0
  Value lastStep;                         // of the warp
};

} // namespace heddle

#endif
