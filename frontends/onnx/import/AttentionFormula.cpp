// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/AttentionFormula.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {

enum Label : int64_t { B, H, G, S, T, D };

// (B, H, S, X) -> (B, Hkv, G, S, X): the heads of a group share a key and value head.
GraphValue grouped(GraphBuilder &g, const GraphValue &x, const Dim &numKvHeads, const Dim &group) {
  return g.reshape(x, {x.dims[0], numKvHeads, group, x.dims[2], x.dims[3]});
}

GraphValue ungrouped(GraphBuilder &g, const GraphValue &x) {
  if (g.failed())
    return {};
  return g.reshape(x, {x.dims[0], x.dims[1] * x.dims[2], x.dims[3], x.dims[4]});
}

// The probabilities of scores (B, H, S, T) beside one more score of each head.
GraphValue softmaxBesideSink(GraphBuilder &g, const GraphValue &scores, const GraphValue &sink) {
  if (g.failed())
    return {};
  GraphValue column = g.reshape(g.cast(sink, scores.type), {Dim(1), scores.dims[1], Dim(1), Dim(1)});
  column = g.broadcast(column, {scores.dims[0], scores.dims[1], scores.dims[2], Dim(1)});
  return g.slice(g.softmax(g.concat({scores, column}, 3), 3), 3, 0, scores.dims[3]);
}

} // namespace

AttentionResult heddle::attend(GraphBuilder &g, const AttentionOperands &a, ChangeScores changeScores,
                               ChangeScores changeProbabilities) {
  AttentionResult r;
  if (g.failed())
    return r;
  if (a.query.rank() != 4 || a.key.rank() != 4 || a.value.rank() != 4) {
    g.fail("query, key and value have ranks " + Twine(a.query.rank()) + ", " + Twine(a.key.rank()) + " and " +
           Twine(a.value.rank()) + ", expected 4");
    return r;
  }
  Dim heads = a.query.dims[1], kvHeads = a.key.dims[1];
  std::optional<Dim> group = heads.dividedBy(kvHeads);
  if (!group || (group->isStatic() && group->value() < 1)) {
    g.fail("num_heads" + (heads.isStatic() ? " (" + Twine(heads.value()) + ")" : Twine("")) +
           " must be a multiple of num_kv_heads" +
           (kvHeads.isStatic() ? " (" + Twine(kvHeads.value()) + ")" : Twine("")));
    return r;
  }
  // One head of keys and values for all is a dimension of 1 beside the queries'.
  bool isGrouped = !group->is(1) && !kvHeads.is(1);
  OnnxType wide = accumulatorOf(a.query.type);
  double scale = a.scale;
  if (scale == 0) {
    if (!a.query.dims[3].isStatic() || a.query.dims[3].value() < 1) {
      g.fail("head_dim is not known, which the scale follows from");
      return r;
    }
    scale = 1 / std::sqrt(double(a.query.dims[3].value()));
  }
  r.scores = isGrouped ? ungrouped(g, g.contract(grouped(g, a.query, kvHeads, *group), {B, H, G, S, D}, a.key,
                                                 {B, H, T, D}, {B, H, G, S, T}, wide))
                       : g.contract(a.query, {B, H, S, D}, a.key, {B, H, T, D}, {B, H, S, T}, wide);
  r.scores = g.mul(r.scores, g.scalar(wide, scale));
  r.capped =
      a.softcap > 0 ? g.mul(g.tanh(g.div(r.scores, g.scalar(wide, a.softcap))), g.scalar(wide, a.softcap)) : r.scores;
  r.masked = a.bias ? g.add(r.capped, g.cast(a.bias, wide)) : r.capped;
  if (g.failed())
    return r;
  GraphValue hidden = g.wrap(g.filled(wide, {}, g.limit(wide, false)), wide, {});
  if (a.allowed)
    r.masked = g.select(a.allowed, r.masked, hidden);
  if (changeScores)
    r.masked = changeScores(r.masked);
  GraphValue row = a.precision == OnnxType::Double ? g.cast(r.masked, a.precision) : r.masked;
  r.probabilities = a.sink ? softmaxBesideSink(g, row, a.sink) : g.softmax(row, 3);
  if (changeProbabilities)
    r.probabilities = changeProbabilities(r.probabilities);
  r.probabilities = g.cast(r.probabilities, wide);
  if (a.mayHideRows) {
    GraphValue seen = a.bias ? g.compare(Predicate::Greater, g.cast(a.bias, wide), hidden) : a.allowed;
    if (a.bias && a.allowed)
      seen = g.logicalAnd(seen, a.allowed);
    GraphValue any = seen && seen.rank() ? g.reduce(Reduction::Or, seen, {seen.rank() - 1}, true) : seen;
    r.probabilities = g.select(any, r.probabilities, g.scalar(wide, 0));
  }
  GraphValue weights = g.cast(r.probabilities, a.value.type);
  r.output = isGrouped ? ungrouped(g, g.contract(grouped(g, weights, kvHeads, *group), {B, H, G, S, T}, a.value,
                                                 {B, H, T, D}, {B, H, G, S, D}, a.query.type))
                       : g.contract(weights, {B, H, S, T}, a.value, {B, H, T, D}, {B, H, S, D}, a.query.type);
  return r;
}

