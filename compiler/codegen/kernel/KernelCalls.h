// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels are called with. Each struct is the parameter list of the kernels of one op, in order, whatever the target: emitters
// read it from the function that they write, host code of steps and of graphs fills it, a device's host function passes it on.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELCALLS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELCALLS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// What a parameter is. Kernels run on the threads of a step or of a task in one of two ways: each computes the parts
// [PartBegin, PartEnd) that it is given, or finds its share by its number. A call for all of the work has the number of parts as its
// PartEnd, and none of the others.
enum class ParameterKind : uint8_t {
  Pointer,
  Size,       // i64
  PartBegin,  // i64, of parts that threads may divide
  PartEnd,    // i64
  Thread,     // i32
  NumThreads, // i32
};

template <typename Call> struct Parameter {
  ParameterKind kind;
  mlir::Value Call::*value;
  unsigned forms = 0; // bits of the forms of the call that have it; 0: all have

  bool isOf(unsigned form) const { return !forms || (forms & form); }
};

// Products with packed weights: out = act W^T for the output columns [16 panelBegin, 16 panelEnd).
struct MatmulCall {
  mlir::Value act;       // (rows, K) f32, bf16 or int8, rows actStride elements apart
  mlir::Value actScales; // const float *, (rows, K / 32), of int8
  mlir::Value actSums;   // const int32_t *, (rows, K / 16), of int8
  mlir::Value weights;   // the packed matrix, 64-byte aligned
  mlir::Value bias;      // const float *, (N), or null
  mlir::Value out;       // f32 or bf16 (rows, N), rows outStride elements apart
  mlir::Value rows;
  mlir::Value actStride, outStride;
  mlir::Value panelBegin, panelEnd; // of `out`: gated, a pair of W's
  mlir::Value scratch;              // of the schedule's scratchBytes, 64-byte aligned; null where there are none
  mlir::Value rowIndex, rowScale;   // const int32_t *, const float *, (rows): of an expert's list
  mlir::Value rounded;              // `act` in bf16, rows roundedStride elements apart; null: many rows are f32
  mlir::Value roundedStride;
  mlir::Value isFixed; // not 0: many rows are multiplied as few are
  mlir::Value norm;    // const float *, (K): what normalised rows are multiplied by; or null
  mlir::Value room;    // where rows are prepared, (rows, K) f32 or bf16, rows roomStride elements apart
  mlir::Value roomStride;
  mlir::Value
      outRounded; // where many rows of the result go instead, bf16 (rows, N), rows outRoundedStride elements apart
  mlir::Value outRoundedStride;

  enum Form : unsigned { Dense = 0, Listed = 1, ByRows = 2, Prepared = 4, Rounded = 8 };
  static constexpr Parameter<MatmulCall> parameters[] = {
      {ParameterKind::Pointer, &MatmulCall::act},
      {ParameterKind::Pointer, &MatmulCall::actScales},
      {ParameterKind::Pointer, &MatmulCall::actSums},
      {ParameterKind::Pointer, &MatmulCall::weights},
      {ParameterKind::Pointer, &MatmulCall::bias},
      {ParameterKind::Pointer, &MatmulCall::out},
      {ParameterKind::Size, &MatmulCall::rows},
      {ParameterKind::Size, &MatmulCall::actStride},
      {ParameterKind::Size, &MatmulCall::outStride},
      {ParameterKind::PartBegin, &MatmulCall::panelBegin},
      {ParameterKind::PartEnd, &MatmulCall::panelEnd},
      {ParameterKind::Pointer, &MatmulCall::scratch},
      {ParameterKind::Pointer, &MatmulCall::rowIndex, Listed},
      {ParameterKind::Pointer, &MatmulCall::rowScale, Listed},
      {ParameterKind::Pointer, &MatmulCall::rounded, ByRows},
      {ParameterKind::Size, &MatmulCall::roundedStride, ByRows},
      {ParameterKind::Size, &MatmulCall::isFixed, ByRows},
      {ParameterKind::Pointer, &MatmulCall::norm, Prepared},
      {ParameterKind::Pointer, &MatmulCall::room, Prepared},
      {ParameterKind::Size, &MatmulCall::roomStride, Prepared},
      {ParameterKind::Pointer, &MatmulCall::outRounded, Rounded},
      {ParameterKind::Size, &MatmulCall::outRoundedStride, Rounded},
  };
};

