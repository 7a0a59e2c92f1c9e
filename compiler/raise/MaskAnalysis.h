// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a mask lets through, proven from the diagram of what it adds to the scores.
#ifndef HEDDLE_COMPILER_RAISE_MASKANALYSIS_H
#define HEDDLE_COMPILER_RAISE_MASKANALYSIS_H

#include "compiler/raise/ElementTrace.h"

namespace heddle {

// Added values from here down hide a key: exp of what is left is 0 in every float type for scores that differ by less than 9,000.
constexpr double hiddenValue = -1e4;

// Added values from here down hide a key whatever else is added to them.
constexpr double lowestValue = -1e30;

// Whether a score that `added` is added to is hidden.
bool hides(Expr added);

struct MaskProof {
  bool causal = false;
  int64_t window = 0;
  // What is still added where the mask lets through; null: nothing.
  Expr bias = nullptr;
};

// `added`: what is added to the score of query `row` and key `column`, hidden keys getting hiddenValue or less. The mask is what
// follows for every value of every symbol; the rest stays in `bias`.
MaskProof proveMask(ExprContext &exprs, Expr added, Expr row, Expr column, Expr queries, Expr keys);

// Elements of constants of two dimensions whose values depend on row - column alone, as decisions on that difference. Others stay.
Expr resolveConstants(ExprContext &exprs, Expr expr);

} // namespace heddle

#endif
