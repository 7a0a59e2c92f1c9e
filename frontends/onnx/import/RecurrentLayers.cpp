// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RNN, GRU and LSTM: what an input adds to the gates is one product over the whole sequence, the rest a loop over its elements.
#include "frontends/onnx/import/Quantized.h"

using namespace mlir;
using namespace heddle;

namespace {

enum Label : int64_t { B, G, I };

using Activation = std::function<GraphValue(GraphBuilder &, const GraphValue &)>;

// Gates and the activations that they take by default; `states`: values that an element hands to the next one, the hidden one first. Quantised, W
// and R are codes, with gates on the last axis, and inputs 8 to 11 their scales and zero points.
struct Kind {
  int64_t gates;
  SmallVector<StringRef> activations;
  size_t states;
  bool isQuantized = false;
};

struct Layer;
// One element: `x` (B, gates · H) is what the input adds to the gates. From the states (B, H) the next ones.
using Step = SmallVector<GraphValue> (*)(const Layer &l, const GraphValue &x, ArrayRef<GraphValue> states);

// The weights of all gates: of type float (gates · H, in), or codes (in, gates · H), with which products are those of bytes: what they are
// multiplied with is rounded to bytes by its own range.
struct Weights {
  GraphValue values;
  Quantized codes; // or none

  // x (rows, in) with `size` of gates · H from `first` on.
  GraphValue times(GraphBuilder &g, const GraphValue &x, const Dim &first, const Dim &size) const {
    if (values)
      return g.contract(x, {B, I}, g.slice(values, 0, first, size), {G, I}, {B, G}, x.type);
    auto part = [&](const GraphValue &v) { return v && v.rank() && !v.dims[0].is(1) ? g.slice(v, 0, first, size) : v; };
    return realMatmul(g, quantizedDynamically(g, x),
                      {g.slice(codes.codes, 1, first, size), part(codes.scale), part(codes.zero)});
  }
};

// One direction of a node. H is the hidden size.
struct Layer {
  NodeImport &n;
  GraphBuilder &g;
  Dim hidden;
  GraphValue x;         // (T, B, gates · H): X W^T and the biases that are added in any case
  Weights recurrence;   // R
  GraphValue lateBias;  // (H): of a GRU with linear_before_reset, what is added before the reset
  GraphValue peepholes; // (3 H) of an LSTM: input, output, forget
  SmallVector<Activation> activations;
  bool isReverse;