// Sums of products of bytes, for the output columns [16 panelBegin, 16 panelEnd).
struct IntegerMatmulCall {
  mlir::Value act;     // (rows, K) bytes, rows actStride bytes apart
  mlir::Value zero;    // a byte, where the kernel has a zero
  mlir::Value weights; // the packed matrix, 64-byte aligned
  mlir::Value out;     // int32_t *, (rows, N), rows outStride elements apart
  mlir::Value rows;
  mlir::Value actStride, outStride;
  mlir::Value panelBegin, panelEnd;

  static constexpr Parameter<IntegerMatmulCall> parameters[] = {
      {ParameterKind::Pointer, &IntegerMatmulCall::act},
      {ParameterKind::Pointer, &IntegerMatmulCall::zero},
      {ParameterKind::Pointer, &IntegerMatmulCall::weights},
      {ParameterKind::Pointer, &IntegerMatmulCall::out},
      {ParameterKind::Size, &IntegerMatmulCall::rows},
      {ParameterKind::Size, &IntegerMatmulCall::actStride},
      {ParameterKind::Size, &IntegerMatmulCall::outStride},
      {ParameterKind::PartBegin, &IntegerMatmulCall::panelBegin},
      {ParameterKind::PartEnd, &IntegerMatmulCall::panelEnd},
  };
};

// Embedding rows: out[r] = scale * W[ids[r]] for rowBegin <= r < rowEnd.
struct EmbeddingCall {
  mlir::Value ids;     // const int32_t *, (rowEnd): each a row of W or, from its end on, of what is given, not checked
  mlir::Value weights; // W packed, 64-byte aligned
  mlir::Value out;     // float *, (rowEnd, K), rows outStride elements apart
  mlir::Value rowBegin, rowEnd;
  mlir::Value outStride;
  mlir::Value given; // const float *, (any number, K)

  enum Form : unsigned { Plain = 0, Given = 1 };
  static constexpr Parameter<EmbeddingCall> parameters[] = {
      {ParameterKind::Pointer, &EmbeddingCall::ids},          {ParameterKind::Pointer, &EmbeddingCall::weights},
      {ParameterKind::Pointer, &EmbeddingCall::out},          {ParameterKind::PartBegin, &EmbeddingCall::rowBegin},
      {ParameterKind::PartEnd, &EmbeddingCall::rowEnd},       {ParameterKind::Size, &EmbeddingCall::outStride},
      {ParameterKind::Pointer, &EmbeddingCall::given, Given},
  };
};

// Keys and values of a step into the pages of its sequences, for the rows [rowBegin, rowEnd).
struct KvAppendCall {
  mlir::Value key;   // const float *, (rows, numKvHeads * headDim), rows keyStride floats apart
  mlir::Value value; // const float *, (rows, numKvHeads * valueHeadDim), rows valueStride floats apart
  mlir::Value keyStride, valueStride;
  mlir::Value rowSequence, cachePositions; // const int32_t *, (rows)
  mlir::Value sequences;                   // const heddle_sequence *
  mlir::Value kOffset, vOffset;            // bytes of this layer's K and V inside a page
  mlir::Value rowBegin, rowEnd;

  static constexpr Parameter<KvAppendCall> parameters[] = {
      {ParameterKind::Pointer, &KvAppendCall::key},         {ParameterKind::Pointer, &KvAppendCall::value},
      {ParameterKind::Size, &KvAppendCall::keyStride},      {ParameterKind::Size, &KvAppendCall::valueStride},
      {ParameterKind::Pointer, &KvAppendCall::rowSequence}, {ParameterKind::Pointer, &KvAppendCall::cachePositions},
      {ParameterKind::Pointer, &KvAppendCall::sequences},   {ParameterKind::Size, &KvAppendCall::kOffset},
      {ParameterKind::Size, &KvAppendCall::vOffset},        {ParameterKind::PartBegin, &KvAppendCall::rowBegin},
      {ParameterKind::PartEnd, &KvAppendCall::rowEnd},
  };
};

// Rotated queries, and rotated keys and values in the pages of their sequences, on a device.
struct RotateAppendCall {
  mlir::Value
      input;       // rows of heads: const float *, (rows, (numHeads + 2 numKvHeads) * headDim), rows inputStride floats
                   // apart; what MatmulCall's `act` is, where they are a product
  mlir::Value out; // float *, (rows, numHeads * headDim), rows outStride floats apart
  mlir::Value positions;        // const int32_t *, (rows): of the table
  mlir::Value table;            // const float *, (context, rotaryDim): cosines, then sines
  mlir::Value kOffset, vOffset; // bytes of this layer's K and V inside a page
  mlir::Value inputStride, outStride;
  mlir::Value rowBegin, rowEnd;
  mlir::Value queryNorm, keyNorm;  // const float *, (headDim)
  mlir::Value weights, bias, norm; // as MatmulCall has them
  mlir::Value product, room;       // rows of heads, and MatmulCall's room
  mlir::Value productStride, roomStride;

