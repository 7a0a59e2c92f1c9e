// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LinearAttention: a state per head that every token changes.
#include "frontends/onnx/import/AttentionFormula.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {

enum Label : int64_t { B, H, G, K, V };

struct Recurrence {
  GraphValue query, key, value; // (B, Hq, T, dk), (B, Hkv, T, dk), (B, Hkv, T, dv), in f32
  GraphValue decay, beta;       // (B, Hkv, T, dk or 1), (B, Hkv or 1, T, 1), or null
  Dim group;
  double scale;
};

// Element t of the sequence: (B, H, X).
GraphValue at(GraphBuilder &g, const GraphValue &x, const Dim &t) {
  return g.squeeze(g.slice(x, 2, t, 1), {2});
}

// S = exp(decay) S; v = beta (v - S^T k); S = S + k v^T; o = scale S^T q
std::pair<GraphValue, GraphValue> step(GraphBuilder &g, const Recurrence &r, GraphValue state, const Dim &t) {
  GraphValue q = at(g, r.query, t), k = at(g, r.key, t), v = at(g, r.value, t);
  if (r.decay)
    state = g.mul(state, g.unsqueeze(g.exp(at(g, r.decay, t)), {3}));
  if (r.beta)
    v = g.mul(at(g, r.beta, t), g.sub(v, g.contract(state, {B, H, K, V}, k, {B, H, K}, {B, H, V}, v.type)));
  state = g.add(state, g.mul(g.unsqueeze(k, {3}), g.unsqueeze(v, {2})));
  if (g.failed())
    return {};
  GraphValue heads = g.reshape(q, {q.dims[0], state.dims[1], r.group, q.dims[2]});
  GraphValue o = g.contract(heads, {B, H, G, K}, state, {B, H, K, V}, {B, H, G, V}, q.type);
  if (g.failed())
    return {};
  return {state, g.mul(g.reshape(o, {q.dims[0], q.dims[1], state.dims[3]}), g.like(q, r.scale))};
}

// Query, key and value with their heads apart, decay and beta as the rule asks for.
std::optional<Recurrence> operands(NodeImport &n) {
  GraphBuilder &g = n.g;
  Recurrence r;
  int64_t numHeads = n.integer("q_num_heads", 0), numKvHeads = n.integer("kv_num_heads", 0);
  if (numKvHeads < 1 || numHeads < 1 || numHeads % numKvHeads != 0) {
    n.fail("q_num_heads (" + Twine(numHeads) + ") must be a multiple of kv_num_heads (" + Twine(numKvHeads) + ")");
    return std::nullopt;
  }
  std::string rule = n.text("update_rule", "gated_delta");
  bool isGated = rule == "gated" || rule == "gated_delta", isDelta = rule == "delta" || rule == "gated_delta";
  if (!isGated && !isDelta && rule != "linear")
    n.fail("attribute 'update_rule' is '" + rule + "', expected linear, gated, delta or gated_delta");
  if (n.has(4) != isGated || n.has(5) != isDelta)
    n.fail("update_rule '" + rule + "' needs " + (isGated ? "a decay" : "no decay") + " and " +
           (isDelta ? "a beta" : "no beta"));
  auto apart = [&](size_t i, int64_t heads, const Twine &what) {
    return splitHeads(n, g.cast(n.in(i), OnnxType::Float), heads, what);
  };
  r.query = apart(0, numHeads, "query");
  r.key = apart(1, numKvHeads, "key");
  r.value = apart(2, numKvHeads, "value");
  if (isGated)
    r.decay = apart(4, numKvHeads, "decay");
  if (isDelta && n.checkRank(5, 3, "beta"))
    r.beta = apart(5, n.in(5).dims[2].is(1) ? 1 : numKvHeads, "beta");
  if (g.failed())
    return std::nullopt;
  r.group = numHeads / numKvHeads;
  r.scale = n.real("scale", 0);
  if (r.scale == 0 && r.query.dims[3].isStatic())
    r.scale = 1 / std::sqrt(double(r.query.dims[3].value()));
  return r;
}

void linearAttention(NodeImport &n) {
  GraphBuilder &g = n.g;
  std::optional<Recurrence> r = operands(n);
  if (!r)
    return;
  Dims stateDims = {r->key.dims[0], r->key.dims[1], r->key.dims[3], r->value.dims[3]};
  GraphValue state = n.has(3) ? g.cast(n.in(3), OnnxType::Float) : g.full(OnnxType::Float, stateDims, 0);
  if (g.failed() || (n.has(3) && !n.checkRank(3, 4, "past_state")))
    return;
  Dims outDims = {r->query.dims[0], r->query.dims[1], r->query.dims[2], r->value.dims[3]};
  GraphValue outputs = g.wrap(g.empty(OnnxType::Float, outDims), OnnxType::Float, outDims);
  SmallVector<GraphValue> last =
      g.loop(r->query.dims[2], {state, outputs}, [&](const Dim &t, ArrayRef<GraphValue> old) {
        auto [next, o] = step(g, *r, old[0], t);
        return SmallVector<GraphValue>{next, g.insertSlice(old[1], g.unsqueeze(o, {2}), 2, t)};
      });
  if (g.failed())
    return;
  n.out(g.cast(mergeHeads(g, last[1]), n.in(0).type));
  n.out(g.cast(last[0], n.has(3) ? n.in(3).type : n.in(0).type), 1);
}

} // namespace

ArrayRef<OpRow> heddle::recurrenceOps() {
  static const OpRow table[] = {{"", "LinearAttention", 27, linearAttention}};
  return table;
}