  GraphValue gate(const GraphValue &all, int64_t i) const { return g.slice(all, 1, hidden * i, hidden); }
  // h R^T, of `count` gates from `first` on.
  GraphValue recurrent(const GraphValue &h, int64_t first, int64_t count) const {
    return recurrence.times(g, h, hidden * first, hidden * count);
  }
  GraphValue activate(size_t i, const GraphValue &v) const { return activations[i](g, clipped(v)); }
  GraphValue clipped(const GraphValue &v) const {
    if (!n.hasAttribute("clip"))
      return v;
    double bound = n.real("clip", 0);
    return g.minimum(g.maximum(v, g.like(v, -bound)), g.like(v, bound));
  }
};

// h' = f(x + h R^T)
SmallVector<GraphValue> rnnStep(const Layer &l, const GraphValue &x, ArrayRef<GraphValue> states) {
  return {l.activate(0, l.g.add(x, l.recurrent(states[0], 0, 1)))};
}

// z = f(x_z + h R_z^T), r = f(x_r + h R_r^T), c = g(x_h + (r h) R_h^T) or g(x_h + r (h R_h^T + b)), h' = (1 - z) c + z h
SmallVector<GraphValue> gruStep(const Layer &l, const GraphValue &x, ArrayRef<GraphValue> states) {
  GraphBuilder &g = l.g;
  const GraphValue &h = states[0];
  GraphValue recurrent = l.recurrent(h, 0, 2);
  GraphValue z = l.activate(0, g.add(l.gate(x, 0), l.gate(recurrent, 0)));
  GraphValue r = l.activate(0, g.add(l.gate(x, 1), l.gate(recurrent, 1)));
  GraphValue late;
  if (l.n.integer("linear_before_reset", 0)) {
    late = l.recurrent(h, 2, 1);
    late = g.mul(r, l.lateBias ? g.add(late, l.lateBias) : late);
  } else {
    late = l.recurrent(g.mul(r, h), 2, 1);
  }
  GraphValue c = l.activate(1, g.add(l.gate(x, 2), late));
  return {g.add(g.mul(g.sub(g.like(z, 1), z), c), g.mul(z, h))};
}

// i, f = f(x + h R^T + p c), c' = f c + i g(x_c + h R_c^T), o = f(x_o + h R_o^T + p_o c'), h' = o h(c')
SmallVector<GraphValue> lstmStep(const Layer &l, const GraphValue &x, ArrayRef<GraphValue> states) {
  GraphBuilder &g = l.g;
  const GraphValue &c = states[1];
  GraphValue sums = g.add(x, l.recurrent(states[0], 0, 4));
  // The gates lie in the order input, output, forget, cell.
  auto looking = [&](int64_t i, const GraphValue &cell) {
    GraphValue sum = l.gate(sums, i);
    return l.peepholes ? g.add(sum, g.mul(g.slice(l.peepholes, 0, l.hidden * i, l.hidden), cell)) : sum;
  };
  GraphValue in = l.activate(0, looking(0, c));
  GraphValue forget = l.n.integer("input_forget", 0) ? g.sub(g.like(in, 1), in) : l.activate(0, looking(2, c));
  GraphValue cell = g.add(g.mul(forget, c), g.mul(in, l.activate(1, l.gate(sums, 3))));
  GraphValue out = l.activate(0, looking(1, cell));
  return {g.mul(out, l.activations[2](g, cell)), cell};
}

// Numbers of an attribute, each taken by the next activation that has such a parameter.
struct Parameters {
  ArrayRef<float> left;
  double next(double otherwise) {
    if (left.empty())
      return otherwise;
    double number = left.front();
    left = left.drop_front();
    return number;
  }
};

// By name, with the parameters of the ONNX specification where the node has none.
Activation activationOf(NodeImport &n, StringRef name, Parameters &alphas, Parameters &betas) {
  using Builder = GraphBuilder;
  using V = const GraphValue &;
  std::string lower = name.lower();
  if (lower == "sigmoid")
    return [](Builder &g, V x) { return g.sigmoid(x); };
  if (lower == "tanh")
    return [](Builder &g, V x) { return g.tanh(x); };
  if (lower == "relu")
    return [](Builder &g, V x) { return g.maximum(x, g.like(x, 0)); };
  if (lower == "softsign")
    return [](Builder &g, V x) { return g.div(x, g.add(g.like(x, 1), g.abs(x))); };
  if (lower == "leakyrelu")
    return [a = alphas.next(0.01)](Builder &g, V x) {
      return g.select(g.compare(Predicate::Less, x, g.like(x, 0)), g.mul(g.like(x, a), x), x);
    };
  if (lower == "affine")
    return [a = alphas.next(1), b = betas.next(0)](Builder &g, V x) {
      return g.add(g.mul(g.like(x, a), x), g.like(x, b));
    };
  if (lower == "scaledtanh")
    return [a = alphas.next(1), b = betas.next(1)](Builder &g, V x) {
      return g.mul(g.like(x, a), g.tanh(g.mul(g.like(x, b), x)));
    };
  if (lower == "hardsigmoid")
    return [a = alphas.next(0.2), b = betas.next(0.5)](Builder &g, V x) {
      GraphValue line = g.add(g.mul(g.like(x, a), x), g.like(x, b));
      return g.maximum(g.like(x, 0), g.minimum(g.like(x, 1), line));
    };
  n.unsupported("with activation '" + name + "' is not supported");
  return {};
}

// Those of the node, direction after direction, or the kind's.
SmallVector<Activation> activationsOf(NodeImport &n, const Kind &kind, size_t directions) {
  const OnnxAttribute *names = n.attribute("activations", 8), *alpha = n.attribute("activation_alpha", 6),
                      *beta = n.attribute("activation_beta", 6);
  size_t count = kind.activations.size() * directions;
  if (names && names->strings.size() != count)
    n.fail("attribute 'activations' has " + Twine(names->strings.size()) + " names, expected " + Twine(count));
  Parameters alphas{alpha ? ArrayRef<float>(alpha->floats) : ArrayRef<float>()};
  Parameters betas{beta ? ArrayRef<float>(beta->floats) : ArrayRef<float>()};
  SmallVector<Activation> made;
  for (size_t i = 0; i < count && !n.g.failed(); ++i)
    made.push_back(activationOf(n, names ? StringRef(names->strings[i]) : kind.activations[i % kind.activations.size()],
                                alphas, betas));
  return made;
}

// Index d of the first axis.
GraphValue at(GraphBuilder &g, const GraphValue &v, const Dim &d) {
  return g.squeeze(g.slice(v, 0, d, 1), {0});
}

size_t gatesAxis(const Kind &kind) {
  return kind.isQuantized ? 2 : 1;
}
Dim hiddenSize(NodeImport &n, const Kind &kind) {
  return n.in(2).dims[3 - gatesAxis(kind)];
}

// Direction `d` of the node, x of which is (T, B, input size).
Layer layerOf(NodeImport &n, const Kind &kind, const GraphValue &x, size_t d, ArrayRef<Activation> activations,
              bool isReverse) {
  GraphBuilder &g = n.g;
  auto own = [&](size_t i) { return at(g, n.in(i), int64_t(d)); };
  auto wide = [&](size_t i) { return g.cast(own(i), x.type); };
  auto weights = [&](size_t i, size_t scale) {
    return kind.isQuantized ? Weights{{}, {own(i), own(scale), own(scale + 1)}} : Weights{wide(i), {}};
  };
  Layer l{n, g, hiddenSize(n, kind), {}, weights(2, 10), {}, {}, SmallVector<Activation>(activations), isReverse};
  Dim rows = x.dims[0] * x.dims[1], size = l.hidden * kind.gates;
  GraphValue flat = weights(1, 8).times(g, g.reshape(x, {rows, x.dims[2]}), 0, size);
  l.x = g.reshape(flat, {x.dims[0], x.dims[1], size});
  if (n.has(3)) {
    GraphValue biases = wide(3); // of the input, then of the recurrence
    GraphValue early = g.slice(biases, 0, 0, size), other = g.slice(biases, 0, size, size);
    bool isLate = n.integer("linear_before_reset", 0) != 0;
    if (isLate) {
      l.lateBias = g.slice(other, 0, l.hidden * 2, l.hidden);
      other = g.concat({g.slice(other, 0, 0, l.hidden * 2), g.full(x.type, {l.hidden}, 0)}, 0);
    }
    l.x = g.add(g.add(l.x, early), other);
  }
  if (n.has(7))
    l.peepholes = wide(7);
  return l;
}

// Runs a layer: Y (T, B, H) and the last states. Behind a sequence's end Y is 0, and states stay.
std::pair<GraphValue, SmallVector<GraphValue>> run(const Layer &l, Step step, ArrayRef<GraphValue> initial,
                                                   const GraphValue &lengths) {
  GraphBuilder &g = l.g;
  if (g.failed())
    return {};
  Dims dims = {l.x.dims[0], l.x.dims[1], l.hidden};
  SmallVector<GraphValue> state(initial);
  state.push_back(g.wrap(g.empty(l.x.type, dims), l.x.type, dims));
  state = g.loop(dims[0], state, [&](const Dim &i, ArrayRef<GraphValue> old) {
    Dim t = l.isReverse ? dims[0] - 1 - i : i;
    SmallVector<GraphValue> next = step(l, at(g, l.x, t), old.drop_back());
    if (g.failed())
      return next;
    GraphValue y = next[0];
    if (lengths) {
      GraphValue isThere =
          g.compare(Predicate::Less, g.cast(g.integers(OnnxType::Int64, {}, {t}), lengths.type), lengths);
      y = g.select(isThere, y, g.like(y, 0));
      for (size_t s = 0; s < next.size(); ++s)
        next[s] = g.select(isThere, next[s], old[s]);
    }
    next.push_back(g.insertSlice(old.back(), g.unsqueeze(y, {0}), 0, t));
    return next;
  });
  if (g.failed())
    return {};
  GraphValue y = state.pop_back_val();
  return {y, state};
}

// X, W, R, B, sequence_lens, initial_h, initial_c, P. X is (T, B, input size), W (directions, gates · H, input size), R (directions, gates · H, H).
void recurrentLayer(NodeImport &n, const Kind &kind, Step step) {
  GraphBuilder &g = n.g;
  std::string direction = n.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return (void)n.fail("attribute 'direction' is '" + direction + "', expected forward, reverse or bidirectional");
  if (!n.checkRank(0, 3, "X") || !n.checkRank(1, 3, "W") || !n.checkRank(2, 3, "R"))
    return;
  size_t directions = direction == "bidirectional" ? 2 : 1;
  const GraphValue &w = n.in(1), &r = n.in(2);
  Dim hidden = hiddenSize(n, kind);
  for (const GraphValue *weights : {&w, &r})
    if (!weights->isStatic() || !weights->dims[0].is(int64_t(directions)) ||
        weights->dims[gatesAxis(kind)] != hidden * kind.gates)
      return (void)n.fail("W and R must have " + Twine(directions) + " directions and " + Twine(kind.gates) +
                          " gates of a hidden size that is known");
  bool isBatchFirst = n.integer("layout", 0) != 0;
  GraphValue x = g.cast(n.in(0), accumulatorOf(n.in(0).type));
  if (isBatchFirst)
    x = g.transpose(x, {1, 0, 2});
  GraphValue lengths;
  if (n.has(4) && n.checkRank(4, 1, "sequence_lens"))
    lengths = g.unsqueeze(n.in(4), {1});
  if (g.failed())
    return;
  SmallVector<Activation> activations = activationsOf(n, kind, directions);
  if (g.failed())
    return;
  size_t each = kind.activations.size();
  SmallVector<GraphValue> outputs;
  SmallVector<SmallVector<GraphValue>> last(kind.states);
  for (size_t d = 0; d < directions; ++d) {
    Layer l = layerOf(n, kind, x, d, ArrayRef(activations).slice(d * each, each), direction == "reverse" || d == 1);
    SmallVector<GraphValue> initial;
    for (size_t s = 0; s < kind.states; ++s) {
      GraphValue zeros = g.full(x.type, {x.dims[1], hidden}, 0);
      GraphValue given = n.optional(5 + s);
      if (given && !n.checkRank(5 + s, 3, "a first state"))
        return;
      given = given && isBatchFirst ? g.transpose(given, {1, 0, 2}) : given;
      initial.push_back(given ? g.cast(at(g, given, int64_t(d)), x.type) : zeros);
    }
    auto [y, states] = run(l, step, initial, lengths);
    if (g.failed())
      return;
    outputs.push_back(g.unsqueeze(y, {1}));
    for (size_t s = 0; s < kind.states; ++s)
      last[s].push_back(g.unsqueeze(states[s], {0}));
  }
  auto finished = [&](ArrayRef<GraphValue> parts, int64_t axis, ArrayRef<int64_t> batchFirst) {
    GraphValue whole = parts.size() == 1 ? parts.front() : g.concat(parts, axis);
    return g.cast(isBatchFirst ? g.transpose(whole, batchFirst) : whole, n.in(0).type);
  };
  n.out(finished(outputs, 1, {2, 0, 1, 3}));
  for (size_t s = 0; s < kind.states; ++s)
    n.out(finished(last[s], 0, {1, 0, 2}), 1 + s);
}

void rnn(NodeImport &n) {
  recurrentLayer(n, {1, {"Tanh"}, 1}, rnnStep);
}
void gru(NodeImport &n) {
  recurrentLayer(n, {3, {"Sigmoid", "Tanh"}, 1}, gruStep);
}
void lstm(NodeImport &n) {
  recurrentLayer(n, {4, {"Sigmoid", "Tanh", "Tanh"}, 2}, lstmStep);
}
void dynamicQuantizeLstm(NodeImport &n) {
  recurrentLayer(n, {4, {"Sigmoid", "Tanh", "Tanh"}, 2, /*isQuantized=*/true}, lstmStep);
}

} // namespace

ArrayRef<OpRow> heddle::recurrentLayerOps() {
  static const OpRow table[] = {
      {"com.microsoft", "DynamicQuantizeLSTM", 1, dynamicQuantizeLstm},
      {"", "GRU", 7, gru},
      {"", "LSTM", 7, lstm},
      {"", "RNN", 7, rnn},
  };
  return table;
}