  enum Form : unsigned { Plain = 0, Normed = 1, Product = 2, Prepared = 4 };
  static constexpr Parameter<RotateAppendCall> parameters[] = {
      {ParameterKind::Pointer, &RotateAppendCall::input},
      {ParameterKind::Pointer, &RotateAppendCall::out},
      {ParameterKind::Pointer, &RotateAppendCall::positions},
      {ParameterKind::Pointer, &RotateAppendCall::table},
      {ParameterKind::Size, &RotateAppendCall::kOffset},
      {ParameterKind::Size, &RotateAppendCall::vOffset},
      {ParameterKind::Size, &RotateAppendCall::inputStride},
      {ParameterKind::Size, &RotateAppendCall::outStride},
      {ParameterKind::PartBegin, &RotateAppendCall::rowBegin},
      {ParameterKind::PartEnd, &RotateAppendCall::rowEnd},
      {ParameterKind::Pointer, &RotateAppendCall::queryNorm, Normed},
      {ParameterKind::Pointer, &RotateAppendCall::keyNorm, Normed},
      {ParameterKind::Pointer, &RotateAppendCall::weights, Product},
      {ParameterKind::Pointer, &RotateAppendCall::bias, Product},
      {ParameterKind::Pointer, &RotateAppendCall::norm, Product},
      {ParameterKind::Pointer, &RotateAppendCall::product, Product},
      {ParameterKind::Size, &RotateAppendCall::productStride, Product},
      {ParameterKind::Pointer, &RotateAppendCall::room, Prepared},
      {ParameterKind::Size, &RotateAppendCall::roomStride, Prepared},
  };
};

// Attention over the cache. Threads take tiles of rows.
struct AttentionCall {
  mlir::Value q;         // const float *, (rows, numHeads * headDim), rows qStride floats apart
  mlir::Value out;       // float *, (rows, numHeads * valueHeadDim), rows outStride floats apart
  mlir::Value sequences; // const heddle_sequence *
  mlir::Value numSequences;
  mlir::Value kOffset, vOffset; // bytes of this layer's K and V inside a page
  mlir::Value qStride, outStride;
  mlir::Value sinks;     // const float *, (numHeads), or null
  mlir::Value positions; // const float *, (numHeads), or what PositionSpec says
  mlir::Value scores,
      keys; // float *, (rows, numHeads, keys), keys a multiple of 64 that no sequence exceeds; of stored scores
  mlir::Value thread, numThreads;

  enum Form : unsigned { Positions = 1, StoredScores = 2 };
  static constexpr Parameter<AttentionCall> parameters[] = {
      {ParameterKind::Pointer, &AttentionCall::q},
      {ParameterKind::Pointer, &AttentionCall::out},
      {ParameterKind::Pointer, &AttentionCall::sequences},
      {ParameterKind::Size, &AttentionCall::numSequences},
      {ParameterKind::Size, &AttentionCall::kOffset},
      {ParameterKind::Size, &AttentionCall::vOffset},
      {ParameterKind::Size, &AttentionCall::qStride},
      {ParameterKind::Size, &AttentionCall::outStride},
      {ParameterKind::Pointer, &AttentionCall::sinks},
      {ParameterKind::Pointer, &AttentionCall::positions, Positions},
      {ParameterKind::Pointer, &AttentionCall::scores, StoredScores},
      {ParameterKind::Size, &AttentionCall::keys, StoredScores},
      {ParameterKind::Thread, &AttentionCall::thread},
      {ParameterKind::NumThreads, &AttentionCall::numThreads},
  };
};

// Attention over tensors. Threads take tiles of rows. Strides count elements, from a batch entry, a head, a row (a query or a key) to the
// next; those of head_dim are 1.
struct FlashAttentionCall {
  mlir::Value query; // (batch, num_heads, queries, head_dim), of the type `rows`
  mlir::Value key;   // (batch, num_kv_heads, keys, head_dim), of the type `kv`
  mlir::Value value; // (batch, num_kv_heads, keys, value_dim), likewise
  mlir::Value out;   // (batch, num_heads, queries, value_dim), of the type `rows`
  mlir::Value bias;  // const float *, (batch, num_heads, queries, keys), read only with hasBias
  mlir::Value sinks; // const float *, (num_heads), read only with hasSinks
  mlir::Value batch, queries, keys;
  mlir::Value queryBatch, queryHead, queryRow;
  mlir::Value keyBatch, keyHead, keyRow;
  mlir::Value valueBatch, valueHead, valueRow;
  mlir::Value outBatch, outHead, outRow;
  mlir::Value biasBatch, biasHead, biasRow, biasKey; // 0 where a number serves all
  mlir::Value thread, numThreads;

