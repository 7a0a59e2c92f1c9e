// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, FlexAttention and RotaryEmbedding of the standard.
#include "frontends/onnx/import/AttentionFormula.h"

using namespace mlir;
using namespace heddle;

namespace {

// What is not in the mask of `keys` columns is hidden.
GraphValue padMask(GraphBuilder &g, const GraphValue &mask, const Dim &keys) {
  if (g.failed() || mask.rank() == 0 || mask.dims.back() == keys)
    return mask;
  Dims low(mask.rank(), Dim(0)), high(mask.rank(), Dim(0));
  high.back() = g.maxOf(keys - mask.dims.back(), 0);
  Value fill = mask.type == OnnxType::Bool ? g.constant(OnnxType::Bool, 0) : g.limit(mask.type, false);
  return g.pad(mask, low, high, fill);
}

// Key or value with what came before it.
GraphValue present(NodeImport &n, size_t past, const GraphValue &x) {
  return n.has(past) ? n.g.concat({n.in(past), x}, 2) : x;
}

void addMasks(NodeImport &n, AttentionOperands &a) {
  GraphBuilder &g = n.g;
  Dim queries = a.query.dims[2], keys = a.key.dims[2];
  auto also = [&](const GraphValue &condition) {
    a.allowed = a.allowed ? g.logicalAnd(a.allowed, condition) : condition;
  };
  if (n.has(3)) {
    GraphValue mask = padMask(g, n.in(3), keys);
    (mask.type == OnnxType::Bool ? a.allowed : a.bias) = mask;
    a.mayHideRows = true;
  }
  PositionMask byPosition{n.integer("is_causal", 0) != 0, n.integer("left_window_size", -1),
                          n.integer("right_window_size", -1)};
  GraphValue valid, offset = g.integers(OnnxType::Int64, {}, {n.has(4) ? n.in(4).dims[2] : Dim(0)});
  if (n.has(6)) {
    if (!n.checkRank(6, 1, "nonpad_kv_seqlen"))
      return;
    valid = g.unsqueeze(g.cast(n.in(6), OnnxType::Int64), {1, 2, 3});
    offset = g.sub(valid, g.integers(OnnxType::Int64, {}, {queries}));
  }
  if (byPosition.isCausal || byPosition.left >= 0 || byPosition.right >= 0) {
    also(positionMask(g, byPosition, queries, keys, offset));
    a.mayHideRows |= byPosition.left >= 0 || byPosition.right >= 0;
  }
  if (valid) {
    also(g.compare(Predicate::Less, g.iota(OnnxType::Int64, keys), valid));
    a.mayHideRows = true;
  }
}

void attention(NodeImport &n) {
  GraphBuilder &g = n.g;
  AttentionOperands a;
  a.query = n.in(0), a.key = n.in(1), a.value = n.in(2);
  if (g.failed())
    return;
  bool isPacked = a.query.rank() == 3;
  if (isPacked) {
    int64_t numHeads = n.integer("q_num_heads", 0), numKvHeads = n.integer("kv_num_heads", 0);
    a.query = splitHeads(n, a.query, numHeads, "Q");
    a.key = splitHeads(n, a.key, numKvHeads, "K");
    a.value = splitHeads(n, a.value, numKvHeads, "V");
  }
  if (n.has(4) != n.has(5) || (n.has(4) && (!n.checkRank(4, 4, "past_key") || !n.checkRank(5, 4, "past_value"))))
    return (void)n.fail("past_key and past_value must both be there, of rank 4");
  if (!g.failed() && (a.query.rank() != 4 || a.key.rank() != 4 || a.value.rank() != 4))
    n.fail("Q, K and V must all have rank 3 or all rank 4");
  if (g.failed())
    return;
  a.key = present(n, 4, a.key);
  a.value = present(n, 5, a.value);
  a.scale = n.real("scale", 0);
  a.softcap = n.real("softcap", 0);
  a.precision = OnnxType(n.integer("softmax_precision", 0));
  addMasks(n, a);
  AttentionResult r = attend(g, a);
  n.out(isPacked ? mergeHeads(g, r.output) : r.output);
  n.out(a.key, 1);
  n.out(a.value, 2);
  int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return (void)n.fail("attribute 'qk_matmul_output_mode' is " + Twine(mode) + ", expected 0 to 3");
  const GraphValue &scores = mode == 0 ? r.scores : mode == 1 ? r.capped : mode == 2 ? r.masked : r.probabilities;
  n.out(n.wants(3) ? g.cast(scores, a.query.type) : scores, 3);
}

// A graph from scores to scores, or probabilities to probabilities, run in `type`.
GraphValue modified(NodeImport &n, StringRef name, const GraphValue &x, OnnxType type) {
  if (!n.hasAttribute(name) || n.g.failed())
    return x;
  const OnnxGraph *graph = n.graph(name);
  if (!graph || graph->inputs.size() != 1 || graph->outputs.size() != 1)
    return n.fail("attribute '" + name + "' must be a graph of one input and one output");
  SmallVector<GraphValue> results = n.importer.importGraph(*graph, {n.g.cast(x, type)}, n.importer.currentScope());
  if (n.g.failed() || results.empty())
    return {};
  if (results[0].rank() != 4)
    return n.fail("attribute '" + name + "': its result has rank " + Twine(results[0].rank()) + ", expected 4");
  return n.g.cast(results[0], x.type);
}

void flexAttention(NodeImport &n) {
  GraphBuilder &g = n.g;
  AttentionOperands a;
  a.query = n.in(0), a.key = n.in(1), a.value = n.in(2);
  if (g.failed())
    return;
  a.scale = n.real("scale", 0);
  OnnxType precision = OnnxType(
      n.integer("softmax_precision", int64_t(a.query.type == OnnxType::Double ? OnnxType::Double : OnnxType::Float)));
  if (!isFloat(precision))
    return (void)n.fail("attribute 'softmax_precision' is " + Twine(onnxTypeName(int32_t(precision))) +
                        ", expected a float");
  a.precision = precision;
  AttentionResult r = attend(
      g, a, [&](const GraphValue &scores) { return modified(n, "score_mod", scores, precision); },
      [&](const GraphValue &probabilities) { return modified(n, "prob_mod", probabilities, precision); });
  n.out(r.output);
}

void rotaryEmbedding(NodeImport &n) {
  GraphBuilder &g = n.g;
  GraphValue x = n.in(0), cos = n.in(1), sin = n.in(2);
  if (g.failed())
    return;
  bool isPacked = x.rank() == 3;
  int64_t numHeads = n.integer("num_heads", 0), rotaryDim = n.integer("rotary_embedding_dim", 0);
  if (isPacked) {
    std::optional<Dim> size = numHeads > 0 ? x.dims[2].dividedBy(numHeads) : std::nullopt;
    if (!size)
      return (void)n.fail("num_heads (" + Twine(numHeads) + ") must divide the last dimension of a 3-D input");
    x = g.reshape(x, {x.dims[0], x.dims[1], Dim(numHeads), *size});
  } else if (x.rank() != 4) {
    return (void)n.fail("input 0 has rank " + Twine(x.rank()) + ", expected 3 or 4");
  }
  if (n.has(3)) {
    cos = g.gather(cos, n.in(3), 0);
    sin = g.gather(sin, n.in(3), 0);
  }
  Dim turned = rotaryDim ? Dim(rotaryDim) : x.dims.back();
  if (g.failed())
    return;
  Dim spare = cos.rank() == 3 && sin.rank() == 3 ? cos.dims[2] * Dim(2) - turned : Dim(1);
  if (spare.isStatic() && !spare.is(0))
    return (void)n.fail(
        "cos_cache and sin_cache must hold half as many elements as are rotated, per batch and position");
  if (!n.requireAtMost(turned, x.dims.back(), "rotary_embedding_dim is larger than head_dim"))
    return;
  // (B, S, half): the axis of heads is 1 in (B, H, S, D), 2 in (B, S, H, D).
  int64_t heads = isPacked ? 2 : 1;
  n.out(g.reshape(
      rotate(g, x, g.unsqueeze(cos, {heads}), g.unsqueeze(sin, {heads}), turned, n.integer("interleaved", 0) != 0),
      n.in(0).dims));
}

} // namespace

ArrayRef<OpRow> heddle::attentionOps() {
  static const OpRow table[] = {
      {"", "Attention", 23, attention},
      {"", "RotaryEmbedding", 23, rotaryEmbedding},
      {"ai.onnx.preview", "FlexAttention", 1, flexAttention},
  };
  return table;
}
