// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Funcs for what a thread should load once: left to the device's compiler, four codes of a word are four loads of a byte.

#include "compiler/codegen/targets/opencl/MatmulOperands.h"

using namespace heddle;
using Halide::Expr;
using Halide::Func;
using Halide::Var;

// As a pipeline reads rows: what is prepared is f32 before.
static bool readsBf16(const MatmulSpec &spec) {
  return spec.activation == MatmulActivation::Bf16 && !spec.prepares;
}

opencl::MatmulOperands::MatmulOperands(PipelineBuilder &b, const MatmulSpec &spec, int64_t step, int rows)
    : spec(spec), numRows(spec.isGated ? 2 : 1), exceeds(spec.k % step != 0),
      act(b.input("act", readsBf16(spec) ? Halide::Type(Halide::UInt(16)) : Halide::Type(Halide::Float(32)),
                  {spec.k, 0})),
      prepared(b, spec, act, rows), packed(b.weights(spec.layout, spec.weightRows(), spec.k, /*inWords=*/true)) {
  if (spec.hasBias)
    bias = b.input("bias", Halide::Float(32), {spec.weightRows()});
  if (spec.accumulate)
    residual = b.input("residual", Halide::Float(32), {spec.n, 0});
  Var i("i"), quad("quad"), row("row"), word("word"), block("block"), column("column");
  auto ofRows = [&](auto expression) {
    std::vector<Expr> values;
    for (const auto &[packedRow, ofBias] : rowsOfColumn(spec, column))
      values.push_back(expression(packedRow));
    return Halide::Tuple(values);
  };
  if (inQuads()) {
    fours = b.func("fours");
    fours(i, quad, row) = loaded(4 * quad + i, row);
  }
  if (inWords()) {
    Expr first = word * WeightExpressions::wordColumns(spec.layout);
    low = b.func("low");
    low(word, column) = ofRows([&](Expr r) { return packed.words(r, first).low; });
    if (spec.layout.isQuantized() && spec.layout.highBits) {
      high = b.func("high");
      high(word, column) = ofRows([&](Expr r) { return packed.words(r, first).high; });
    }
  }
  if (spec.layout.isQuantized()) {
    scale = b.func("scale");
    scale(block, column) = ofRows([&](Expr r) { return packed.terms(r, block).scale; });
    if (spec.layout.hasMin) {
      min = b.func("min");
      min(block, column) = ofRows([&](Expr r) { return packed.terms(r, block).min; });
    }
  }
}

// The quad's first column stays a multiple of four.
Expr opencl::MatmulOperands::within(Expr k) const {
  int last = int(spec.k) - 1;
  if (!exceeds)
    return k;
  return inQuads() ? Halide::min(k / 4, last / 4) * 4 + k % 4 : Halide::min(k, last);
}

Expr opencl::MatmulOperands::loaded(Expr k, Expr row) const {
  return spec.prepares ? prepared.at(k, row) : act(k, Halide::min(row, act.dim(1).extent() - 1));
}

Expr opencl::MatmulOperands::activation(Expr k, Expr row) const {
  Expr at = within(k), value = inQuads() ? Expr(fours(at % 4, at / 4, row)) : loaded(at, row);
  if (readsBf16(spec))
    value = bfloatExpr(value);
  return exceeds ? Halide::select(k < int(spec.k), value, 0.0f) : value;
}

std::vector<Expr> opencl::MatmulOperands::weights(Expr column, Expr k) const {
  Expr at = within(k);
  std::vector<Expr> values;
  std::vector<std::pair<Expr, Expr>> rows = rowsOfColumn(spec, column);
  for (size_t r = 0; r < numRows; ++r) {
    WeightExpressions::Terms terms;
    if (scale.defined()) {
      Expr block = at / int(spec.layout.block);
      terms.scale = valueOf(scale(block, column), r, numRows);
      if (min.defined())
        terms.min = valueOf(min(block, column), r, numRows);
    }
    if (!inWords()) {
      values.push_back(packed.at(rows[r].first, at, terms));
      continue;
    }
    Expr word = at / WeightExpressions::wordColumns(spec.layout);
    WeightExpressions::Words words{valueOf(low(word, column), r, numRows),
                                   high.defined() ? valueOf(high(word, column), r, numRows) : Expr()};
    values.push_back(packed.at(rows[r].first, at, words, terms));
  }
  return values;
}

void opencl::MatmulOperands::computeAt(const Halide::LoopLevel &quad, const Halide::LoopLevel &block, int rows) {
  // What is bounded here Halide cannot see behind clamped indices: one quad, block and column of the thread, and so many of its rows.
  if (fours.defined()) {
    const std::vector<Var> &args = fours.args();
    fours.compute_at(quad).bound(args[0], 0, 4).bound_extent(args[1], 1).vectorize(args[0], 4);
    fours.bound_extent(args[2], rows).unroll(args[2]);
  }
  int words = 4 / WeightExpressions::wordColumns(spec.layout);
  for (Func func : {low, high})
    if (func.defined()) {
      func.compute_at(quad).bound_extent(func.args()[0], words).bound_extent(func.args()[1], 1);
      func.unroll(func.args()[0]);
    }
  for (Func func : {scale, min})
    if (func.defined())
      func.compute_at(block).bound_extent(func.args()[0], 1).bound_extent(func.args()[1], 1);
}

Expr opencl::MatmulOperands::finished(const std::vector<Expr> &sums, Expr column, Expr row) {
  std::vector<std::pair<Expr, Expr>> rows = rowsOfColumn(spec, column);
  std::vector<Expr> values;
  values.reserve(numRows);
  for (size_t r = 0; r < numRows; ++r)
    values.push_back(spec.hasBias ? sums[r] + bias(rows[r].second) : sums[r]);
  Expr value = opencl::finished(spec, values);
  return spec.accumulate ? value + residual(column, row) : value;
}