  static constexpr Parameter<FlashAttentionCall> parameters[] = {
      {ParameterKind::Pointer, &FlashAttentionCall::query},
      {ParameterKind::Pointer, &FlashAttentionCall::key},
      {ParameterKind::Pointer, &FlashAttentionCall::value},
      {ParameterKind::Pointer, &FlashAttentionCall::out},
      {ParameterKind::Pointer, &FlashAttentionCall::bias},
      {ParameterKind::Pointer, &FlashAttentionCall::sinks},
      {ParameterKind::Size, &FlashAttentionCall::batch},
      {ParameterKind::Size, &FlashAttentionCall::queries},
      {ParameterKind::Size, &FlashAttentionCall::keys},
      {ParameterKind::Size, &FlashAttentionCall::queryBatch},
      {ParameterKind::Size, &FlashAttentionCall::queryHead},
      {ParameterKind::Size, &FlashAttentionCall::queryRow},
      {ParameterKind::Size, &FlashAttentionCall::keyBatch},
      {ParameterKind::Size, &FlashAttentionCall::keyHead},
      {ParameterKind::Size, &FlashAttentionCall::keyRow},
      {ParameterKind::Size, &FlashAttentionCall::valueBatch},
      {ParameterKind::Size, &FlashAttentionCall::valueHead},
      {ParameterKind::Size, &FlashAttentionCall::valueRow},
      {ParameterKind::Size, &FlashAttentionCall::outBatch},
      {ParameterKind::Size, &FlashAttentionCall::outHead},
      {ParameterKind::Size, &FlashAttentionCall::outRow},
      {ParameterKind::Size, &FlashAttentionCall::biasBatch},
      {ParameterKind::Size, &FlashAttentionCall::biasHead},
      {ParameterKind::Size, &FlashAttentionCall::biasRow},
      {ParameterKind::Size, &FlashAttentionCall::biasKey},
      {ParameterKind::Thread, &FlashAttentionCall::thread},
      {ParameterKind::NumThreads, &FlashAttentionCall::numThreads},
  };
};

// Attention within each sequence of a ragged batch. Threads take tiles of rows. A row has its heads side by side; strides count elements.
struct RaggedAttentionCall {
  mlir::Value query;      // const float *, (rows, num_heads * head_dim), rows queryRow apart
  mlir::Value key, value; // const float *, (rows, num_kv_heads * head_dim), of values their own
  mlir::Value out;        // float *, (rows, num_heads * head_dim of values)
  mlir::Value sinks;      // const float *, (num_heads), read only with hasSinks
  mlir::Value positions;  // as of AttentionCall; of tokens (rows, 2, num_heads, num_buckets), rows positionsRow apart
  mlir::Value globals;    // const int32_t *, (rows): not 0 for a global token
  mlir::Value sequences, numSequences; // const int32_t *, (num_sequences, 2): first row, number of rows
  mlir::Value queryRow, keyRow, valueRow, outRow, positionsRow;
  mlir::Value thread, numThreads;

  enum Form : unsigned { Positions = 1, Globals = 2, TokenPositions = 4 };
  static constexpr Parameter<RaggedAttentionCall> parameters[] = {
      {ParameterKind::Pointer, &RaggedAttentionCall::query},
      {ParameterKind::Pointer, &RaggedAttentionCall::key},
      {ParameterKind::Pointer, &RaggedAttentionCall::value},
      {ParameterKind::Pointer, &RaggedAttentionCall::out},
      {ParameterKind::Pointer, &RaggedAttentionCall::sinks},
      {ParameterKind::Pointer, &RaggedAttentionCall::positions, Positions},
      {ParameterKind::Pointer, &RaggedAttentionCall::globals, Globals},
      {ParameterKind::Pointer, &RaggedAttentionCall::sequences},
      {ParameterKind::Size, &RaggedAttentionCall::numSequences},
      {ParameterKind::Size, &RaggedAttentionCall::queryRow},
      {ParameterKind::Size, &RaggedAttentionCall::keyRow},
      {ParameterKind::Size, &RaggedAttentionCall::valueRow},
      {ParameterKind::Size, &RaggedAttentionCall::outRow},
      {ParameterKind::Size, &RaggedAttentionCall::positionsRow, TokenPositions},
      {ParameterKind::Thread, &RaggedAttentionCall::thread},
      {ParameterKind::NumThreads, &RaggedAttentionCall::numThreads},
  };
};

