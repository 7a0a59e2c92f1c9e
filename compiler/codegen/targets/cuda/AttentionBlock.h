// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of attention of OnlineAttention.h, whatever instruction multiplies: which rows it has and which pages they see, pages on their way to shared memory, and what
// becomes of scores.
//
// Registers of a thread: rows lane / 4 and lane / 4 + 8 of the warp's 16, called halves 0 and 1; of scores and of outputs, for each 8 columns, two neighbouring ones of half 0, then
// those of half 1.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ATTENTIONBLOCK_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ATTENTIONBLOCK_H

#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/SharedTile.h"
#include "compiler/codegen/targets/cuda/SoftmaxStates.h"

namespace heddle {

// Columns of a row of keys or values in shared memory: a power of two.
int64_t paddedColumns(const AttentionSpec &spec);

// Query rows of a warp: those of a product.
inline constexpr int64_t warpRows = 16;

class AttentionBlock {
protected:
  using Value = mlir::Value;
  template <typename T> using SmallVector = llvm::SmallVector<T>;

  enum class Form : uint8_t { Whole, Split };
  // What a page has of the KV head.
  enum Plane : uint8_t { Keys, Values };
  struct Softmax {
    Value max[2], sum[2]; // of a row; the sum is that of this thread's keys
  };
  struct Pages {
    Value begin, end;
  };
  // With room in shared memory for so many planes of a page.
  AttentionBlock(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const AttentionSpec &spec, Form form,
                 int64_t sharedPlanes);

  // The kernel, of which `walk` makes what rows see of pages `seen`.
  mlir::gpu::GPUFuncOp emitWith(llvm::function_ref<void()> walk);

  // Rows of keys or values lie in sections of up to 64 columns.
  static int64_t planeBytes(const AttentionSpec &spec);
  int64_t sectionColumns() const { return std::min<int64_t>(64, paddedColumns(spec)); }
  int64_t sectionBytes() const;
  int64_t planeBytes() const { return planeBytes(spec); }
  int64_t dimSteps() const { return llvm::divideCeil(spec.headDim, 16); }
  int64_t outTiles() const { return spec.headDim / 8; }
  int64_t pagesOfSplit() const;

  // Keys or values of `page`, to that byte of shared memory. What no query of the block sees becomes 0.
  void copyPlane(Plane plane, Value page, Value to);
  void loadQueries();
  Pages pagesOf(Value split);
  // Those of keys from `page` on: times scoreFactor they are in base 2. Masked, where they are at the edge of what is seen.
  void finishScores(SmallVector<Value> &scores, Value page);
  double scoreFactor() const;
  // 2^(factor S - max); `shrink` takes earlier sums to the new maximum.
  SmallVector<Value> weigh(llvm::ArrayRef<Value> scores, Softmax &softmax, Value (&shrink)[2]);
  void rescale(llvm::MutableArrayRef<Value> out, const Value (&shrink)[2]);
  // The left operands of weights.
  SmallVector<FragmentA> roundWeights(llvm::ArrayRef<Value> weights);
  // Of the four lanes that hold a row.
  Value rowMax(Value value);
  Value rowSum(Value value);

  const AttentionSpec spec;
  const Form form;
  GpuBuilder b;
  SharedTile section;
  Pages seen; // by rows of the block, and of a split alone its own
  Value sequence, firstRow, numRows, tileBegin, split, firstHead, lane, warp, pairColumn;
  Value rows[2], stepRows[2], heads[2]; // of this thread
  Value outAt[2];                       // first column of the row; whole attention's
  SmallVector<FragmentA> queries;       // [head_dim / 16]

private:
  static SmallVector<mlir::Type> parameters(mlir::MLIRContext *context, const AttentionSpec &spec, Form form);
  int64_t rowsPerPass() const;
  void setUp();
  void locateRows();
  void planCopies();
  Pages visiblePages();
  // The last key that a query sees at `position`, and the first one under a window.
  Value lastSeenFrom(Value position);
  Value firstSeenFrom(Value position);
  SmallVector<Value> masked(llvm::ArrayRef<Value> scores, Value page);

  Value exists;                      // the sequence has rows for the block
  Value firstPosition, lastPosition; // of the block's query tokens
  Value lastSeen;                    // by any of them
  Value past;                        // tokens of the sequence before the step
  Value seesAhead,
      lastOfSequence; // where the mask says so of given rows: whether these see each other, and its last position
  Value positions[2], queryAt[2]; // of this thread; first column of the row
  Value planes[2];                // first page's of the KV head, by Plane
  Value copyRow, copyBytes, copyFrom;
  SmallVector<Value> copyTo; // of a pass, then again of that 8 rows behind
};

} // namespace heddle

#endif
