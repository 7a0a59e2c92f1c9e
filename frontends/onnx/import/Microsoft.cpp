// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of com.microsoft beside attention: norms of sums, gelus, products with packed weights.
#include "frontends/onnx/import/Formulas.h"
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/StoredCodes.h"

using namespace mlir;
using namespace heddle;

namespace {

SmallVector<int64_t> lastAxis(const GraphValue &x) {
  return {x.rank() - 1};
}

// The norm of input + skip (+ bias), times gamma (+ beta); the sum is output 3.
void skipNorm(NodeImport &n, bool isRms, size_t beta, size_t bias) {
  GraphBuilder &g = n.g;
  GraphValue sum = g.add(n.in(0), n.in(1));
  if (n.has(bias))
    sum = g.add(sum, n.in(bias));
  if (g.failed())
    return;
  GraphValue wide = g.cast(sum, accumulatorOf(sum.type));
  Normalized y = (isRms ? normalizeRms : normalize)(g, wide, lastAxis(wide), n.real("epsilon", 1e-12));
  GraphValue result = g.mul(y.value, g.cast(n.in(2), wide.type));
  if (beta && n.has(beta))
    result = g.add(result, g.cast(n.in(beta), wide.type));
  n.out(g.cast(result, sum.type));
  n.out(y.mean, 1);
  n.out(y.inverse, 2);
  n.out(sum, 3);
}

void skipLayerNormalization(NodeImport &n) {
  skipNorm(n, false, 3, 4);
}
void skipSimplifiedLayerNormalization(NodeImport &n) {
  skipNorm(n, true, 0, 3);
}

// ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids
void embedLayerNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &ids = n.in(0);
  if (!n.checkRank(0, 2, "input_ids"))
    return;
  GraphValue positions = n.has(8) ? n.in(8) : g.iota(OnnxType::Int64, ids.dims[1]);
  GraphValue sum = g.add(g.gather(n.in(2), ids, 0), g.gather(n.in(3), positions, 0));
  if (n.has(1) && n.has(4))
    sum = g.add(sum, g.gather(n.in(4), n.in(1), 0));
  if (g.failed())
    return;
  GraphValue wide = g.cast(sum, accumulatorOf(sum.type));
  Normalized y = normalize(g, wide, lastAxis(wide), n.real("epsilon", 1e-12));
  GraphValue result = g.add(g.mul(y.value, g.cast(n.in(5), wide.type)), g.cast(n.in(6), wide.type));
  n.out(g.cast(result, sum.type));
  GraphValue mask = n.has(7) ? g.cast(n.in(7), OnnxType::Int32) : g.full(OnnxType::Int32, {ids.dims[0]}, 0);
  n.out(n.has(7) ? g.reduce(Reduction::Sum, mask, lastAxis(mask), false) : mask, 1);
  n.out(sum, 2);
}

template <GraphValue (*Curve)(GraphBuilder &, const GraphValue &)> void biasGelu(NodeImport &n) {
  n.out(Curve(n.g, n.has(1) ? n.g.add(n.in(0), n.in(1)) : n.in(0)));
}

void quickGelu(NodeImport &n) {
  n.out(swish(n.g, n.in(0), n.real("alpha", 1.702)));
}

// Numbers of `bits` in bytes, low ones first: (…, bytes) -> (…, bytes * 8 / bits).
GraphValue unpacked(GraphBuilder &g, const GraphValue &bytes, int64_t bits) {
  if (g.failed() || bits == 8)
    return bytes;
  SmallVector<GraphValue> parts;
  int64_t count = 8 / bits, range = int64_t(1) << bits;
  for (int64_t i = 0; i < count; ++i) {
    GraphValue shifted = g.div(bytes, g.like(bytes, double(int64_t(1) << (bits * i))));
    parts.push_back(g.unsqueeze(g.modulo(shifted, g.like(bytes, double(range))), {bytes.rank()}));
  }
  Dims dims = bytes.dims;
  dims.back() = dims.back() * Dim(count);
  return g.reshape(g.concat(parts, bytes.rank()), dims);
}

// The weight (N, K) of a MatMulNBits whose codes, scales and zeros lie in the file; null where they do not.
Value storedBlocks(NodeImport &n, int64_t rows, int64_t columns, int64_t bits, int64_t block) {
  GraphBuilder &g = n.g;
  WeightOp weight = storedWeight(n.in(1));
  bool isPlain = n.in(2).type == OnnxType::Float || n.in(2).type == OnnxType::Float16;
  if (g.failed() || !weight || (bits != 4 && bits != 8) || columns % block || !isPlain ||
      (n.has(3) && n.in(3).type != OnnxType::Uint8) || n.in(0).rank() < 1 || !n.in(0).dims.back().is(columns))
    return {};
  // What is stored must be as large as the attributes say.
  auto elements = [&](size_t i) {
    Dim product = g.product(n.in(i).dims);
    return product.isStatic() ? product.value() : -1;
  };
  int64_t blocks = columns / block;
  if (elements(1) != rows * columns * bits / 8 || elements(2) != rows * blocks ||
      (n.has(3) && elements(3) != rows * int64_t(llvm::divideCeil(blocks * bits, 8))))
    return {};
  Codes codes;
  codes.bits = bits;
  codes.axis = 1;
  codes.size = block;
  codes.zero = int64_t(1) << (bits - 1);
  if (!addNumbers(g, codes, n.in(2), n.has(3) ? n.in(3) : GraphValue()))
    return {};
  return numbersAt(g, weight, weight.getName(), weight.getStorage(), codes, rows, columns);
}