// Rows of sequences behind their states, which lie in pages: read in that of the token before, written in that of the last.
struct ConvCall {
  mlir::Value input;                   // const float *, (rows, channels), rows inputStride floats apart
  mlir::Value weight;                  // const float *, (channels, width)
  mlir::Value bias;                    // const float *, (channels), or null
  mlir::Value out;                     // float *, (rows, channels), rows outStride floats apart
  mlir::Value sequences, numSequences; // const heddle_sequence *
  mlir::Value stateOffset;             // bytes of the state inside a page
  mlir::Value inputStride, outStride;
  mlir::Value thread, numThreads;

  static constexpr Parameter<ConvCall> parameters[] = {
      {ParameterKind::Pointer, &ConvCall::input},         {ParameterKind::Pointer, &ConvCall::weight},
      {ParameterKind::Pointer, &ConvCall::bias},          {ParameterKind::Pointer, &ConvCall::out},
      {ParameterKind::Pointer, &ConvCall::sequences},     {ParameterKind::Size, &ConvCall::numSequences},
      {ParameterKind::Size, &ConvCall::stateOffset},      {ParameterKind::Size, &ConvCall::inputStride},
      {ParameterKind::Size, &ConvCall::outStride},        {ParameterKind::Thread, &ConvCall::thread},
      {ParameterKind::NumThreads, &ConvCall::numThreads},
  };
};

struct LinearAttentionCall {
  mlir::Value query, key;  // const float *, (rows, numKeyHeads * keyDim), rows queryStride and keyStride floats apart
  mlir::Value value, out;  // (rows, numHeads * valueDim)
  mlir::Value decay, beta; // const float *, (rows, numHeads), or null
  mlir::Value sequences, numSequences; // const heddle_sequence *
  mlir::Value stateOffset;             // bytes of the state inside a page
  mlir::Value queryStride, keyStride, valueStride, outStride, decayStride, betaStride;
  mlir::Value thread, numThreads;

  static constexpr Parameter<LinearAttentionCall> parameters[] = {
      {ParameterKind::Pointer, &LinearAttentionCall::query},
      {ParameterKind::Pointer, &LinearAttentionCall::key},
      {ParameterKind::Pointer, &LinearAttentionCall::value},
      {ParameterKind::Pointer, &LinearAttentionCall::out},
      {ParameterKind::Pointer, &LinearAttentionCall::decay},
      {ParameterKind::Pointer, &LinearAttentionCall::beta},
      {ParameterKind::Pointer, &LinearAttentionCall::sequences},
      {ParameterKind::Size, &LinearAttentionCall::numSequences},
      {ParameterKind::Size, &LinearAttentionCall::stateOffset},
      {ParameterKind::Size, &LinearAttentionCall::queryStride},
      {ParameterKind::Size, &LinearAttentionCall::keyStride},
      {ParameterKind::Size, &LinearAttentionCall::valueStride},
      {ParameterKind::Size, &LinearAttentionCall::outStride},
      {ParameterKind::Size, &LinearAttentionCall::decayStride},
      {ParameterKind::Size, &LinearAttentionCall::betaStride},
      {ParameterKind::Thread, &LinearAttentionCall::thread},
      {ParameterKind::NumThreads, &LinearAttentionCall::numThreads},
  };
};

// Products of f32 matrices of any strides, in elements: c[o] += a[o] b[o] for every o of the outer loops. Threads take blocks of c.
struct ContractionCall {
  mlir::Value a, b; // const float *, (m, k) and (k, n)
  mlir::Value c;    // float *, (m, n): a row's columns lie side by side
  mlir::Value m, n, k;
  mlir::Value aRow, aColumn, bRow, bColumn, cRow;
  mlir::Value outer;    // const int64_t *, (numOuter, 4): a loop's size, and how far a, b and c move with its step
  mlir::Value numOuter; // may be 0
  mlir::Value thread, numThreads;

