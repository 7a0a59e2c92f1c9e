// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention ops of com.microsoft, as exporters write them for ONNX Runtime (its ContribOperators page is the
// specification).
#include "frontends/onnx/import/AttentionFormula.h"
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/Quantized.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// Part k of a fused bias or product along the last axis.
GraphValue part(GraphBuilder &g, const GraphValue &x, const Dim &begin, const Dim &length) {
  return g.failed() ? GraphValue() : g.slice(x, x.rank() - 1, begin, length);
}

// What a mask of keys adds to scores: 0, or mask_filter_value where a key is hidden. Shapes: lengths (B), ends and then begins (2 B), keys
// (B, T), or (B, S, T).
GraphValue maskBias(NodeImport &n, const GraphValue &mask, const AttentionOperands &a) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return {};
  GraphValue seen;
  Dim keys = a.key.dims[2], batch = a.query.dims[0];
  auto beside = [&](Predicate predicate, const GraphValue &bounds) {
    return g.compare(predicate, g.iota(OnnxType::Int64, keys), g.unsqueeze(g.cast(bounds, OnnxType::Int64), {1, 2, 3}));
  };
  if (mask.rank() == 1 && mask.dims[0] == batch)
    seen = beside(Predicate::Less, mask);
  else if (mask.rank() == 1 && mask.dims[0] == batch * Dim(2))
    seen = g.logicalAnd(beside(Predicate::Less, g.slice(mask, 0, 0, batch)),
                        beside(Predicate::GreaterOrEqual, g.slice(mask, 0, batch, batch)));
  else if (mask.rank() == 2)
    seen = g.unsqueeze(g.cast(mask, OnnxType::Bool), {1, 2});
  else if (mask.rank() == 3)
    seen = g.unsqueeze(g.cast(mask, OnnxType::Bool), {1});
  else
    return n.unsupported("a mask of rank " + Twine(mask.rank()) +
                         " is not supported: expected (batch), (2 batch), (batch, keys) or (batch, queries, keys)");
  OnnxType type = accumulatorOf(a.query.type);
  return g.select(seen, g.scalar(type, 0), g.scalar(type, n.real("mask_filter_value", -10000)));
}

void addBias(GraphBuilder &g, AttentionOperands &a, const GraphValue &bias) {
  OnnxType type = accumulatorOf(a.query.type);
  a.bias = a.bias ? g.add(a.bias, g.cast(bias, type)) : bias;
}

// Queries stand behind the keys that were there before.
void addCausality(NodeImport &n, AttentionOperands &a) {
  GraphBuilder &g = n.g;
  if (!n.integer("unidirectional", 0) || g.failed())
    return;
  Dim queries = a.query.dims[2], keys = a.key.dims[2];
  a.allowed = positionMask(g, {/*isCausal=*/true}, queries, keys, g.integers(OnnxType::Int64, {}, {keys - queries}));
}

// Attention to `all` (B, S, queries, keys and values side by side), with the mask, past (2, B, H, P, D) and bias of scores at these inputs.
void attendPacked(NodeImport &n, const GraphValue &all, size_t mask, size_t past, size_t bias) {
  GraphBuilder &g = n.g;
  int64_t numHeads = n.integer("num_heads", 0);
  if (n.integer("do_rotary", 0) || n.integer("past_present_share_buffer", 0))
    n.unsupported("with do_rotary or past_present_share_buffer is not supported");
  if (g.failed())
    return;
  SmallVector<int64_t> sizes = n.integers("qkv_hidden_sizes").value_or(SmallVector<int64_t>());
  std::optional<Dim> third = all.dims[2].dividedBy(3);
  if (sizes.empty() && third)
    sizes.assign(3, third->isStatic() ? third->value() : 0);
  if (sizes.size() != 3 || sizes[0] != sizes[1] || !all.dims[2].is(sizes[0] + sizes[1] + sizes[2]))
    return (void)n.fail("qkv_hidden_sizes do not add up to the weights' columns");
  AttentionOperands a;
  a.query = splitHeads(n, part(g, all, 0, sizes[0]), numHeads, "query");
  a.key = splitHeads(n, part(g, all, sizes[0], sizes[1]), numHeads, "key");
  a.value = splitHeads(n, part(g, all, sizes[0] + sizes[1], sizes[2]), numHeads, "value");
  if (n.has(past) && n.checkRank(past, 5, "past")) {
    a.key = g.concat({g.squeeze(g.slice(n.in(past), 0, 0, 1), {0}), a.key}, 2);
    a.value = g.concat({g.squeeze(g.slice(n.in(past), 0, 1, 1), {0}), a.value}, 2);
  }
  if (g.failed())
    return;
  a.scale = n.real("scale", 0);
  if (n.has(mask))
    addBias(g, a, maskBias(n, n.in(mask), a));
  if (n.has(bias))
    addBias(g, a, n.in(bias));
  addCausality(n, a);
  n.out(mergeHeads(g, attend(g, a).output));
  if (n.wants(1) && !g.failed())
    n.out(g.concat({g.unsqueeze(a.key, {0}), g.unsqueeze(a.value, {0})}, 0), 1);
}

