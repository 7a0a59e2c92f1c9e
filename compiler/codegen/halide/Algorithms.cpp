// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of the dialect: a paragraph each.

#include "compiler/codegen/halide/AlgorithmBuilder.h"
#include "compiler/codegen/halide/ScalarExpressions.h"
#include "dialect/Norms.h"

#include <numeric>

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::Var;

LogicalResult AlgorithmBuilder::addEmbedding(EmbeddingOp op) {
  if (!isa<BlockArgument>(op.getTable()))
    return op.emitError("the table of an embedding must be an input of the kernel");
  // result[..., c] = scale * table[ids[...], c]
  Expr scale = number(op.getScale());
  define(op.getResult(), view(op.getTable()).contiguity, [&](ArrayRef<Expr> index) {
    Expr row = tableRow(op.getTable(), view(op.getIds()).read(index.drop_back()));
    Expr value = asF32(op.getTable(), {row, index.back()});
    return op.getScale().isExactlyValue(1.0) ? value : value * scale;
  });
  return success();
}

// Which number of a norm's weight, and of its bias, counts for an element.
template <typename NormOp> static Expr weightIndex(NormOp op, int64_t width, ArrayRef<Expr> index) {
  return isPerHead(op) ? index[1] * int(width) + index.back() : index.back();
}

