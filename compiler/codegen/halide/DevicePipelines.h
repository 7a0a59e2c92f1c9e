// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What MLIR emits for a CPU, emitted by Halide for a device: products, embedding, the cache and attention. Dimensions are given
// innermost first, as Halide counts them; rows are the tokens of the step.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEPIPELINES_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEPIPELINES_H

#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/codegen/targets/cpu/KvAppend.h"
#include "compiler/codegen/targets/cpu/Dequantize.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/codegen/halide/EmitPipeline.h"

namespace heddle {

// Columns of the page table that attention takes: one per sequence. Pages of the cache are (head_dim, 64, num_kv_heads, pages).

// (act (k, rows) f32 or bf16, weights through each of packedViews, [bias (n)], [residual (n, rows), which may be the result itself])
//   -> (n, rows)
mlir::FailureOr<std::string> emitDeviceMatmul(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                              const MatmulSpec &spec);

// (ids (rows) i32, weights through each of packedViews) -> (k, rows)
mlir::FailureOr<std::string> emitDeviceEmbedding(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                                 const EmbeddingSpec &spec, int64_t n);

// (values (head_dim, num_kv_heads, rows) f32, row_sequence (rows), cache_positions (rows), page_table (pages, sequences))
//   -> pages, of which the rows' slots are written
mlir::FailureOr<std::string> emitDeviceKvAppend(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                                const KvAppendSpec &spec);

// (query (head_dim, num_heads, rows) f32, keys: pages, values: pages, row_sequence, cache_positions, page_table)
//   -> (head_dim, num_heads, rows)
mlir::FailureOr<std::string> emitDeviceAttention(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                                 const AttentionSpec &spec);

} // namespace heddle

#endif