// A (…, K) @ W^T with W (N, K): block b of row n is (q - zero[n, b]) * scale[n, b].
void matMulNBits(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &a = n.in(0), &packed = n.in(1);
  int64_t rows = n.integer("N", 0), columns = n.integer("K", 0), bits = n.integer("bits", 4),
          block = n.integer("block_size", 0);
  if (g.failed())
    return;
  if (rows < 1 || columns < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8) || packed.type != OnnxType::Uint8)
    return (void)n.fail("N " + Twine(rows) + ", K " + Twine(columns) + ", block_size " + Twine(block) + ", bits " +
                        Twine(bits) + ": expected positive numbers, 2, 4 or 8 bits and weights of uint8");
  if (n.has(4))
    return (void)n.unsupported("with g_idx is not supported");
  int64_t blocks = llvm::divideCeil(columns, block);
  OnnxType wide = accumulatorOf(a.type);
  if (Value weights = wide == OnnxType::Float ? storedBlocks(n, rows, columns, bits, block) : Value()) {
    GraphValue y = linear(g, g.cast(a, wide), weights);
    return n.out(g.cast(n.has(5) ? g.add(y, g.cast(n.in(5), wide)) : y, a.type));
  }
  if (g.failed())
    return;
  GraphValue q = unpacked(g, g.reshape(packed, {Dim(rows), Dim(blocks), Dim(block * bits / 8)}), bits);
  GraphValue scale = g.cast(g.reshape(n.in(2), {Dim(rows), Dim(blocks), Dim(1)}), wide),
             zero = g.scalar(wide, double(int64_t(1) << (bits - 1)));
  if (n.has(3) && n.in(3).type == OnnxType::Uint8) {
    int64_t bytes = llvm::divideCeil(blocks * bits, 8);
    GraphValue zeros = unpacked(g, g.reshape(n.in(3), {Dim(rows), Dim(bytes)}), bits);
    zero = g.unsqueeze(g.cast(g.slice(zeros, 1, 0, blocks), wide), {2});
  } else if (n.has(3)) {
    zero = g.cast(g.reshape(n.in(3), {Dim(rows), Dim(blocks), Dim(1)}), wide);
  }
  GraphValue weights = g.reshape(g.mul(g.sub(g.cast(q, wide), zero), scale), {Dim(rows), Dim(blocks * block)});
  if (g.failed())
    return;
  GraphValue y = g.matmul(g.cast(a, wide), g.transpose(g.slice(weights, 1, 0, columns), {1, 0}));
  if (n.has(5))
    y = g.add(y, g.cast(n.in(5), wide));
  n.out(g.cast(y, a.type));
}

// Operand `i` of a fused product as (batch..., rows, columns): transBatch says that its first axis belongs behind the batch's, trans
// that its last two change places after that.
GraphValue fusedOperand(NodeImport &n, size_t i, StringRef trans, StringRef transBatch) {
  GraphValue x = n.in(i);
  if (n.g.failed() || x.rank() < 2)
    return x;
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  if (n.integer(transBatch, 0))
    std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  if (n.integer(trans, 0))
    std::swap(permutation[x.rank() - 2], permutation[x.rank() - 1]);
  return n.g.transpose(x, permutation);
}

// alpha A B
void fusedMatMul(NodeImport &n) {
  if (n.in(0).type != n.in(1).type)
    n.fail("inputs of two types, expected one");
  GraphValue product =
      n.g.matmul(fusedOperand(n, 0, "transA", "transBatchA"), fusedOperand(n, 1, "transB", "transBatchB"));
  double alpha = n.real("alpha", 1);
  n.out(alpha == 1 ? product : n.g.mul(n.g.like(product, alpha), product));
}

} // namespace

ArrayRef<OpRow> heddle::microsoftOps() {
  static const OpRow table[] = {
      {"com.microsoft", "BiasGelu", 1, biasGelu<gelu>},
      {"com.microsoft", "EmbedLayerNormalization", 1, embedLayerNormalization},
      {"com.microsoft", "FastGelu", 1, biasGelu<geluTanh>},
      {"com.microsoft", "FusedMatMul", 1, fusedMatMul},
      {"com.microsoft", "Gelu", 1, biasGelu<gelu>},
      {"com.microsoft", "MatMulNBits", 1, matMulNBits},
      {"com.microsoft", "QuickGelu", 1, quickGelu},
      {"com.microsoft", "SkipLayerNormalization", 1, skipLayerNormalization},
      {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skipSimplifiedLayerNormalization},
  };
  return table;
}