// input (B, S, I), weights (I, 3 * hidden), bias, mask_index, past, attention_bias
void attention(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (!n.checkRank(0, 3, "input") || !n.checkRank(1, 2, "weights"))
    return;
  GraphValue all = g.matmul(n.in(0), n.in(1));
  attendPacked(n, n.has(2) ? g.add(all, n.in(2)) : all, 3, 4, 5);
}

// input (B, S, I) and weights (I, 3 * hidden) in codes, bias, the scales of both, mask_index, the zero points of both, past
void qAttention(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (!n.checkRank(0, 3, "input") || !n.checkRank(1, 2, "weights"))
    return;
  GraphValue all = realMatmul(g, {n.in(0), n.in(3), n.optional(6)}, {n.in(1), n.in(4), n.optional(7)});
  attendPacked(n, n.has(2) ? g.add(all, n.in(2)) : all, 5, 8, n.numInputs());
}

// One of query, key, value with its part of the bias: (B, S, H * D), or (B, H, S, D) as it is.
GraphValue headsOf(NodeImport &n, const GraphValue &x, const Dim &biasBegin, int64_t numHeads, const Twine &what) {
  GraphBuilder &g = n.g;
  if (g.failed() || x.rank() == 4)
    return x;
  return splitHeads(n, n.has(3) && x.rank() == 3 ? g.add(x, part(g, n.in(3), biasBegin, x.dims[2])) : x, numHeads,
                    what);
}

// Tensor k of (B, S, H, parts, D), as (B, H, S, D).
GraphValue packedPart(GraphBuilder &g, const GraphValue &x, int64_t k) {
  return g.transpose(g.squeeze(g.slice(x, 3, k, 1), {3}), {0, 2, 1, 3});
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value
void multiHeadAttention(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (n.has(8) || n.has(9))
    n.unsupported("with past_sequence_length or cache_indirection is not supported");
  int64_t numHeads = n.integer("num_heads", 0);
  const GraphValue &query = n.in(0);
  if (g.failed())
    return;
  AttentionOperands a;
  if (query.rank() == 5) {
    a.query = packedPart(g, query, 0), a.key = packedPart(g, query, 1), a.value = packedPart(g, query, 2);
  } else {
    a.query = headsOf(n, query, 0, numHeads, "query");
    Dim hidden = query.dims.back();
    bool isPacked = n.in(1).rank() == 5;
    a.key = isPacked ? packedPart(g, n.in(1), 0) : headsOf(n, n.in(1), hidden, numHeads, "key");
    a.value = isPacked ? packedPart(g, n.in(1), 1) : headsOf(n, n.in(2), hidden * Dim(2), numHeads, "value");
  }
  if (g.failed())
    return;
  if (n.has(6) && n.has(7)) {
    a.key = g.concat({n.in(6), a.key}, 2);
    a.value = g.concat({n.in(7), a.value}, 2);
  }
  a.scale = n.real("scale", 0);
  if (n.has(4) && !g.failed())
    addBias(g, a, maskBias(n, n.in(4), a));
  if (n.has(5))
    addBias(g, a, n.in(5));
  addCausality(n, a);
  n.out(mergeHeads(g, attend(g, a).output));
  n.out(a.key, 1);
  n.out(a.value, 2);
}

GraphValue rotated(NodeImport &n, const GraphValue &x, const GraphValue &positions, size_t cosInput, bool interleaved) {
  GraphBuilder &g = n.g;
  GraphValue cos = g.gather(n.in(cosInput), positions, 0), sin = g.gather(n.in(cosInput + 1), positions, 0);
  if (g.failed())
    return {};
  return rotate(g, x, g.unsqueeze(cos, {1}), g.unsqueeze(sin, {1}), cos.dims.back() * Dim(2), interleaved);
}

// A cache (B, H, P, D) with x (B, H, S, D) from place `begin` of each batch on, in `length` places.
GraphValue cached(NodeImport &n, size_t past, const GraphValue &x, const GraphValue &begin, const Dim &length) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return {};
  GraphValue whole = x;
  Dim old(0);
  if (n.has(past)) {
    if (!n.checkRank(past, 4, "past"))
      return {};
    old = n.in(past).dims[2];
    whole = g.concat({n.in(past), x}, 2);
  }
  // Row t: x[t - begin] where that is a row of x, else the past's; rows behind both are 0.
  GraphValue row = g.iota(OnnxType::Int64, length), fresh = g.sub(row, begin), zero = g.like(row, 0);
  GraphValue oldSize = g.integers(OnnxType::Int64, {}, {old}), newSize = g.integers(OnnxType::Int64, {}, {x.dims[2]});
  GraphValue isFresh =
      g.logicalAnd(g.compare(Predicate::GreaterOrEqual, fresh, zero), g.compare(Predicate::Less, fresh, newSize));
  GraphValue isOld = g.compare(Predicate::Less, row, oldSize);
  GraphValue from = g.select(isFresh, g.add(fresh, oldSize), g.select(isOld, row, zero));
  Dims dims = {x.dims[0], x.dims[1], length, x.dims[3]};
  if (g.failed())
    return {};
  Value source = g.tensor(whole),
        places = g.tensor(g.broadcast(g.reshape(from, {from.dims[0], length}), {x.dims[0], length}));
  GraphValue moved = g.generate(x.type, dims, [&](OpBuilder &b, ValueRange at) -> Value {
    Value place = g.indexAt(b, places, {at[0], at[2]});
    return tensor::ExtractOp::create(b, g.loc, source, ValueRange{at[0], at[1], place, at[3]});
  });
  GraphValue isThere = g.unsqueeze(g.reshape(g.logicalOr(isFresh, isOld), {from.dims[0], length}), {1, 3});
  return g.select(isThere, moved, g.like(moved, 0));
}

