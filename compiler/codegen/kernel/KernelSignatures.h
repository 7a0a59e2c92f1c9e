// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kernel an op asks for, whatever the target: its specification, and the name that tells it from others.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELSIGNATURES_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELSIGNATURES_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "dialect/ScheduleAttrs.h"

namespace heddle {

// Fails, with an error at `op`, if no packed layout holds weights of that format.
mlir::FailureOr<PackedLayout> layoutOf(mlir::Operation *op, llvm::StringRef format);
KvType kvTypeOf(KvCacheType cache);

mlir::FailureOr<MatmulSpec> specOf(PackedMatmulOp op);
mlir::FailureOr<MatmulSpec> specOf(ExpertMatmulOp op);
mlir::FailureOr<IntegerMatmulSpec> specOf(IntegerMatmulOp op);
mlir::FailureOr<EmbeddingSpec> specOf(DequantizeOp op);
MoeRouteSpec specOf(RouteExpertsOp op);
AttentionSpec specOf(OnlineAttentionOp op);
AttentionSpec specOf(CombineSplitsOp op);
AttentionSpec specOf(FlashAttentionOp op);
AttentionSpec specOf(RaggedAttentionOp op);
KvAppendSpec specOf(KvAppendOp op);
mlir::FailureOr<RotateAppendSpec> specOf(RotateAppendOp op);
ConvSpec specOf(RaggedConvOp op);
LinearAttentionSpec specOf(RaggedLinearAttentionOp op);

std::string signatureOf(PackedMatmulOp op);
std::string signatureOf(ExpertMatmulOp op);
std::string signatureOf(IntegerMatmulOp op);
// `countsRows`: the kernel knows how many rows the table has.
std::string signatureOf(DequantizeOp op, bool countsRows);
std::string signatureOf(RouteExpertsOp op);
// Of the kernel that lists the rows of each expert.
std::string groupName(const MoeRouteSpec &spec);
std::string signatureOf(OnlineAttentionOp op);
std::string signatureOf(CombineSplitsOp op);
std::string signatureOf(FlashAttentionOp op);
std::string signatureOf(RaggedAttentionOp op);
std::string signatureOf(KvAppendOp op);
std::string signatureOf(RotateAppendOp op);
std::string signatureOf(RaggedConvOp op);
std::string signatureOf(RaggedLinearAttentionOp op);
// A product of f32 rows with (n, k) packed as `format`.
std::string matmulName(llvm::StringRef format, int64_t n, int64_t k);

// Tiles, blocks and splits of attention are the schedule's; `tile` says whose rows.
void applySchedule(AttentionSpec &spec, ScheduleAttr schedule, unsigned tile = 0);

// Bytes from the packed weights of one expert to those of the next.
int64_t expertBytes(ExpertMatmulOp op);

} // namespace heddle

#endif
