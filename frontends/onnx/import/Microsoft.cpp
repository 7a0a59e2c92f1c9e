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

// The norm of the sum of embeddings, and how many tokens the mask at this input leaves.
void normOfEmbeddings(NodeImport &n, const GraphValue &sum, const GraphValue &gamma, const GraphValue &beta,
                      size_t maskInput) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return;
  GraphValue wide = g.cast(sum, accumulatorOf(sum.type));
  Normalized y = normalize(g, wide, lastAxis(wide), n.real("epsilon", 1e-12));
  GraphValue result = g.add(g.mul(y.value, g.cast(gamma, wide.type)), g.cast(beta, wide.type));
  n.out(g.cast(result, sum.type));
  bool hasMask = n.has(maskInput);
  GraphValue mask = hasMask ? g.cast(n.in(maskInput), OnnxType::Int32) : g.full(OnnxType::Int32, {n.in(0).dims[0]}, 0);
  n.out(hasMask ? g.reduce(Reduction::Sum, mask, lastAxis(mask), false) : mask, 1);
  n.out(sum, 2);
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
  normOfEmbeddings(n, sum, n.in(5), n.in(6), 7);
}

// The same of codes: behind the mask the scales of the tables, gamma and beta, then their zero points.
void qEmbedLayerNormalization(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &ids = n.in(0);
  if (!n.checkRank(0, 2, "input_ids"))
    return;
  auto real = [&](const GraphValue &codes, size_t i) {
    if (g.failed())
      return GraphValue();
    GraphValue centered = g.sub(g.cast(codes, OnnxType::Int32), g.cast(g.reshape(n.in(i + 5), {}), OnnxType::Int32));
    return g.mul(g.cast(centered, OnnxType::Float), g.reshape(n.in(i), {}));
  };
  GraphValue positions = g.iota(OnnxType::Int64, ids.dims[1]);
  GraphValue sum = g.add(real(g.gather(n.in(2), ids, 0), 8), real(g.gather(n.in(3), positions, 0), 9));
  if (n.has(1) && n.has(4))
    sum = g.add(sum, real(g.gather(n.in(4), n.in(1), 0), 10));
  normOfEmbeddings(n, sum, real(n.in(5), 11), real(n.in(6), 12), 7);
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

// Where the inputs stand that hold codes, their scales and their zeros.
struct CodeInputs {
  size_t codes, scales, zeros;
};

// The matrix (rows, columns) of codes in bytes, with a scale for every `block` of a row, where all of it lies in the file; else null.
Value storedBlocks(NodeImport &n, const CodeInputs &in, int64_t rows, int64_t columns, int64_t bits, int64_t block) {
  GraphBuilder &g = n.g;
  WeightOp weight = storedWeight(n.in(in.codes));
  bool hasZeros = n.has(in.zeros);
  if (g.failed() || !weight || (bits != 4 && bits != 8) || columns % block || n.in(in.codes).type != OnnxType::Uint8 ||
      (hasZeros && n.in(in.zeros).type != OnnxType::Uint8))
    return {};
  // What is stored must be as large as the attributes say.
  int64_t blocks = columns / block;
  auto hasElements = [&](size_t i, int64_t count) { return g.product(n.in(i).dims).is(count); };
  if (!hasElements(in.codes, rows * columns * bits / 8) || !hasElements(in.scales, rows * blocks) ||
      (hasZeros && !hasElements(in.zeros, rows * int64_t(llvm::divideCeil(blocks * bits, 8)))))
    return {};
  Codes codes;
  codes.bits = bits;
  codes.axis = 1;
  codes.size = block;
  codes.zero = int64_t(1) << (bits - 1);
  if (!addNumbers(g, codes, n.in(in.scales), hasZeros ? n.in(in.zeros) : GraphValue()))
    return {};
  return numbersAt(g, weight, weight.getName(), weight.getStorage(), codes, rows, columns);
}

// The weight (N, K) of a MatMulNBits.
Value storedFactor(NodeImport &n, int64_t rows, int64_t columns, int64_t bits, int64_t block) {
  const GraphValue &a = n.in(0);
  bool isPlain = n.in(2).type == OnnxType::Float || n.in(2).type == OnnxType::Float16;
  return isPlain && a.rank() >= 1 && a.dims.back().is(columns) ? storedBlocks(n, {1, 2, 3}, rows, columns, bits, block)
                                                               : Value();
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
  if (n.has(4) || n.integer("weight_prepacked", 0))
    return (void)n.unsupported("with g_idx or weight_prepacked is not supported");
  int64_t blocks = llvm::divideCeil(columns, block);
  OnnxType wide = accumulatorOf(a.type);
  if (Value weights = wide == OnnxType::Float ? storedFactor(n, rows, columns, bits, block) : Value()) {
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

// v with each element of one axis repeated, cut to `length`.
GraphValue repeated(GraphBuilder &g, const GraphValue &v, int64_t axis, int64_t times, const Dim &length) {
  if (g.failed())
    return {};
  Dims apart = v.dims, merged = v.dims;
  apart.insert(apart.begin() + axis + 1, Dim(1));
  Dims spread = apart;
  spread[axis + 1] = Dim(times);
  merged[axis] = v.dims[axis] * Dim(times);
  return g.slice(g.reshape(g.broadcast(g.reshape(v, apart), spread), merged), axis, 0, length);
}

// The numbers that codes of 4 bits stand for in PyPI's bitsandbytes: FP4, NF4.
constexpr double fp4Levels[16] = {0,   5.208333333e-03,  0.66666667,  1,  0.33333333,  0.5,  0.16666667,  0.25,
                                  -0., -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25};
constexpr double nf4Levels[16] = {-1,
                                  -0.6961928009986877,
                                  -0.5250730514526367,
                                  -0.39491748809814453,
                                  -0.28444138169288635,
                                  -0.18477343022823334,
                                  -0.09105003625154495,
                                  0,
                                  0.07958029955625534,
                                  0.16093020141124725,
                                  0.24611230194568634,
                                  0.33791524171829224,
                                  0.44070982933044434,
                                  0.5626170039176941,
                                  0.7229568362236023,
                                  1};

// A (…, K) @ W^T with W (N, K), of whose numbers, one after the other, a block shares the largest: level[code] * largest. The high bits of a byte
// come first.
void matMulBnb4(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &a = n.in(0), &packed = n.in(1), &largest = n.in(2);
  int64_t rows = n.integer("N", 0), columns = n.integer("K", 0), block = n.integer("block_size", 0),
          type = n.integer("quant_type", 1);
  if (g.failed())
    return;
  if (rows < 1 || columns < 1 || rows > (int64_t(1) << 40) / columns || block < 2 || block % 2 ||
      (type != 0 && type != 1) || packed.type != OnnxType::Uint8)
    return (void)n.fail("N " + Twine(rows) + ", K " + Twine(columns) + ", block_size " + Twine(block) +
                        ", quant_type " + Twine(type) +
                        ": expected positive numbers, FP4 (0) or NF4 (1) and weights of uint8");
  if (!n.integer("transB", 1))
    return (void)n.unsupported("with transB 0 is not supported");
  OnnxType wide = accumulatorOf(a.type);
  int64_t count = rows * columns, bytes = int64_t(llvm::divideCeil(count, 2)),
          blocks = int64_t(llvm::divideCeil(count, block));
  GraphValue flat = g.reshape(packed, {Dim(bytes)}), sixteen = g.like(packed, 16);
  GraphValue codes = g.concat({g.unsqueeze(g.div(flat, sixteen), {1}), g.unsqueeze(g.modulo(flat, sixteen), {1})}, 1);
  codes = g.slice(g.reshape(codes, {Dim(bytes * 2)}), 0, 0, count);
  // Levels by their number: a sum of decisions needs no table in memory.
  GraphValue levels = g.full(wide, {Dim(count)}, 0);
  const double *of = type ? nf4Levels : fp4Levels;
  for (int64_t code = 0; code < 16; ++code)
    levels =
        g.select(g.compare(Predicate::Equal, codes, g.like(codes, double(code))), g.scalar(wide, of[code]), levels);
  GraphValue scale = g.cast(g.reshape(largest, {Dim(blocks)}), wide);
  GraphValue weights =
      g.reshape(g.mul(levels, repeated(g, scale, 0, std::min(block, count), count)), {Dim(rows), Dim(columns)});
  n.out(g.cast(g.matmul(g.cast(a, wide), g.transpose(weights, {1, 0})), a.type));
}

// The rows of a GatherBlockQuantized.
Value storedTable(NodeImport &n, int64_t bits, int64_t block) {
  const GraphValue &bytes = n.in(0), &scale = n.in(2);
  if (n.g.failed() || bytes.rank() != 2 || !bytes.isStatic() || scale.rank() != 2 || scale.type != OnnxType::Float ||
      !scale.dims[0].is(bytes.dims[0].value()))
    return {};
  return storedBlocks(n, {0, 2, 3}, bytes.dims[0].value(), bytes.dims[1].value() * 8 / bits, bits, block);
}

// Whether input i is stored in four bits, which were widened to bytes.
bool isOfFourBits(NodeImport &n, size_t i) {
  return llvm::any_of(n.importer.model.graph.initializers, [&](const OnnxTensor &tensor) {
    return tensor.name == n.node.inputs[i] && onnxTypeBits(tensor.type) == 4;
  });
}

// data, indices, scales, zero_points: rows of numbers (code - zero) * scale with one scale for each block of `quantize_axis`.
void gatherBlockQuantized(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &data = n.in(0), &scale = n.in(2);
  int64_t block = n.integer("block_size", 128);
  if (g.failed())
    return;
  bool isPacked = data.type == OnnxType::Uint8 && !isOfFourBits(n, 0);
  int64_t bits = isPacked ? n.integer("bits", 4) : 8;
  int64_t axis = n.axis(n.integer("gather_axis", 0), data.rank());
  int64_t quantized = n.axis(n.integer("quantize_axis", 1), data.rank());
  if (g.failed())
    return;
  if (block < 1 || (bits != 2 && bits != 4 && bits != 8) || isFloat(data.type) || scale.rank() != data.rank())
    return (void)n.fail("block_size " + Twine(block) + ", bits " + Twine(bits) + ", scales of rank " +
                        Twine(scale.rank()) + ": expected a positive number, 2, 4 or 8 bits and the rank of data");
  if (Value table = isPacked && axis == 0 && quantized == 1 ? storedTable(n, bits, block) : Value()) {
    auto type = cast<RankedTensorType>(table.getType());
    GraphValue numbers = g.wrap(table, OnnxType::Float, {Dim(type.getDimSize(0)), Dim(type.getDimSize(1))});
    return n.out(g.gather(numbers, n.in(1), 0));
  }
  // Codes of fewer bits lie along the last axis.
  GraphValue codes = unpacked(g, data, bits);
  if (g.failed() || (n.has(3) && !n.checkRank(3, data.rank(), "zero_points")))
    return;
  OnnxType wide = accumulatorOf(scale.type);
  Dim length = codes.dims[quantized];
  if (length.isStatic()) {
    block = std::min(block, std::max<int64_t>(length.value(), 1));
    if (!scale.dims[quantized].is(int64_t(llvm::divideCeil(length.value(), block))))
      return (void)n.fail("scales are not one for each " + Twine(block) + " of " + Twine(length.value()) + " numbers");
  }
  GraphValue zero;
  if (n.has(3)) {
    GraphValue zeros = unpacked(g, n.in(3), bits);
    zero =
        repeated(g, g.failed() ? zeros : g.slice(zeros, quantized, 0, scale.dims[quantized]), quantized, block, length);
  } else if (isPacked) {
    zero = g.scalar(OnnxType::Int32, double(int64_t(1) << (bits - 1)));
  }
  GraphValue whole = g.cast(codes, OnnxType::Int32);
  if (zero)
    whole = g.sub(whole, g.cast(zero, OnnxType::Int32));
  GraphValue numbers = g.mul(g.cast(whole, wide), g.cast(repeated(g, scale, quantized, block, length), wide));
  n.out(g.cast(g.gather(numbers, n.in(1), axis), scale.type));
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
      {"com.microsoft", "GatherBlockQuantized", 1, gatherBlockQuantized},
      {"com.microsoft", "Gelu", 1, biasGelu<gelu>},
      {"com.microsoft", "MatMulBnb4", 1, matMulBnb4},
      {"com.microsoft", "MatMulNBits", 1, matMulNBits},
      {"com.microsoft", "QEmbedLayerNormalization", 1, qEmbedLayerNormalization},
      {"com.microsoft", "QuickGelu", 1, quickGelu},
      {"com.microsoft", "SkipLayerNormalization", 1, skipLayerNormalization},
      {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skipSimplifiedLayerNormalization},
  };
  return table;
}