// Each head of x (B, H, S, D) over its root mean square, times a weight (D).
GraphValue normalizedHeads(NodeImport &n, const GraphValue &x, size_t weight) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return {};
  GraphValue wide = g.cast(x, accumulatorOf(x.type));
  GraphValue y = normalizeRms(g, wide, {3}, n.real("qk_norm_epsilon", 1e-6)).value;
  return g.cast(g.mul(y, g.cast(n.in(weight), wide.type)), x.type);
}

// Query, key and value (B, H, S, D) of inputs 0 to 2, or of one that has them side by side.
bool readGroupedHeads(NodeImport &n, AttentionOperands &a) {
  GraphBuilder &g = n.g;
  int64_t numHeads = n.integer("num_heads", 0), numKvHeads = n.integer("kv_num_heads", 0);
  if (!n.checkRank(0, 3, "query"))
    return false;
  if (numHeads < 1 || numKvHeads < 1) {
    n.fail("num_heads is " + Twine(numHeads) + ", kv_num_heads " + Twine(numKvHeads) + ", expected positive numbers");
    return false;
  }
  GraphValue q = n.in(0), k, v;
  if (n.has(1)) {
    k = n.in(1), v = n.in(2);
  } else {
    std::optional<Dim> headDim = q.dims[2].dividedBy(numHeads + 2 * numKvHeads);
    if (!headDim) {
      n.fail("a packed query does not divide into " + Twine(numHeads) + " and twice " + Twine(numKvHeads) + " heads");
      return false;
    }
    Dim qSize = *headDim * Dim(numHeads), kvSize = *headDim * Dim(numKvHeads);
    k = part(g, q, qSize, kvSize), v = part(g, q, qSize + kvSize, kvSize), q = part(g, q, 0, qSize);
  }
  a.query = splitHeads(n, q, numHeads, "query");
  a.key = splitHeads(n, k, numKvHeads, "key");
  a.value = splitHeads(n, v, numKvHeads, "value");
  if (n.has(14) != n.has(15))
    n.fail("q_norm_weight and k_norm_weight must both be there");
  if (n.has(14)) {
    a.query = normalizedHeads(n, a.query, 14);
    a.key = normalizedHeads(n, a.key, 15);
  }
  return !g.failed();
}

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
// attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight
void groupQueryAttention(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (n.has(12) || n.has(13) || n.integer("sliding_window_cache", 0))
    n.unsupported("with a quantised cache or one of a window's size is not supported");
  AttentionOperands a;
  if (n.has(3) != n.has(4))
    return (void)n.fail("past_key and past_value are expected both, or none");
  if (n.has(3) && (!n.checkRank(3, 4, "past_key") || !n.checkRank(4, 4, "past_value")))
    return;
  if (!n.has(5))
    return (void)n.fail("seqlens_k is missing");
  if (!readGroupedHeads(n, a))
    return;
  Dim queries = a.query.dims[2], past = n.has(3) ? n.in(3).dims[2] : Dim(0);
  Dim total = n.has(6) ? g.toDim(n.in(6)) : past + queries, length = g.maxOf(past, total);
  // Without earlier tokens the new ones are all that there is, and begin at 0: a row's padding is behind it.
  bool isFirst = past.is(0) && length == queries;
  // seqlens_k holds the last position of each batch: what is new begins S positions before its end.
  GraphValue last = g.cast(g.reshape(n.in(5), {g.product(n.in(5).dims)}), OnnxType::Int64);
  GraphValue begin =
      isFirst
          ? g.integers(OnnxType::Int64, {Dim(1)}, {Dim(0)})
          : g.maximum(g.sub(g.add(last, g.like(last, 1)), g.integers(OnnxType::Int64, {}, {queries})), g.like(last, 0));
  begin = g.unsqueeze(begin, {1});
  if (n.integer("do_rotary", 0)) {
    bool interleaved = n.integer("rotary_interleaved", 0) != 0;
    GraphValue places = g.iota(OnnxType::Int64, queries);
    GraphValue positions = n.has(9) ? n.in(9) : isFirst ? g.unsqueeze(places, {0}) : g.add(begin, places);
    a.query = rotated(n, a.query, positions, 7, interleaved);
    a.key = rotated(n, a.key, positions, 7, interleaved);
  }
  if (!isFirst) {
    a.key = cached(n, 3, a.key, begin, length);
    a.value = cached(n, 4, a.value, begin, length);
  }
  if (g.failed())
    return;
  a.scale = n.real("scale", 0);
  a.softcap = n.real("softcap", 0);
  int64_t window = n.integer("local_window_size", -1);
  PositionMask mask{/*isCausal=*/n.integer("causal", 1) != 0, /*left=*/window > 0 ? window - 1 : -1};
  GraphValue offset = isFirst ? g.integers(OnnxType::Int64, {}, {Dim(0)}) : g.unsqueeze(begin, {2, 3});
  a.allowed = positionMask(g, mask, queries, length, offset);
  if (!mask.isCausal && !g.failed()) { // what no earlier position hides ends with the row
    GraphValue inRow = g.compare(Predicate::LessOrEqual, g.iota(OnnxType::Int64, length), g.unsqueeze(last, {1, 2, 3}));
    a.allowed = a.allowed ? g.logicalAnd(a.allowed, inRow) : inRow;
  }
  if (n.has(10))
    a.bias = n.in(10);
  if (n.has(11) && n.checkRank(11, 1, "head_sink"))
    a.sink = n.in(11);
  else if (n.integer("smooth_softmax", 0))
    a.sink = g.full(accumulatorOf(a.query.type), {a.query.dims[1]}, 0);
  n.out(mergeHeads(g, attend(g, a).output));
  n.out(a.key, 1);
  n.out(a.value, 2);
}