  static constexpr Parameter<ContractionCall> parameters[] = {
      {ParameterKind::Pointer, &ContractionCall::a},
      {ParameterKind::Pointer, &ContractionCall::b},
      {ParameterKind::Pointer, &ContractionCall::c},
      {ParameterKind::Size, &ContractionCall::m},
      {ParameterKind::Size, &ContractionCall::n},
      {ParameterKind::Size, &ContractionCall::k},
      {ParameterKind::Size, &ContractionCall::aRow},
      {ParameterKind::Size, &ContractionCall::aColumn},
      {ParameterKind::Size, &ContractionCall::bRow},
      {ParameterKind::Size, &ContractionCall::bColumn},
      {ParameterKind::Size, &ContractionCall::cRow},
      {ParameterKind::Pointer, &ContractionCall::outer},
      {ParameterKind::Size, &ContractionCall::numOuter},
      {ParameterKind::Thread, &ContractionCall::thread},
      {ParameterKind::NumThreads, &ContractionCall::numThreads},
  };
};

// Attention to splits of the keys: what a row saw of each is kept, unscaled, until it is merged. maxSplits is at least the
// number of splits of the longest sequence.
struct AttentionSplitCall {
  mlir::Value q;                       // const float *, (rows, numHeads * headDim), rows qStride floats apart
  mlir::Value outputs;                 // float *, (rows, maxSplits, numHeads, valueHeadDim)
  mlir::Value maxima, sums;            // float *, (rows, maxSplits, numHeads); maxima in units of log 2, OpenCL: 1
  mlir::Value sequences, numSequences; // const heddle_sequence *
  mlir::Value kOffset, vOffset;        // bytes of this layer's K and V inside a page
  mlir::Value qStride, maxSplits;
  mlir::Value positions; // as above
  mlir::Value thread, numThreads;

  enum Form : unsigned { Positions = 1 };
  static constexpr Parameter<AttentionSplitCall> parameters[] = {
      {ParameterKind::Pointer, &AttentionSplitCall::q},
      {ParameterKind::Pointer, &AttentionSplitCall::outputs},
      {ParameterKind::Pointer, &AttentionSplitCall::maxima},
      {ParameterKind::Pointer, &AttentionSplitCall::sums},
      {ParameterKind::Pointer, &AttentionSplitCall::sequences},
      {ParameterKind::Size, &AttentionSplitCall::numSequences},
      {ParameterKind::Size, &AttentionSplitCall::kOffset},
      {ParameterKind::Size, &AttentionSplitCall::vOffset},
      {ParameterKind::Size, &AttentionSplitCall::qStride},
      {ParameterKind::Size, &AttentionSplitCall::maxSplits},
      {ParameterKind::Pointer, &AttentionSplitCall::positions, Positions},
      {ParameterKind::Thread, &AttentionSplitCall::thread},
      {ParameterKind::NumThreads, &AttentionSplitCall::numThreads},
  };
};

// The merge of those splits.
struct CombineSplitsCall {
  mlir::Value outputs, maxima, sums;   // const float *, as above
  mlir::Value out;                     // float *, (rows, numHeads * valueHeadDim), rows outStride floats apart
  mlir::Value sequences, numSequences; // const heddle_sequence *
  mlir::Value outStride, maxSplits;
  mlir::Value sinks; // const float *, (numHeads), or null
  mlir::Value thread, numThreads;

  static constexpr Parameter<CombineSplitsCall> parameters[] = {
      {ParameterKind::Pointer, &CombineSplitsCall::outputs},
      {ParameterKind::Pointer, &CombineSplitsCall::maxima},
      {ParameterKind::Pointer, &CombineSplitsCall::sums},
      {ParameterKind::Pointer, &CombineSplitsCall::out},
      {ParameterKind::Pointer, &CombineSplitsCall::sequences},
      {ParameterKind::Size, &CombineSplitsCall::numSequences},
      {ParameterKind::Size, &CombineSplitsCall::outStride},
      {ParameterKind::Size, &CombineSplitsCall::maxSplits},
      {ParameterKind::Pointer, &CombineSplitsCall::sinks},
      {ParameterKind::Thread, &CombineSplitsCall::thread},
      {ParameterKind::NumThreads, &CombineSplitsCall::numThreads},
  };
};

// Each body of latent attention.
struct LatentAttentionCall {
  mlir::Value q;                          // const float *, (rows, num_heads * (nope + rope)), rows qStride floats apart
  mlir::Value out;                        // float *, (rows, num_heads * value), rows outStride floats apart
  mlir::Value scratch;                    // float *, (rows, dims.scratchDim())
  mlir::Value keyUps, keyFolds, valueUps; // packed, or null where a body needs none
  mlir::Value sequences, numSequences;    // const heddle_sequence *
  mlir::Value kOffset;                    // bytes of this layer's rows inside a page
  mlir::Value qStride, outStride;
  mlir::Value isFixed;               // not 0: `automatic` is `absorbed`
  mlir::Value outputs, maxima, sums; // of the splits of absorbed sequences, as of AttentionSplitCall
  mlir::Value maxSplits;
  mlir::Value thread, numThreads;

