// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels are, whatever emits them: shapes, types, epilogues.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELSPECS_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_KERNELSPECS_H

#include "compiler/codegen/kernel/KvType.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/Support/LLVM.h"

#include <optional>
#include <vector>

namespace heddle {

// How activations come. Bf16: weights are bf16 as well, those of quantised files rounded to it, and sums are f32. Q8: int8
// codes in [-127, 127] with a f32 scale per 32 values, and the sum of every 16 codes.
enum class MatmulActivation : uint8_t { F32, Bf16, Q8 };

// Which rows of `act` and `out` the kernel's row r stands for. Gathered: act row rowIndex[r], out row r. Scattered: act
// row r, and out row rowIndex[r] += rowScale[r] * (product + bias). Where the input is scaled, rowScale[r] multiplies what is gathered instead.
enum class MatmulRows : uint8_t { Dense, Gathered, Scattered };

// What is made of a finished sum. Gated: W holds 2 N rows, packed with PanelOrder::Interleaved from the gate's and the
// up projection's, and out = activation(gate) * up.
enum class MatmulEpilogue : uint8_t { None, Silu, Gelu, GeluTanh, Relu, QuickGelu, Tanh, SquaredRelu };

// Bounds of a gated activation: activation(alpha g) / alpha * (u + offset), g at most and |u| at most `limit`.
struct GatingSpec {
  float limit = 0; // 0: activation(g) * u
  float alpha = 1, offset = 0;
};

// What a kernel makes of f32 rows before it multiplies them.
struct RowPreparation {
  // x becomes x / sqrt(mean(x^2) + eps) * (norm + weightOffset).
  bool hasNorm = false;
  double eps = 0, weightOffset = 0;
};

struct MatmulSpec {
  PackedLayout layout;
  int64_t n = 0; // out_features
  int64_t k = 0; // in_features; Bf16: even; integers: a multiple of 32
  MatmulActivation activation = MatmulActivation::F32;
  bool hasBias = false;
  bool accumulate = false; // out += product (+ bias): a residual
  MatmulRows rows = MatmulRows::Dense;
  MatmulEpilogue epilogue = MatmulEpilogue::None; // after the bias, before the residual
  bool isGated =
      false; // of the gate's sum, which multiplies that of the up projection; a bias has 2 n numbers, the gate's first
  bool scalesInput = false; // of listed rows: rowScale multiplies what is gathered, and not what is scattered
  bool alternates = false;  // gated: rows of W, and a bias, are in turn those of the gate and of the up projection
  GatingSpec gating = {};
  // Of F32 activations and quantised weights: few rows are rounded to 16-bit integers with a scale per 32 values, and many rows may come
  // in bf16 beside.
  bool int16FewRows = false, hasRounded = false;
  // Of many rows in bf16 beside: where there are more rows than this and they need not be as few are, the result goes there, else to `out`. 0: always
  // to `out`, which is bf16 with `isOutRounded`.
  int64_t roundedAbove = 0;
  bool isOutRounded = false;
  // `act` is f32, and becomes what `activation` says in the kernel.
  std::optional<RowPreparation> prepares = std::nullopt;

  // Rows of W.
  int64_t weightRows() const { return isGated ? 2 * n : n; }
};

// out = (act - zero) W^T as 32-bit integers, W packed as "bytes".
struct IntegerMatmulSpec {
  PackedLayout layout;
  int64_t n = 0, k = 0;                     // out_features, in_features
  bool hasZero = false, isUnsigned = false; // unsigned: bytes of `act`, and the zero
};

struct EmbeddingSpec {
  PackedLayout layout;
  int64_t k = 0;     // hidden_size
  float scale = 1;   // every value is multiplied by it, in f32
  int64_t given = 0; // ids from here on name given rows; 0: there are none
};

// What the two matrix products multiply; sums and the softmax are f32 always.
enum class Products {
  F32,
  // Queries and weights rounded to bf16, for a cache of bf16 or q8_0 with an even head_dim. Twice as many products per instruction
  // where the target multiplies pairs; elsewhere correct and slow.
  Bf16,
};

// What scores get for the distance between query and key, from a table that the call names: a slope for each head (ALiBi), or for runs
// of distances a row of (num_buckets, num_heads) (T5), or what query and key themselves give for such a row (DeBERTa).
struct PositionSpec {
  enum Kind : uint8_t { None, Slopes, Buckets, Tokens } kind = None;
  // Of buckets: score += table[rows[k], head], k the number of starts that are not greater than i - j; elements of the table.
  std::vector<int64_t> starts, rows;
  KvType table = KvType::F32;
  // Of tokens: score += table[i, 0, head, rows[k]] + table[j, 1, head, rows[k]], the table being (rows, 2, numHeads, numBuckets).
  int64_t numBuckets = 0;
  bool hasBuckets() const { return kind == Buckets || kind == Tokens; }
};

// What tokens that the call names as global are to attention within sequences: keys that each query of their sequence sees, or the only
// queries that are computed.
enum class GlobalTokens : uint8_t { None, Keys, Queries };

struct AttentionSpec {
  int64_t numHeads = 0;
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t valueHeadDim = 0; // 0: headDim
  double scale = 1.0;
  double softcap = 0.0; // score = softcap * tanh(score / softcap); 0: none
  // Sliding window in tokens, 0: none. Query i sees key j only if i - window < j, and where something bounds what is ahead, j < i + ahead.
  int64_t window = 0, ahead = 0;
  int64_t chunk =
      0; // causal alone, without a window: query i sees keys of its own chunk, j / chunk = i / chunk; 0: none
  bool causal = true; // j <= i; false: every token of the sequence
  bool given = false; // causal: in a sequence of the step whose rows see each other, up to its last row instead
  KvType kv = KvType::BF16;
  Products products = Products::F32;
  KvType rows = KvType::F32;                 // queries and the output of `buildFlashAttention`; elsewhere they are f32
  bool hasBias = false;                      // score += bias, of `buildFlashAttention` alone
  bool hasSinks = false;                     // one more logit per head that takes part in the sum alone
  GlobalTokens globals = GlobalTokens::None; // of `buildRaggedAttention` alone
  PositionSpec positions;   // score += slope[head] * (j - i), or a bucket's; Tokens: of `buildRaggedAttention` alone
  bool shareKvHeads = true; // false: the query heads of a group one by one, to measure what sharing gains
  // Keys and values are tensors of any strides: nothing may be read behind the last key.
  bool isDense = false;
  // Values are the first valueDim() columns of the keys: one plane holds both, and vOffset is kOffset.
  bool valuesInKeys = false;
  bool storesScores = false; // all scores of a tile go to memory before the softmax, to measure what tiling gains
  int64_t tileHeads = 0;     // query heads of a tile, a divisor of the group; 0: the group
  // Rows of a tile, tokens x heads, about; keys that are looked at together, a divisor of the page; keys whose partial result is
  // formed by itself before it is merged, a multiple of the page and the same for all kernels of a model, so that a split and a
  // whole kernel agree to the bit.
  int64_t tileRows = 96, blockKv = 64, splitKv = 512;
  // Sums that a CPU keeps in registers: rows of the tile, and columns of scores or of results, a multiple of its vectors.
  int64_t registerRows = 6, registerColumns = 16;
  int64_t prefetchCache = 1; // of a CPU, into which pages that products read in place are asked for: 1 or 2
  int64_t blockQ = 0;        // tokens of a tile; 0: as many as tileRows has