// input, position_ids (B, S) or (1), cos_cache, sin_cache
void rotaryEmbedding(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0), positions = n.in(1);
  const GraphValue &cos = n.in(2);
  if (g.failed() || !n.checkRank(2, 2, "cos_cache"))
    return;
  if (n.integer("is_packed_batching", 0) || n.real("scale", 1) != 1)
    return (void)n.unsupported("with is_packed_batching or a scale is not supported");
  bool isPacked = x.rank() == 3;
  if (isPacked) {
    // Without num_heads a head is as wide as what is rotated.
    std::optional<Dim> heads = x.dims[2].dividedBy(cos.dims[1] * Dim(2));
    int64_t given = n.integer("num_heads", 0), numHeads = given                        ? given
                                                          : heads && heads->isStatic() ? heads->value()
                                                                                       : 0;
    x = splitHeads(n, x, numHeads, "input");
  }
  if (g.failed() || x.rank() != 4)
    return (void)n.fail("input 0 has rank " + Twine(n.in(0).rank()) + ", expected 3 or 4");
  if (positions.rank() == 1)
    positions = g.unsqueeze(g.add(g.cast(positions, OnnxType::Int64), g.iota(OnnxType::Int64, x.dims[2])), {0});
  GraphValue y = rotated(n, x, positions, 2, n.integer("interleaved", 0) != 0);
  n.out(isPacked ? mergeHeads(g, y) : y);
}

} // namespace

ArrayRef<OpRow> heddle::microsoftAttentionOps() {
  static const OpRow table[] = {
      {"com.microsoft", "Attention", 1, attention},
      {"com.microsoft", "GroupQueryAttention", 1, groupQueryAttention},
      {"com.microsoft", "MultiHeadAttention", 1, multiHeadAttention},
      {"com.microsoft", "QAttention", 1, qAttention},
      {"com.microsoft", "RotaryEmbedding", 1, rotaryEmbedding},
  };
  return table;
}
