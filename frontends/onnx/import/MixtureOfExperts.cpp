// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MoE and QMoE of com.microsoft: each expert is computed for all tokens, times a weight that is 0 where a token did not choose it. The raise
// stage finds experts in that sum, of which a decoder then computes those that were chosen.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/StoredCodes.h"

using namespace mlir;
using namespace heddle;

namespace {

// Where the inputs of one of an expert's matrices stand; MoE has no scales and zeros.
struct MatrixInputs {
  size_t weights, bias;
  std::optional<size_t> scales, zeros;
};

struct Experts {
  NodeImport &n;
  GraphBuilder &g;
  int64_t bits = 0, block = 0; // of codes; 0 bits: floats

  // x (tokens, K) @ W_e^T + b_e with the e-th matrix (N, K) of stored (experts, N, K).
  GraphValue product(const GraphValue &x, const MatrixInputs &in, int64_t e);

private:
  Value matrix(const MatrixInputs &in, int64_t e);
};

// What lies `bytes` behind the beginning of stored numbers.
StorageAttr behind(StorageAttr storage, int64_t bytes) {
  return StorageAttr::get(storage.getContext(), storage.getType(), storage.getFile(), storage.getOffset() + bytes,
                          storage.getTransposed());
}

int64_t bytesOf(const GraphValue &v) {
  return onnxTypeBits(v.type) / 8;
}

Value Experts::matrix(const MatrixInputs &in, int64_t e) {
  const GraphValue &weights = n.in(in.weights);
  WeightOp stored = storedWeight(weights);
  if (g.failed() || !n.checkRank(in.weights, 3, "weights of experts"))
    return {};
  if (!stored || !weights.isStatic())
    return n.unsupported("with weights that are computed, or too few to be stored, is not supported"), Value();
  int64_t rows = weights.dims[1].value(), perRow = weights.dims[2].value();
  StorageAttr storage = behind(stored.getStorage(), e * rows * perRow * bytesOf(weights));
  std::string name = (stored.getName() + "[" + Twine(e) + "]").str();
  if (bits == 0)
    return WeightOp::create(g.b, stored.getLoc(), RankedTensorType::get({rows, perRow}, g.elementType(weights.type)),
                            name, storage);
  int64_t columns = perRow * 8 / bits, size = block ? block : columns, groups = columns / size;
  const GraphValue &scales = n.in(*in.scales);
  WeightOp storedScales = storedWeight(scales);
  if (g.failed())
    return {};
  if (columns % size || !storedScales || !g.product(scales.dims).is(weights.dims[0].value() * rows * groups))
    return n.unsupported("with scales that are not stored for each block of " + Twine(size) + " is not supported"),
           Value();
  Codes codes;
  codes.bits = bits;
  codes.axis = 1;
  codes.size = size;
  codes.scales = behind(storedScales.getStorage(), e * rows * groups * bytesOf(scales));
  codes.zero = int64_t(1) << (bits - 1);
  if (in.zeros && n.has(*in.zeros)) {
    const GraphValue &zeros = n.in(*in.zeros);
    WeightOp storedZeros = storedWeight(zeros);
    int64_t perRowZeros = int64_t(llvm::divideCeil(groups * bits, 8));
    if (g.failed() || !storedZeros || !g.product(zeros.dims).is(weights.dims[0].value() * rows * perRowZeros))
      return n.unsupported("with zero points that are not stored for each block is not supported"), Value();
    codes.zeros = behind(storedZeros.getStorage(), e * rows * perRowZeros);
  }
  return numbersAt(g, stored, name, storage, codes, rows, columns);
}

GraphValue Experts::product(const GraphValue &x, const MatrixInputs &in, int64_t e) {
  Value weights = matrix(in, e);
  if (!weights || g.failed())
    return {};
  auto type = cast<RankedTensorType>(weights.getType());
  if (!x.dims.back().is(type.getDimSize(1)))
    return n.fail("weights of experts with " + Twine(type.getDimSize(1)) + " columns do not fit what they multiply");
  GraphValue y;
  if (bits) {
    y = linear(g, x, weights);
  } else {
    OnnxType stored = n.in(in.weights).type;
    GraphValue matrix = g.wrap(weights, stored, {Dim(type.getDimSize(0)), Dim(type.getDimSize(1))});
    y = g.matmul(x, g.transpose(g.cast(matrix, x.type), {1, 0}));
  }
  if (n.has(in.bias) && n.checkRank(in.bias, 2, "biases of experts"))
    y = g.add(y, g.cast(g.squeeze(g.slice(n.in(in.bias), 0, e, 1), {0}), y.type));
  return y;
}

// The weight of each expert (tokens, experts) by the logits of the router: the k largest probabilities, divided by their sum where asked for.
GraphValue routedWeights(NodeImport &n, const GraphValue &logits, int64_t k) {
  GraphBuilder &g = n.g;
  GraphValue probabilities = g.softmax(logits, 1);
  if (g.failed())
    return {};
  Dim experts = logits.dims[1];
  // An expert is chosen that fewer than k precede, by their logits or, of equal ones, by their numbers.
  GraphValue mine = g.unsqueeze(logits, {2}), other = g.unsqueeze(logits, {1});
  GraphValue row = g.unsqueeze(g.iota(OnnxType::Int64, experts), {1}), column = g.iota(OnnxType::Int64, experts);
  GraphValue precedes =
      g.logicalOr(g.compare(Predicate::Greater, other, mine),
                  g.logicalAnd(g.compare(Predicate::Equal, other, mine), g.compare(Predicate::Less, column, row)));
  GraphValue rank = g.reduce(Reduction::Sum, g.cast(precedes, OnnxType::Int64), {2}, false);
  GraphValue chosen =
      g.select(g.compare(Predicate::Less, rank, g.like(rank, double(k))), probabilities, g.like(probabilities, 0));
  return n.integer("normalize_routing_weights", 0) ? g.div(chosen, g.reduce(Reduction::Sum, chosen, {1}, true))
                                                   : chosen;
}

// The activation of what the first matrix gave, and what the third one gave, or nothing.
GraphValue activated(NodeImport &n, const GraphValue &x, const GraphValue &beside) {
  GraphBuilder &g = n.g;
  std::string name = n.text("activation_type", "relu");
  if (g.failed())
    return {};
  if (name == "swiglu") {
    GraphValue gate = x, up = beside;
    int64_t fusion = n.integer("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2 || (fusion && beside))
      return n.fail("swiglu_fusion is " + Twine(fusion) + ", expected 0 to 2, and 0 beside fc3_experts_weights");
    std::optional<Dim> half = x.dims[1].dividedBy(2);
    if (fusion && !half)
      return n.fail("gates and what they multiply are an odd number");
    if (fusion == 1) {
      GraphValue pairs = g.reshape(x, {x.dims[0], *half, Dim(2)});
      gate = g.squeeze(g.slice(pairs, 2, 0, 1), {2}), up = g.squeeze(g.slice(pairs, 2, 1, 1), {2});
    } else if (fusion) {
      gate = g.slice(x, 1, 0, *half), up = g.slice(x, 1, *half, *half);
    }
    if (!up)
      return n.fail("activation swiglu has no fc3_experts_weights, and swiglu_fusion is 0");
    if (n.hasAttribute("swiglu_limit")) {
      double limit = n.real("swiglu_limit", 0);
      gate = g.minimum(gate, g.like(gate, limit));
      up = g.minimum(g.maximum(up, g.like(up, -limit)), g.like(up, limit));
    }
    return g.mul(swish(g, gate, n.real("activation_alpha", 1)), g.add(up, g.like(up, n.real("activation_beta", 0))));
  }
  GraphValue y = name == "relu"       ? g.maximum(x, g.like(x, 0))
                 : name == "gelu"     ? gelu(g, x)
                 : name == "silu"     ? swish(g, x, 1)
                 : name == "identity" ? x
                                      : n.unsupported("activation_type '" + name + "' is not supported");
  return beside ? g.mul(y, beside) : y;
}

// Whether what is given of a matrix is of so many experts, and of types that are read.
bool checkExperts(NodeImport &n, const MatrixInputs &in, int64_t experts, bool areCodes) {
  for (std::optional<size_t> i : {std::optional(in.weights), std::optional(in.bias), in.scales, in.zeros}) {
    if (!i || !n.has(*i))
      continue;
    const GraphValue &v = n.in(*i);
    if (v.rank() == 0 || !v.dims[0].is(experts))
      return n.fail("input " + Twine(*i) + " is not of " + Twine(experts) + " experts, as router_probs is"), false;
    bool holdsCodes = areCodes && (i == in.weights || i == in.zeros);
    if (holdsCodes ? v.type != OnnxType::Uint8 : !isFloat(v.type))
      return n.fail("input " + Twine(*i) + " has " + onnxTypeName(int32_t(v.type)) + " elements, expected " +
                    (holdsCodes ? "uint8" : "floats")),
             false;
  }
  return true;
}

void mixture(NodeImport &n, Experts &experts, const MatrixInputs &first, const MatrixInputs &second,
             const MatrixInputs &third, std::optional<size_t> mixing) {
  constexpr int64_t mostExperts = 4096; // each becomes ops of its own
  GraphBuilder &g = n.g;
  const GraphValue &input = n.in(0), &router = n.in(1);
  int64_t k = n.integer("k", 1);
  if (!n.checkRank(1, 2, "router_probs") || g.failed())
    return;
  if (n.integer("use_sparse_mixer", 0) || (mixing && n.has(*mixing)))
    return (void)n.unsupported("with use_sparse_mixer or router_weights is not supported");
  if (input.rank() < 2 || !router.dims[1].isStatic() || k < 1 || k > router.dims[1].value())
    return (void)n.fail("k is " + Twine(k) + ", expected 1 to the number of experts, which must be known");
  int64_t count = router.dims[1].value();
  if (count > mostExperts)
    return (void)n.unsupported("with " + Twine(count) + " experts is not supported: at most " + Twine(mostExperts));
  for (const MatrixInputs *in : {&first, &second, &third})
    if (!checkExperts(n, *in, count, experts.bits != 0))
      return;
  OnnxType wide = accumulatorOf(input.type);
  GraphValue x = g.reshape(g.cast(input, wide), {router.dims[0], input.dims.back()});
  GraphValue weights = routedWeights(n, g.cast(router, wide), k), sum;
  for (int64_t e = 0; e < count && !g.failed(); ++e) {
    GraphValue inner = experts.product(x, first, e);
    GraphValue beside = n.has(third.weights) ? experts.product(x, third, e) : GraphValue();
    GraphValue y = experts.product(activated(n, inner, beside), second, e);
    y = g.mul(g.slice(weights, 1, e, 1), y);
    sum = sum ? g.add(sum, y) : y;
  }
  if (!g.failed())
    n.out(g.cast(g.reshape(sum, input.dims), input.type));
}

// input, router_probs, then weights and biases of the three matrices
void mixtureOfExperts(NodeImport &n) {
  Experts experts{n, n.g};
  mixture(n, experts, {2, 3, {}, {}}, {4, 5, {}, {}}, {6, 7, {}, {}}, std::nullopt);
}

// input, router_probs, then weights, scales and biases of the three matrices, their zero points, router_weights
void quantizedMixtureOfExperts(NodeImport &n) {
  Experts experts{n, n.g, n.integer("expert_weight_bits", 4), n.integer("block_size", 0)};
  if (n.text("quant_type", "int") != "int" || n.integer("weights_prepacked", -1) > 0)
    n.unsupported("with quant_type '" + n.text("quant_type", "int") + "' or weights_prepacked is not supported");
  if (!n.integer("normalize_routing_weights", 0)) // ONNX Runtime 1.32 on a CPU normalizes all the same
    n.unsupported("without normalize_routing_weights is not supported: runtimes may normalize all the same");
  if (experts.bits != 4 && experts.bits != 8)
    n.unsupported("with " + Twine(experts.bits) + " bits is not supported: expected 4 or 8");
  mixture(n, experts, {2, 4, 3, 11}, {5, 7, 6, 12}, {8, 10, 9, 13}, 14);
}

} // namespace

ArrayRef<OpRow> heddle::mixtureOfExpertsOps() {
  static const OpRow table[] = {
      {"com.microsoft", "MoE", 1, mixtureOfExperts},
      {"com.microsoft", "QMoE", 1, quantizedMixtureOfExperts},
  };
  return table;
}