LogicalResult AlgorithmBuilder::addRmsNorm(RmsNormOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t width = shape.back();
  // scale = 1 / sqrt(sum x^2 / width + eps)
  ReadFn sum = rowSum(shape.drop_back(), width, [&](ArrayRef<Expr> index) {
    Expr x = view(op.getInput()).read(index);
    return x * x;
  });
  Func scale = keep(StageKind::Scalar, "scale", shape.drop_back(), {}, [&](ArrayRef<Expr> index) {
    return 1.0f / Halide::sqrt(sum(index) / float(width) + number(op.getEps()));
  });
  // result = x scale (weight + offset)
  define(op.getResult(), meet(view(op.getInput()).contiguity, {width, width}), [&](ArrayRef<Expr> index) {
    Expr weight = asF32(op.getWeight(), {weightIndex(op, width, index)});
    if (!op.getWeightOffset().isZero())
      weight = weight + number(op.getWeightOffset());
    return view(op.getInput()).read(index) * readFunc(scale)(index.drop_back()) * weight;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addLayerNorm(LayerNormOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t width = shape.back();
  const TensorView input = view(op.getInput());
  // mean = sum x / width
  ReadFn sum = rowSum(shape.drop_back(), width, input.read);
  Func mean = keep(StageKind::Scalar, "mean", shape.drop_back(), {},
                   [&](ArrayRef<Expr> index) { return sum(index) / float(width); });
  auto centred = [&](ArrayRef<Expr> index) { return input.read(index) - readFunc(mean)(index.drop_back()); };
  // scale = 1 / sqrt(sum (x - mean)^2 / width + eps)
  ReadFn squares =
      rowSum(shape.drop_back(), width, [&](ArrayRef<Expr> index) { return centred(index) * centred(index); });
  Func scale = keep(StageKind::Scalar, "scale", shape.drop_back(), {}, [&](ArrayRef<Expr> index) {
    return 1.0f / Halide::sqrt(squares(index) / float(width) + number(op.getEps()));
  });
  // result = (x - mean) scale weight + bias
  define(op.getResult(), meet(input.contiguity, {width, width}), [&](ArrayRef<Expr> index) {
    Expr place = weightIndex(op, width, index);
    Expr result = centred(index) * readFunc(scale)(index.drop_back()) * asF32(op.getWeight(), {place});
    return op.getBias() ? result + asF32(op.getBias(), {place}) : result;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addRope(RopeOp op) {
  if (!op.getTable() || !isa<BlockArgument>(op.getTable()))
    return op.emitError("the cosines and sines of a rope must be an input of the kernel");
  int64_t headDim = op.getInput().getType().getShape().back(), rotaryDim = op.getRope().getRotaryDim();
  int64_t half = rotaryDim / 2, offset = op.getOffset();
  bool interleaved = op.getRope().getInterleaved();
  Contiguity contiguity = meet(view(op.getInput()).contiguity, {headDim, headDim});
  if (!interleaved)
    contiguity = {std::gcd(contiguity.run, std::gcd(half, headDim)), headDim};
  if (offset)
    contiguity.run = std::gcd(contiguity.run, offset);
  define(op.getResult(), contiguity, [&](ArrayRef<Expr> index) {
    // (a, b) becomes (a cos - b sin, b cos + a sin): x cos + partner (±sin)
    // d counts from the first rotated dimension.
    Expr d = index.back() - int(offset),
         position = tableRow(op.getTable(), view(op.getPositions()).read({index[0], index[2]}));
    Expr first = interleaved ? d % 2 == 0 : d < int(half);
    Expr pair = interleaved ? d / 2 : d % int(half);
    Expr partner = interleaved ? select(first, d + 1, d - 1) : select(first, d + int(half), d - int(half));
    bool partial = rotaryDim < headDim;
    Expr isRotated = offset ? d >= 0 && d < int(rotaryDim) : d < int(rotaryDim);
    if (partial) {
      partner = select(isRotated, partner, d);
      pair = Halide::clamp(pair, 0, int(half) - 1);
    }
    partner = partner + int(offset);
    // Which it is; bounds inference cannot see it.
    partner = Halide::unsafe_promise_clamped(partner, 0, int(headDim) - 1);
    Expr x = view(op.getInput()).read(index), y = view(op.getInput()).read(withLast(index, partner));
    Expr cosine = view(op.getTable()).read({position, pair}),
         sine = view(op.getTable()).read({position, pair + int(half)});
    Expr rotated = x * cosine + y * select(first, sine * -1.0f, sine);
    return partial ? select(isRotated, rotated, x) : rotated;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addGlu(GluOp op) {
  Contiguity contiguity = view(op.getGate()).contiguity;
  if (op.getUp())
    contiguity = meet(contiguity, view(op.getUp()).contiguity);
  define(op.getResult(), contiguity, [&](ArrayRef<Expr> index) {
    Expr result = activationExpr(op.getActivation(), view(op.getGate()).read(index));
    return op.getUp() ? result * view(op.getUp()).read(index) : result;
  });
  return success();
}

LogicalResult AlgorithmBuilder::addSoftcap(SoftcapOp op) {
  Expr cap = number(op.getCap());
  define(op.getResult(), view(op.getInput()).contiguity,
         [&](ArrayRef<Expr> index) { return cap * tanhExpr(view(op.getInput()).read(index) / cap); });
  return success();
}

LogicalResult AlgorithmBuilder::addQuantize(QuantizeOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  int64_t rows = shape[0], width = shape[1];
  const TensorView input = view(op.getInput());
  // maximum[b] = max_k |x[32 b + k]|, as bits: those of positive numbers are in the order of the numbers, and a
  // maximum of integers is free to be taken across a vector.
  Func maximum =
      keep(StageKind::BlockReduction, "block_maximum", {rows, width / 32}, {}, [](ArrayRef<Expr>) { return Expr(0); });
  std::vector<Var> vars = variables(2);
  Halide::RDom k(0, 32, "k");
  Expr magnitude = Halide::reinterpret<int32_t>(input.read({vars[1], vars[0] * 32 + k})) & 0x7fffffff;
  maximum(vars) = Halide::max(maximum(vars), magnitude);
  algorithm.stages.back().reduced = k;
  // scale = maximum / 127
  define(
      op.getScales(), unconstrained(op.getScales().getType()),
      [&](ArrayRef<Expr> i) { return Halide::reinterpret<float>(maximum(i[1], i[0])) / 127.0f; }, /*extraReads=*/2);
  // code = round(x / scale), 0 where scale is 0; a subnormal scale may be off by so much that a code leaves its range
  define(
      op.getCodes(), {std::gcd<int64_t>(32, input.contiguity.run), 32},
      [&](ArrayRef<Expr> i) {
        Expr scale = view(op.getScales()).read({i[0], i[1] / 32});
        Expr ratio = select(scale == 0.0f, 0.0f, input.read(i) / scale);
        Expr bounded = select(ratio > -127.0f, select(ratio < 127.0f, ratio, 127.0f), -127.0f);
        return Halide::cast<int8_t>(Halide::cast<int32_t>(Halide::round(bounded)));
      },
      /*extraReads=*/2);
  // sum[s] = sum_k code[16 s + k]
  Func sums =
      keep(StageKind::BlockReduction, "block_sums", {rows, width / 16}, {}, [](ArrayRef<Expr>) { return Expr(0); });
  Halide::RDom j(0, 16, "k");
  sums(vars) += Halide::cast<int32_t>(view(op.getCodes()).read({vars[1], vars[0] * 16 + j}));
  algorithm.stages.back().reduced = j;
  views[op.getSums()] = {readFunc(sums), {width / 16, width / 16}};
  return success();
}