  enum Form : unsigned { Whole = 0, Splits = 1 };
  static constexpr Parameter<LatentAttentionCall> parameters[] = {
      {ParameterKind::Pointer, &LatentAttentionCall::q},
      {ParameterKind::Pointer, &LatentAttentionCall::out},
      {ParameterKind::Pointer, &LatentAttentionCall::scratch},
      {ParameterKind::Pointer, &LatentAttentionCall::keyUps},
      {ParameterKind::Pointer, &LatentAttentionCall::keyFolds},
      {ParameterKind::Pointer, &LatentAttentionCall::valueUps},
      {ParameterKind::Pointer, &LatentAttentionCall::sequences},
      {ParameterKind::Size, &LatentAttentionCall::numSequences},
      {ParameterKind::Size, &LatentAttentionCall::kOffset},
      {ParameterKind::Size, &LatentAttentionCall::qStride},
      {ParameterKind::Size, &LatentAttentionCall::outStride},
      {ParameterKind::Size, &LatentAttentionCall::isFixed},
      {ParameterKind::Pointer, &LatentAttentionCall::outputs, Splits},
      {ParameterKind::Pointer, &LatentAttentionCall::maxima, Splits},
      {ParameterKind::Pointer, &LatentAttentionCall::sums, Splits},
      {ParameterKind::Size, &LatentAttentionCall::maxSplits, Splits},
      {ParameterKind::Thread, &LatentAttentionCall::thread},
      {ParameterKind::NumThreads, &LatentAttentionCall::numThreads},
  };
};

// Experts of the rows [rowBegin, rowEnd).
struct RouteCall {
  mlir::Value logits;     // const float *, (rowEnd, numExperts)
  mlir::Value correction; // const float *, (numExperts), or null
  mlir::Value scales;     // const float *, (numExperts): of the experts' weights, or null
  mlir::Value experts;    // int32_t *, (rowEnd, topK): the greatest scores, descending; of equal ones the lower index
  mlir::Value weights;    // float *, (rowEnd, topK): their softmax over all experts (or sigmoid), in f32
  mlir::Value rowBegin, rowEnd;

  static constexpr Parameter<RouteCall> parameters[] = {
      {ParameterKind::Pointer, &RouteCall::logits},  {ParameterKind::Pointer, &RouteCall::correction},
      {ParameterKind::Pointer, &RouteCall::scales},  {ParameterKind::Pointer, &RouteCall::experts},
      {ParameterKind::Pointer, &RouteCall::weights}, {ParameterKind::PartBegin, &RouteCall::rowBegin},
      {ParameterKind::PartEnd, &RouteCall::rowEnd},
  };
};

// The list of each expert's rows, which one thread writes.
struct GroupCall {
  mlir::Value experts;  // int32_t *, (rows, topK): of RouteCall; the number of experts where it is not listed
  mlir::Value weights;  // const float *, (rows, topK): of RouteCall
  mlir::Value offsets;  // int32_t *, (numExperts + 1): expert e has list entries [offsets[e], offsets[e + 1])
  mlir::Value rowIndex; // int32_t *, (rows * topK): the rows of each expert, ascending
  mlir::Value rowScale; // float *, (rows * topK): the weight of the expert for that row
  mlir::Value rows;
  mlir::Value sequences, numSequences; // const heddle_sequence *, whose pages and past are not read

  static constexpr Parameter<GroupCall> parameters[] = {
      {ParameterKind::Pointer, &GroupCall::experts},   {ParameterKind::Pointer, &GroupCall::weights},
      {ParameterKind::Pointer, &GroupCall::offsets},   {ParameterKind::Pointer, &GroupCall::rowIndex},
      {ParameterKind::Pointer, &GroupCall::rowScale},  {ParameterKind::Size, &GroupCall::rows},
      {ParameterKind::Pointer, &GroupCall::sequences}, {ParameterKind::Size, &GroupCall::numSequences},
  };
};

// Products of all experts with the rows that chose them, on a device, which finds the expert of an entry itself. An entry's number is its
// place in the list; buffers of entries have no gaps.
struct ExpertsCall {
  mlir::Value
      act; // (rows, K) f32 or bf16, rows actStride elements apart; without an activation (rows * topK, K) of entries
  mlir::Value weights; // of one expert after the other, packed
  mlir::Value bias;    // const float *, (numExperts, rows of an expert), or null
  mlir::Value
      out; // float *, (rows * topK, N) of entries; without an activation (rows, N), rows outStride elements apart
  mlir::Value offsets, rowIndex; // const int32_t *, of GroupCall
  mlir::Value rowScale;          // const float *, of GroupCall
  mlir::Value rows;              // of the step
  mlir::Value actStride, outStride;