GraphValue heddle::positionMask(GraphBuilder &g, const PositionMask &mask, const Dim &queries, const Dim &keys,
                                const GraphValue &offset) {
  GraphValue position = g.unsqueeze(g.iota(OnnxType::Int64, queries), {1}),
             key = g.unsqueeze(g.iota(OnnxType::Int64, keys), {0});
  if (!g.constantNumber(offset) || *g.constantNumber(offset) != 0)
    position = g.add(position, offset);
  GraphValue allowed;
  auto also = [&](const GraphValue &condition) { allowed = allowed ? g.logicalAnd(allowed, condition) : condition; };
  if (mask.isCausal)
    also(g.compare(Predicate::LessOrEqual, key, position));
  if (mask.left >= 0)
    also(g.compare(Predicate::GreaterOrEqual, key, g.sub(position, g.like(position, double(mask.left)))));
  if (mask.right >= 0)
    also(g.compare(Predicate::LessOrEqual, key, g.add(position, g.like(position, double(mask.right)))));
  return allowed;
}

GraphValue heddle::splitHeads(NodeImport &n, const GraphValue &x, int64_t numHeads, const Twine &what) {
  if (n.g.failed())
    return {};
  std::optional<Dim> size = numHeads > 0 && x.rank() == 3 ? x.dims[2].dividedBy(numHeads) : std::nullopt;
  if (!size)
    return n.fail(what + " of rank " + Twine(x.rank()) + " cannot be split: expected (batch, sequence, a multiple of " +
                  Twine(numHeads) + " heads)");
  return n.g.transpose(n.g.reshape(x, {x.dims[0], x.dims[1], Dim(numHeads), *size}), {0, 2, 1, 3});
}

GraphValue heddle::mergeHeads(GraphBuilder &g, const GraphValue &x) {
  if (g.failed())
    return {};
  return g.reshape(g.transpose(x, {0, 2, 1, 3}), {x.dims[0], x.dims[2], x.dims[1] * x.dims[3]});
}

GraphValue heddle::rotate(GraphBuilder &g, const GraphValue &x, const GraphValue &cos, const GraphValue &sin,
                          const Dim &rotaryDim, bool interleaved) {
  if (g.failed())
    return {};
  int64_t last = x.rank() - 1;
  std::optional<Dim> half = rotaryDim.dividedBy(2);
  if (!half)
    return g.fail("an odd number of elements cannot be rotated");
  GraphValue turned = g.slice(x, last, 0, rotaryDim), rest = g.slice(x, last, rotaryDim, x.dims[last] - rotaryDim),
             first, second;
  Dims pairs = turned.dims;
  if (interleaved) {
    pairs.back() = *half;
    pairs.push_back(2);
    GraphValue apart = g.reshape(turned, pairs);
    first = g.squeeze(g.slice(apart, last + 1, 0, 1), {last + 1});
    second = g.squeeze(g.slice(apart, last + 1, 1, 1), {last + 1});
  } else {
    first = g.slice(turned, last, 0, *half);
    second = g.slice(turned, last, *half, *half);
  }
  GraphValue real = g.sub(g.mul(cos, first), g.mul(sin, second)),
             imaginary = g.add(g.mul(sin, first), g.mul(cos, second));
  if (g.failed())
    return {};
  GraphValue result =
      interleaved ? g.reshape(g.concat({g.unsqueeze(real, {last + 1}), g.unsqueeze(imaginary, {last + 1})}, last + 1),
                              turned.dims)
                  : g.concat({real, imaginary}, last);
  return (x.dims[last] - rotaryDim).is(0) ? result : g.concat({result, rest}, last);
}
