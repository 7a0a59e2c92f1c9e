// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What products make of f32 rows before they multiply them: an RMS norm, rounding to bf16.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_PREPAREDROWS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_PREPAREDROWS_H

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/kernel/KernelSpecs.h"

namespace heddle::opencl {

class PreparedRows {
public:
  // Of `act` (k, rows) f32; with a norm (k) f32 is the pipeline's next input. A block has rows [number * rows, (number + 1) * rows).
  PreparedRows(PipelineBuilder &b, const MatmulSpec &spec, Halide::ImageParam act, int rows);

  // Any row of a block that there is.
  Halide::Expr at(Halide::Expr k, Halide::Expr row) const;
  // Scales of a block's rows in its local memory: `threads` are 16 x 16.
  void computeAt(const Halide::LoopLevel &block);

private:
  const MatmulSpec &spec;
  Halide::ImageParam act, norm;
  int rows;
  Halide::Var lane{"lane"}, share{"share"}, ofTile{"of_tile"}, number{"number"};
  Halide::Func squares, sums, scale; // by (lane, share, ofTile, number), (lane, ofTile, number), (ofTile, number)
};

// (act (k, rows) f32, [norm (k)]) -> (k, rows) as the product reads it.
mlir::FailureOr<std::string> emitPreparation(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                             const MatmulSpec &spec);

} // namespace heddle::opencl

#endif
