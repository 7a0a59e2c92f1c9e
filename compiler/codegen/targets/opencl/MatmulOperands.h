// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a product of rows with packed weights reads and leaves, whatever its schedule: activations four at once, weights by words.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_MATMULOPERANDS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_MATMULOPERANDS_H

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/opencl/MatmulExpressions.h"
#include "compiler/codegen/targets/opencl/PreparedRows.h"

namespace heddle::opencl {

// The inputs of a pipeline: (act (k, rows) f32 or bf16, [norm (k) f32, where rows are prepared], weights through each of packedViews with words, [bias (rows of W)],
// [residual (n, rows), which may be the result itself]). A column of the result is the product of one row of W, or gated of two.
class MatmulOperands {
public:
  // `step`: columns of K that the pipeline takes at once, all of which it asks for also where K ends within. `rows`: of a block.
  MatmulOperands(PipelineBuilder &b, const MatmulSpec &spec, int64_t step, int rows);

  // Rows of W that make a column.
  size_t numSums() const { return numRows; }
  // act[row][k] in f32, and W[r][k] for each row r of W of `column`. Any row may be asked for, and of the last step any k: behind K
  // activations are 0.
  Halide::Expr activation(Halide::Expr k, Halide::Expr row) const;
  std::vector<Halide::Expr> weights(Halide::Expr column, Halide::Expr k) const;
  // Where a thread reads, once for all that it makes of it: four activations of each of `rows` rows and the words of four columns of W, at
  // `quad`; scale and min of a block at `block`.
  void computeAt(const Halide::LoopLevel &quad, const Halide::LoopLevel &block, int rows);
  // What preparing rows needs of all of them, before a block of 16 x 16 threads reads the first.
  void prepareAt(const Halide::LoopLevel &block) { prepared.computeAt(block); }

  // out[row][column] of those sums.
  Halide::Expr finished(const std::vector<Halide::Expr> &sums, Halide::Expr column, Halide::Expr row);

private:
  // K is read in runs of four, which 4 divides for all types but numbers of odd files.
  bool inQuads() const { return spec.k % 4 == 0; }
  bool inWords() const { return inQuads() && WeightExpressions::wordColumns(spec.layout) > 1; }
  Halide::Expr within(Halide::Expr k) const;
  Halide::Expr loaded(Halide::Expr k, Halide::Expr row) const;

  const MatmulSpec &spec;
  size_t numRows;
  bool exceeds; // K ends within a step
  Halide::ImageParam act;
  PreparedRows prepared;
  WeightExpressions packed;
  Halide::ImageParam bias, residual;
  Halide::Func fours, low, high, scale, min; // by (i, quad, row), (word, column) and (block, column)
};

} // namespace heddle::opencl

#endif
