// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What products with packed weights have in common, of experts or not: which rows of W make a column, and what is made of their sums.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_MATMULEXPRESSIONS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_MATMULEXPRESSIONS_H

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "Halide.h"

#include <utility>
#include <vector>

namespace heddle::opencl {

// The rows of W whose products make column `column`, as W and as a bias count them: one, or of a gated product the gate's and the up
// projection's.
std::vector<std::pair<Halide::Expr, Halide::Expr>> rowsOfColumn(const MatmulSpec &spec, Halide::Expr column);

// `sums`: of those rows, with their biases.
Halide::Expr finished(const MatmulSpec &spec, const std::vector<Halide::Expr> &sums);

// Value `index` of `count` that a function has.
inline Halide::Expr valueOf(const Halide::FuncRef &values, size_t index, size_t count) {
  return count == 1 ? Halide::Expr(values) : values[int(index)];
}

} // namespace heddle::opencl

#endif
