// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of few rows with packed weights of any type, on tensor cores those of codes alone:
// out = act W^T [+ bias] [activation] [+ out].
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GEMV_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GEMV_H

#include "compiler/codegen/targets/cuda/PackedMatmul.h"

namespace heddle {

// A block computes `rows` rows of `panels` panels of W. Its warps share out K; each has `loads` chunks of every panel on their way at once.
struct GpuGemvTile {
  int64_t maxRows; // of the steps it is for
  int64_t rows, panels, warps, loads;
  // On tensor cores (CodeGemv.cpp), else 0: `slice` columns of K of all rows lie in shared memory at once. A block has `sets` of panels, one
  // after the other.
  int64_t slice = 0, sets = 1;

  int64_t threads() const { return warps * warpSize; }
  int64_t blockPanels() const { return panels * sets; }
  // That a launch asks for.
  int64_t sharedBytes(const GpuMatmulSpec &spec) const;
};

// Whether tensor cores multiply few rows, too: W is of codes, K of whole blocks.
bool hasCodeGemv(const GpuMatmulSpec &spec);
// The tiles of a schedule that are for few rows of such a product.
TileRole gemvRole(const GpuMatmulSpec &spec);
// One of a CUDA schedule for products. Gated, a block has panels of both matrices.
GpuGemvTile gemvTileOf(TileAttr tile, const GpuMatmulSpec &spec);

// Fails, besides as verifyGpuMatmul does, with what of the weights' type it does not take, or where K is no multiple of the columns that
// share bytes (WeightChunks::runColumns).
mlir::LogicalResult verifyGpuGemv(const GpuMatmulSpec &spec, std::string &error);

// The parameters are those of buildGpuMatmul, `act` f32 or bf16, where rows are prepared `const float *norm`, (K), and where the product ends
// with heads `uint32_t *counters`, (numAllHeads()), each 0 before and after, and what HeadRows takes: steps of not more rows than the tile's; the grid has (ceil(weightPanels / blockPanels()), ceil(rows / tile rows)) blocks of
// threads() threads, launched with sharedBytes(). Runs of activations are read at once: rows begin at a multiple of runColumns elements and as many bytes. weights are
// 16-byte aligned. A row has the same bits with every tile of as many warps, and whatever rows lie beside it.
mlir::gpu::GPUFuncOp buildGpuGemv(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const GpuMatmulSpec &spec,
                                  const GpuGemvTile &tile);

} // namespace heddle

#endif
