// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention on devices, whatever holds the keys: pages of the cache, rows of a batch, latents. A pipeline says where keys and values lie
// and which of them a query sees; scores, the softmax and the schedule are here.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_SOFTMAXATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_SOFTMAXATTENTION_H

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/kernel/KernelSpecs.h"

#include <functional>

namespace heddle {

// What head `head` of row `row` attends to. Keys are numbered from 0.
struct AttendedKeys {
  Halide::Var head{"head"}, row{"row"};
  Halide::Expr numKeys; // of neither the head nor the row; `isSeen` says which of them count
  std::function<Halide::Expr(Halide::Expr key)> isSeen, distance;                 // distance: from the key to the query
  std::function<Halide::Expr(Halide::Expr element)> query;                        // element < head_dim
  std::function<Halide::Expr(Halide::Expr element, Halide::Expr key)> key, value; // of values element < value_dim
};

// Whether the mask of `spec` lets the query at a position of its sequence see the key at another.
Halide::Expr isInMask(const AttentionSpec &spec, Halide::Expr query, Halide::Expr key);

// The numbers of `table` where the host's code holds them, which a device does not read; empty where it lies in weights or activations.
llvm::SmallVector<float> numbersInCode(mlir::Value table);
// What tells a kernel that has such numbers of `table` from one with others; empty without any.
std::string nameOfNumbersInCode(mlir::Value table);

// What joins scores and their sum, as a pipeline's next inputs: [sinks (num_heads) f32], [positions: slopes (num_heads) f32 unless they are
// `slopes`, buckets (num_heads, num_buckets), or of tokens (num_buckets, num_heads, 2, rows) f32].
struct DeviceScoreTerms {
  DeviceScoreTerms(PipelineBuilder &b, const AttentionSpec &spec, llvm::ArrayRef<float> slopes = {});
  // What a query `distance` tokens behind key `key` adds to its score.
  Halide::Expr at(const AttendedKeys &keys, Halide::Expr key) const;

  const AttentionSpec &spec;
  llvm::ArrayRef<float> slopes; // by head, in the kernel's own code
  Halide::ImageParam sinks, positions;
};

// The buffers of DeviceScoreTerms, `positions` null where the kernel has them; of tokens, rows of positions are `positionsRow` elements
// apart.
void addScoreTerms(Enqueuer &host, const AttentionSpec &spec, mlir::Value sinks, mlir::Value positions,
                   mlir::Value positionsRow = {}, mlir::Value rows = {});

// (value_dim, num_heads, rows): softmax(score) @ value, 0 for a query that sees no key. A block is a row, a thread a head of it.
// `finish`: makes an element of the result of that, where it is another.
Halide::Func softmaxAttention(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                              const DeviceScoreTerms &terms,
                              const std::function<Halide::Expr(Halide::Var d, Halide::Expr value)> &finish = {});

} // namespace heddle

#endif