  static constexpr Parameter<ExpertsCall> parameters[] = {
      {ParameterKind::Pointer, &ExpertsCall::act},      {ParameterKind::Pointer, &ExpertsCall::weights},
      {ParameterKind::Pointer, &ExpertsCall::bias},     {ParameterKind::Pointer, &ExpertsCall::out},
      {ParameterKind::Pointer, &ExpertsCall::offsets},  {ParameterKind::Pointer, &ExpertsCall::rowIndex},
      {ParameterKind::Pointer, &ExpertsCall::rowScale}, {ParameterKind::Size, &ExpertsCall::rows},
      {ParameterKind::Size, &ExpertsCall::actStride},   {ParameterKind::Size, &ExpertsCall::outStride},
  };
};

// A function that a graph hands to the runtime, which runs each of its parts on one thread: `call` points at what it reads.
struct TaskCall {
  mlir::Value call;
  mlir::Value part, numParts; // i64

  static constexpr Parameter<TaskCall> parameters[] = {{ParameterKind::Pointer, &TaskCall::call},
                                                       {ParameterKind::Size, &TaskCall::part},
                                                       {ParameterKind::Size, &TaskCall::numParts}};
};

struct AttentionSpec;
struct MatmulSpec;
struct RotateAppendSpec;
// The form in which kernels of a specification are called.
unsigned formOf(const MatmulSpec &spec);
unsigned formOf(const AttentionSpec &spec);
unsigned formOf(const RotateAppendSpec &spec);

mlir::Type parameterType(mlir::MLIRContext *context, ParameterKind kind);
// A null pointer.
mlir::Value noBuffer(mlir::OpBuilder &b, mlir::Location loc);

// Of a kernel that is called with a `Call` of this form.
template <typename Call> llvm::SmallVector<mlir::Type> parameterTypes(mlir::MLIRContext *context, unsigned form = 0) {
  llvm::SmallVector<mlir::Type> types;
  for (const Parameter<Call> &parameter : Call::parameters)
    if (parameter.isOf(form))
      types.push_back(parameterType(context, parameter.kind));
  return types;
}

// What the function was called with; what its form does not have is left out.
template <typename Call> Call argumentsOf(mlir::func::FuncOp kernel, unsigned form = 0) {
  Call call;
  unsigned index = 0;
  for (const Parameter<Call> &parameter : Call::parameters)
    if (parameter.isOf(form))
      call.*parameter.value = kernel.getArgument(index++);
  return call;
}

// The operands of a call, with null for buffers that it does not have.
template <typename Call>
llvm::SmallVector<mlir::Value> operandsOf(mlir::OpBuilder &b, mlir::Location loc, const Call &call, unsigned form = 0) {
  llvm::SmallVector<mlir::Value> operands;
  for (const Parameter<Call> &parameter : Call::parameters)
    if (parameter.isOf(form))
      operands.push_back(call.*parameter.value ? call.*parameter.value : noBuffer(b, loc));
  return operands;
}

// Where a parameter that every form has lies in a call: those of some forms come behind them.
template <typename Call> constexpr unsigned positionOf(mlir::Value Call::*member) {
  unsigned position = 0;
  while (Call::parameters[position].value != member)
    ++position;
  return position;
}

// A call in the order of its parameters, whatever its struct.
struct CallOperands {
  llvm::SmallVector<ParameterKind> kinds;
  llvm::SmallVector<mlir::Value> values; // none for a buffer that there is not, and for what a launcher fills in

  template <typename Call> static CallOperands of(const Call &call, unsigned form = 0) {
    CallOperands operands;
    for (const Parameter<Call> &parameter : Call::parameters)
      if (parameter.isOf(form)) {
        operands.kinds.push_back(parameter.kind);
        operands.values.push_back(call.*parameter.value);
      }
    return operands;
  }
  bool has(ParameterKind kind) const { return llvm::is_contained(kinds, kind); }
  // The parameter of a kind of which a call has one.
  mlir::Value &at(ParameterKind kind) { return values[llvm::find(kinds, kind) - kinds.begin()]; }
  // With null for buffers that there are not.
  llvm::SmallVector<mlir::Value> complete(mlir::OpBuilder &b, mlir::Location loc) const;
};

} // namespace heddle

#endif
