// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention on devices, whatever holds the keys: pages of the cache, rows of a batch, latents. A pipeline says where keys and values lie
// and which of them a query sees; scores, the softmax and the schedule are here.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_SOFTMAXATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_SOFTMAXATTENTION_H

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/kernel/KernelTarget.h"

#include <functional>

namespace heddle {

// What the rows of a step attend to. Rows of a sequence are adjacent; its keys are numbered from 0.
struct AttendedKeys {
  Halide::Expr numRows, numSequences, mostKeys; // mostKeys: of any sequence
  // Of a row that there is: the index of its sequence, its position among the keys, and the first and the last key that it may see; `isSeen`
  // says of one of its sequence's keys whether it does.
  std::function<Halide::Expr(Halide::Expr row)> sequence, position, firstKey, lastKey;
  std::function<Halide::Expr(Halide::Expr row, Halide::Expr key)> isSeen;
  std::function<Halide::Expr(Halide::Expr element, Halide::Expr head, Halide::Expr row)> query; // element < head_dim
  // Of any key below mostKeys of a sequence that there is. Without `value`, values are the first value_dim elements of keys.
  std::function<Halide::Expr(Halide::Expr element, Halide::Expr kvHead, Halide::Expr sequence, Halide::Expr key)> key,
      value;
  std::function<Halide::Expr(Halide::Expr sequence, Halide::Expr key)> keyRow; // where keys are rows
};

// Whether the mask of `spec` lets the query at a position of its sequence see the key at another.
Halide::Expr isInMask(const AttentionSpec &spec, Halide::Expr query, Halide::Expr key);
// A key before which it lets the query see none.
Halide::Expr firstInMask(const AttentionSpec &spec, Halide::Expr query);

// Where the mask says so of given rows, what rows of a step see of the keys around them, as a pipeline's next inputs: sequence_rows (2, sequences), sees_ahead
// (sequences). Else it has no inputs, and rows see what the mask lets them see.
class SeenKeys {
public:
  SeenKeys(PipelineBuilder &b, const AttentionSpec &spec);
  // The first and the last key that a row of `sequence` at `position` may see of a causal mask, all between being seen unless that has chunks. `places`: (rows).
  Halide::Expr first(Halide::Expr sequence, Halide::Expr position, const Halide::ImageParam &places) const;
  Halide::Expr last(Halide::Expr sequence, Halide::Expr position, const Halide::ImageParam &places) const;
  static void add(Enqueuer &host, const AttentionSpec &spec);

private:
  Halide::Expr past(Halide::Expr sequence, const Halide::ImageParam &places) const;

  const AttentionSpec &spec;
  Halide::ImageParam rows, ahead;
};

// The numbers of `table` where the host's code holds them, which a device does not read; empty where it lies in weights or activations.
llvm::SmallVector<float> numbersInCode(mlir::Value table);
// What tells a kernel that has such numbers of `table` from one with others; empty without any.
std::string nameOfNumbersInCode(mlir::Value table);

// What joins scores and their sum, as a pipeline's next inputs: [sinks (num_heads) f32], [positions: slopes (num_heads) f32 unless they are
// `slopes`, buckets (num_heads, num_buckets), or of tokens (num_buckets, num_heads, 2, rows) f32].
struct DeviceScoreTerms {
  DeviceScoreTerms(PipelineBuilder &b, const AttentionSpec &spec, llvm::ArrayRef<float> slopes = {});
  // What head `head` of a row that lies `distance` tokens behind a key adds to its score; `keyRow`: the key's, of tokens.
  Halide::Expr at(Halide::Expr head, Halide::Expr row, Halide::Expr distance, Halide::Expr keyRow) const;

  const AttentionSpec &spec;
  llvm::ArrayRef<float> slopes; // by head, in the kernel's own code
  Halide::ImageParam sinks, positions;
};

// The buffers of DeviceScoreTerms, `positions` null where the kernel has them; of tokens, rows of positions are `positionsRow` elements
// apart.
void addScoreTerms(Enqueuer &host, const AttentionSpec &spec, mlir::Value sinks, mlir::Value positions,
                   mlir::Value positionsRow = {}, mlir::Value rows = {});

// A block has `rows` rows of the step and `heads` query heads that share a KV head. `lanes` threads of each row share out the elements of
// results, and the keys of a block, which are `keys`. What is seen of each `split` keys, a multiple of those, is summed up by itself and merged; 0:
// keys are not split.
struct AttentionThreads {
  int rows, heads, lanes, keys, split = 0;

  // Blocks of keys in a split.
  int splitBlocks() const { return split / keys; }

  static AttentionThreads of(TileAttr tile, const AttentionSpec &spec);
};

// Makes an element of the result of what attention gives it.
using AttentionFinish =
    std::function<Halide::Expr(Halide::Var d, Halide::Var head, Halide::Var row, Halide::Expr value)>;

// (value_dim, num_heads, rows): softmax(score) @ value, 0 for a query that sees no key. Bits of a row depend on `threads.keys` alone of the
// threads, and on no other row.
Halide::Func softmaxAttention(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                              const DeviceScoreTerms &terms, AttentionThreads threads,
                              const AttentionFinish &finish = {});

// What softmaxAttention merges, of each split that `threads` has: (elements (value_dim, num_heads, splits, rows) that nothing has divided, their maxima
// and sums (any, num_heads, splits, rows), whose first dimension has no stride). Of splits of which a row sees nothing, the sum is 0.
Halide::Func softmaxSplits(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                           const DeviceScoreTerms &terms, AttentionThreads threads);
// The buffers of elements, maxima and sums: of `splits` splits of the rows of the step, between whose rows lie `maxSplits`. `hasElements`: maxima and
// sums have their first dimension.
struct StatesOfSplits {
  mlir::Value elements, maxima, sums;
};
void addStatesOfSplits(Enqueuer &host, const AttentionSpec &spec, StatesOfSplits states, mlir::Value maxSplits,
                       mlir::Value splits, bool hasElements = true);
// (value_dim, num_heads, rows): the merge of those splits from `first` to `last` of each row, to the bits of softmaxAttention.
Halide::Func mergeSplits(PipelineBuilder &b, const AttentionSpec &spec, const Halide::ImageParam &elements,
                         const Halide::ImageParam &maxima, const Halide::ImageParam &sums,
                         const Halide::ImageParam &sinks,
                         const std::function<std::pair<Halide::Expr, Halide::Expr>(Halide::Expr row)> &splitsOf);

// Emits a pipeline for each tile of threads that the schedule has, and has the host enqueue that for as many rows as a sequence has on average.
using EmitAttention =
    llvm::function_ref<mlir::FailureOr<std::string>(llvm::StringRef symbol, AttentionThreads threads)>;
mlir::FailureOr<std::vector<Enqueuer::RowsKernel>> emitAttentionKernels(KernelModule &module, llvm::StringRef name,
                                                                        llvm::StringRef suffix, ScheduleAttr schedule,
                                                                        const AttentionSpec &spec, EmitAttention emit);
void enqueueAttention(Enqueuer &host, llvm::ArrayRef<Enqueuer::RowsKernel> kernels);

} // namespace heddle

#endif