  int64_t valueDim() const { return valueHeadDim ? valueHeadDim : headDim; }
  int64_t group() const { return numHeads / numKvHeads; }
  // Columns from a value to that of the next token, and heads of a tile.
  int64_t valueRowDim() const { return valuesInKeys ? headDim : valueDim(); }
  int64_t headsOfTile() const { return !shareKvHeads ? 1 : tileHeads ? tileHeads : group(); }
};

// Fails with the violated constraint: heads positive and divisible, dims in 1 … 1024, finite scale and softcap, what
// bf16 products ask for.
mlir::LogicalResult verifyAttention(const AttentionSpec &spec, std::string &error);

struct KvAppendSpec {
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t valueHeadDim = 0; // 0: headDim
  KvType kv = KvType::BF16;
  // One head, whose rows in the page are its key and its value side by side: a latent and a rotary key, which may be
  // empty. vOffset is not read.
  bool isLatent = false;

  int64_t valueDim() const { return valueHeadDim || isLatent ? valueHeadDim : headDim; }
};

// A state is (width - 1, channels).
struct ConvSpec {
  int64_t channels = 0, width = 0; // at least 2
  bool hasBias = false, hasSilu = false;
};

// A state is (numHeads, keyDim, valueDim).
struct LinearAttentionSpec {
  int64_t numHeads = 0, numKeyHeads = 0, keyDim = 0, valueDim = 0;
  bool hasDecay = false, hasBeta = false;
  double scale = 1.0;
  bool decaysByKey = false; // with hasDecay: each column of a key has its own, else a head has one

  int64_t decayWidth() const { return decaysByKey ? numHeads * keyDim : numHeads; }
};

struct RotateAppendSpec {
  int64_t numHeads = 0, numKvHeads = 0, headDim = 0;
  KvType kv = KvType::BF16;
  // Columns [offset, offset + rotaryDim) of a head are rotated: pairs are neighbours, or rotaryDim / 2 apart.
  int64_t rotaryDim = 0, offset = 0;
  bool isInterleaved = false;
  // What becomes of a head of queries or of keys before it is rotated.
  RowPreparation heads = {};
  // What makes the rows of heads, if the kernel does.
  std::optional<MatmulSpec> product = std::nullopt;

  int64_t numAllHeads() const { return numHeads + 2 * numKvHeads; }
  int64_t width() const { return numAllHeads() * headDim; }
};

struct MoeRouteSpec {
  int64_t numExperts = 0;
  int64_t topK = 0;           // experts per token, at most numExperts
  bool normalize = false;     // weights of a token are divided by their sum (norm_topk_prob)
  float scale = 1;            // and multiplied by this (routed_scaling_factor)
  bool sigmoid = false;       // weights are sigmoids of the logits instead of their softmax
  bool hasCorrection = false; // experts are chosen by weight + correction
  // Experts of the topGroups best of numGroups groups take part: by their greatest score, or with a correction by the sum
  // of the two greatest; others are not chosen.
  int64_t numGroups = 1, topGroups = 1;
  int64_t capacity = 0; // tokens of a sequence that an expert computes, the first that choose it; 0: all
  std::optional<float> jitter = std::nullopt; // weights are those of a sparse mixer (RoutingAttr)
  bool hasScales = false; // each expert multiplies its weight, once that is normalised, by a number of its own
};

} // namespace heddle

#endif
