// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with packed weights: out = act W^T [+ bias] [activation] [+ out]. bf16 activations are multiplied on tensor
// cores with weights of bf16 and of codes; few rows, and any of other types, by Gemv.h.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_PACKEDMATMUL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_PACKEDMATMUL_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

// A kernel's tile: a block of warpsM * warpsN warps computes blockM x blockN outputs, blockK columns of K at a time,
// with `stages` such slices of both matrices in shared memory.
struct GpuMatmulTile {
  int64_t maxRows; // of the steps it is for
  int64_t blockM, blockN, blockK, warpsM, warpsN, stages;
  bool isOfWarpgroups; // multiplied by wgmma (WarpgroupMatmul.cpp): blockK is 64, warpsM 1, and a warp has 16 columns
  // Of warpgroups: blocks of a cluster, which share out K and add up what each has in their order; slices of K are a multiple.
  int64_t splits = 1;

  int64_t threads() const { return warpsM * warpsN * 32; }
  int64_t warpM() const { return blockM / warpsM; }
  int64_t warpN() const { return blockN / warpsN; }
  int64_t stageBytes() const { return (blockM + blockN) * blockK * 2; }
  int64_t sharedBytes() const { return stages * stageBytes(); }
  // A block with its part of K finishes whole groups of 8 rows, of which a lane's sums are; where gated, each of two warps half of them.
  bool finishesRows(bool isGated) const { return blockM % (splits * (isGated ? 16 : 8)) == 0; }
  // A multiprocessor of sm_90a has no shared memory for two such blocks.
  bool isAlone() const { return 2 * (sharedBytes() + 1024) > int64_t(228) * 1024; }
};

struct GpuMatmulSpec {
  int64_t n = 0; // out_features
  int64_t k = 0; // in_features
  PackedLayout layout = *layoutFor(TensorType::BF16);
  MatmulActivation activation = MatmulActivation::Bf16; // or F32
  bool hasBias = false;
  bool accumulate = false; // out += …: a residual
  // After the bias, before the residual. Gated: W has 2 N rows, a panel of the gate's and one of the up projection's by turns
  // (PanelOrder::Interleaved), and out = activation(gate) * up; no bias.
  MatmulEpilogue epilogue = MatmulEpilogue::None;
  bool isGated = false;
  // Of products of few rows: `act` is f32 whatever `activation` is, and becomes that as it is read.
  std::optional<RowPreparation> prepares = std::nullopt;
  // Of products of few rows: `out` is rows of heads, of which the last block to be done with a head makes what HeadRows does.
  std::optional<RotateAppendSpec> heads = std::nullopt;

  // Rows of W.
  int64_t weightRows() const { return isGated ? 2 * n : n; }
  // W as PackedLayout has it: panels of 16 rows, filled up with zeros.
  int64_t weightPanels() const { return (weightRows() + 15) / 16; }
  int64_t panelBytes() const { return layout.panelBytes(k); }
};

GpuMatmulSpec gpuSpecOf(const MatmulSpec &spec);

// The tiles for tensor cores of a CUDA schedule (matmulSchedule of compiler/schedule/ScheduleTable.h), by falling maxRows, which of warpgroups follow from the number
// of blocks, too, and behind them those with splits, which take their place where sums may have another order; none for what they do not take: activations or plain weights other than bf16, or rows of another width than a multiple of 16 bytes.
llvm::SmallVector<GpuMatmulTile> tensorCoreTiles(ScheduleAttr schedule, const GpuMatmulSpec &spec);

// Fails with the violated constraint: N and K positive, N a multiple of 16 where gated, no bias where gated.
mlir::LogicalResult verifyGpuMatmul(const GpuMatmulSpec &spec, std::string &error);

// The bias of a column, null where there is none.
mlir::Value biasOf(GpuBuilder &b, const GpuMatmulSpec &spec, mlir::Value bias, mlir::Value column);
// A finished sum, of the gate's where it is gated: with the bias of its column, and activated.
mlir::Value emitEpilogue(GpuBuilder &b, const GpuMatmulSpec &spec, mlir::Value biasOfColumn, mlir::Value sum);

// void name(const bf16 *act,      // (rows, K), row stride actStride elements, a multiple of 8
//           const void *weights,  // weightPanels panels of the CPU's products: bf16, or codes without a book, which are rounded to bf16
//           const float *bias,    // (N) with hasBias, else unused
//           float *out,           // (rows, N), row stride outStride elements, even if N is
//           int32_t rows, int64_t actStride, int64_t outStride)
// of bf16 activations, for a grid of (ceil(weightRows / blockN), ceil(rows / blockM), splits) blocks of threads() threads, launched with
// launchedSharedBytes(sharedBytes()). act and weights are
// 16-byte aligned, out 8-byte. What lies between K and a row's stride is never
// read.
mlir::gpu::GPUFuncOp buildGpuMatmul(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const GpuMatmulSpec &spec,
                                    const GpuMatmulTile &tile);

} // namespace heddle

#endif
