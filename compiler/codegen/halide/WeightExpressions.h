// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights (compiler/weights/PackedLayout.h) as functions of row and column, read where they lie and dequantised in registers.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_WEIGHTEXPRESSIONS_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_WEIGHTEXPRESSIONS_H

#include "compiler/weights/PackedLayout.h"

#include "Halide.h"

namespace heddle {

// The bits of an f16 as f32, exactly. bf16 is the upper half of f32.
Halide::Expr halfExpr(Halide::Expr bits);
Halide::Expr bfloatExpr(Halide::Expr bits);
// f32 rounded to the nearest f16 or bf16, ties to even, as 16 bits.
Halide::Expr halfBits(Halide::Expr value);
Halide::Expr bfloatBits(Halide::Expr value);

// W (N, K). All views look at the same memory, as numbers of different types.
class WeightExpressions {
public:
  // `inWords`: there is a view of words beside, for `low` and `high`.
  WeightExpressions(const PackedLayout &layout, int64_t n, int64_t k, const std::string &name, bool inWords = false);

  // What the values of a block share; min is undefined where the layout has none. Of quantised weights only.
  struct Terms {
    Halide::Expr scale, min;
  };
  Terms terms(Halide::Expr row, Halide::Expr block) const;
  // W[row][column]; row < N, column < K. `ofBlock`: the terms of its block.
  Halide::Expr at(Halide::Expr row, Halide::Expr column, const Terms &ofBlock) const;
  Halide::Expr at(Halide::Expr row, Halide::Expr column) const {
    return at(row, column, layout.isQuantized() ? terms(row, column / int(layout.block)) : Terms());
  }

  // Four bytes of a row that lie together hold 16-bit numbers of two columns, or parts of the codes of four: their low bits and, of layouts
  // that have some, their high ones. Of a column, words that its neighbours share; f32 numbers are words as they are.
  struct Words {
    Halide::Expr low, high;
  };
  static int wordColumns(const PackedLayout &layout) {
    return layout.isQuantized() ? 4 : layout.numbers == PackedNumbers::F32 ? 1 : 2;
  }
  Words words(Halide::Expr row, Halide::Expr column) const;
  Halide::Expr at(Halide::Expr row, Halide::Expr column, const Words &ofColumn, const Terms &ofBlock) const;

  struct View {
    Halide::ImageParam param; // (elements of a panel, panels), innermost first
    int bytes;                // of an element
  };
  const std::vector<View> &views() const { return all; }

private:
  // Where the codes of a column lie: the first byte of its lines in the panel, in units of `unit` bytes, and the lowest of its bits.
  struct CodePlace {
    Halide::Expr low, high, lowShift, highShift;
  };
  CodePlace placeOf(Halide::Expr column, int unit) const;
  Halide::Expr decoded(Halide::Expr low, Halide::Expr high, const CodePlace &place, const Terms &ofBlock) const;
  Halide::Expr scaleAt(Halide::Expr panel, Halide::Expr lane, Halide::Expr unit, int64_t offset) const;

  PackedLayout layout;
  std::vector<View> all; // plain: the numbers; blocks: scales, codes; then words, if they were asked for
};

// The views that weights of a layout are read through, as (type, elements of a panel); in order of views().
std::vector<std::pair<Halide::Type, int64_t>> packedViews(const PackedLayout &layout, int64_t k, bool inWords = false);

} // namespace heddle

#endif
